"""The broker's own groups: nobody else writes their progress, whichever door he takes."""

from __future__ import annotations

from typing import Any

import pytest

from flaremq.broker.catalog.groups import BROKER_GROUPS, REVIVE_GROUP, TRANSACTION_GROUP
from flaremq.message.topics import HALF_TOPIC
from flaremq.protocol.bodies.client import ConsumerData, HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from flaremq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue, SetMessageRequestModeRequestBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from tests.support.broker_lab import BrokerLab, pull_fields, run

FAR = 2**62


def _doors(group: str, topic: str) -> dict[RequestCode, tuple[dict[str, Any] | None, bytes]]:
    """Every request that writes under a consumer group's name."""
    place = {"consumerGroup": group, "topic": topic, "queueId": 0}
    receipt = {"extraInfo": "0 1 60000 999 0 broker-a 0 0", "offset": 0}
    pop = {"maxMsgNums": 1, "invisibleTime": 1000, "pollTime": 0, "bornTime": 0, "initMode": 0}
    ack = BatchAck(
        consumer_group=group,
        topic=topic,
        retry="0",
        start_offset=0,
        queue_id=0,
        revive_queue_id=0,
        pop_time=1,
        invisible_time=60_000,
        bits=1,
    )
    queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=0)
    mode = SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode="POP", pop_share_queue_num=0)
    return {
        RequestCode.UPDATE_CONSUMER_OFFSET: (place | {"commitOffset": FAR}, b""),
        RequestCode.PULL_MESSAGE: (
            pull_fields(topic, 0, group=group, queue_id=0, sysFlag=5, commitOffset=FAR),
            b"",
        ),
        RequestCode.LITE_PULL_MESSAGE: (
            pull_fields(topic, 0, group=group, queue_id=0, sysFlag=5, commitOffset=FAR),
            b"",
        ),
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (
            {"topic": topic, "group": group, "timestamp": -1, "isForce": True},
            b"",
        ),
        RequestCode.CLONE_GROUP_OFFSET: (
            {"srcGroup": "other", "destGroup": group, "topic": topic, "offline": False},
            b"",
        ),
        RequestCode.POP_MESSAGE: (place | pop, b""),
        RequestCode.PEEK_MESSAGE: (place | pop, b""),
        RequestCode.NOTIFICATION: (place | pop, b""),
        RequestCode.ACK_MESSAGE: (place | receipt, b""),
        RequestCode.BATCH_ACK_MESSAGE: (
            None,
            BatchAckMessageRequestBody(broker_name="broker-a", acks=(ack,)).to_json(),
        ),
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: (place | receipt | {"invisibleTime": 1000}, b""),
        RequestCode.CONSUMER_SEND_MSG_BACK: ({"offset": 0, "group": group, "delayLevel": 1}, b""),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
            None,
            SubscriptionGroupConfig(group_name=group, consume_enable=False).to_json(),
        ),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: ({"groupName": group, "cleanOffset": True}, b""),
        RequestCode.HEART_BEAT: (
            None,
            HeartbeatData(client_id="c", consumer_data_set=(ConsumerData(group_name=group),)).to_json(),
        ),
        RequestCode.LOCK_BATCH_MQ: (
            None,
            LockBatchRequestBody(consumer_group=group, client_id="c", mq_set=(queue,)).to_json(),
        ),
        RequestCode.SET_MESSAGE_REQUEST_MODE: (None, mode.to_json()),
    }


@pytest.mark.parametrize("group", sorted(BROKER_GROUPS))
def test_every_door_to_the_brokers_own_groups_is_shut(group: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        await lab.sent(HALF_TOPIC.lower(), properties="PGROUP\x01g\x02")
        half = await lab.send("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01g\x02")
        assert half.code == 0
        state = lab.broker.state
        topics = (HALF_TOPIC, state.pop.log.topic) if group == REVIVE_GROUP else (HALF_TOPIC,)
        await state.transactions.persist()
        before = state.offsets.table()
        known = state.groups.all().get(group)
        for topic in topics:
            for code, (ext, body) in _doors(group, topic).items():
                reply = await lab.ask(code, ext, body)
                assert reply.code == ResponseCode.NO_PERMISSION, (code, reply)
        assert state.offsets.table() == before
        assert state.groups.all().get(group) == known
        assert group not in state.consumers.groups()
        assert not state.offsets.has_reset(group, HALF_TOPIC, 0)

    run(scenario)


def test_groups_of_clients_with_the_same_prefix_are_theirs() -> None:
    async def scenario(lab: BrokerLab) -> None:
        await lab.sent("orders")
        group = f"{TRANSACTION_GROUP[:12]}mqtt_event"
        assert (await lab.pull("orders", group=group)).code == 0
        place = {"consumerGroup": group, "topic": "orders", "queueId": 0, "commitOffset": 1}
        assert (await lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place)).code == 0
        assert lab.broker.state.offsets.find(group, "orders", 0) == 1

    run(scenario)
