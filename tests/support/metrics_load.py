"""The load behind ``tests/golden/metrics/rmq55.txt``, done again frame by frame; see the README there."""

from __future__ import annotations

import urllib.request
from typing import Any

from flaremq.message.batch import encode_batch
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.broker.pop_lab import Popped, Reply
from tests.support.broker_lab import BrokerLab, messages

TOPICS = ("MetA", "MetB", "MetDelay", "MetTx", "MetPop", "MetRetry")
GROUPS: dict[str, dict[str, str]] = {
    "CG_OK": {"MetA": "*", "MetDelay": "*", "MetTx": "*"},
    "CG_TAG": {"MetA": "TagB"},
    "CG_FAIL": {"MetRetry": "*"},
    "CG_LAG": {"MetB": "*"},
    "CG_POP": {"MetPop": "*"},
}
_JAVA: dict[str, Any] = {"language": "JAVA", "version": 513}
_COMMIT, _ROLLBACK = 8, 12


def text_of(lab: BrokerLab, path: str = "/metrics", accept: str = "") -> str:
    """A page of the broker's monitor; blocks, so call it on a thread."""
    monitor = lab.broker.monitor
    assert monitor is not None
    request = urllib.request.Request(f"http://127.0.0.1:{monitor.port}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return str(reply.read().decode())


class MetricsLoad:
    """What producers and consumers did. ``run`` it once; the clients stay until ``close``."""

    def __init__(self, lab: BrokerLab) -> None:
        self._lab = lab
        self._clients: list[RemotingClient] = []
        self._number = 0

    async def run(self) -> None:
        await self._make_topics()
        await self._connect()
        await self._send_plain()
        await self._send_delayed()
        await self._send_transactions()
        await self._pop_first()
        await self._lab.ephemeral.advanced(seconds=3)  # what was delayed is due
        await self._consume()
        await self._fail()
        await self._lab.ephemeral.advanced(seconds=3)  # what was sent back is due
        await self._take("CG_FAIL", "%RETRY%CG_FAIL", queues=1)
        await self._pop_again()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    # Producers

    def _properties(self, **more: str) -> str:
        self._number += 1
        pairs = {"UNIQ_KEY": f"C0A8000100002A9F{self._number:016X}", **more}
        return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())

    async def _make_topics(self) -> None:
        for topic in TOPICS:
            ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
            ext |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
            reply = await self._lab.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
            assert reply.code == 0, reply.remark
        group = SubscriptionGroupConfig(group_name="CG_POP")
        reply = await self._lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group.to_json())
        assert reply.code == 0, reply.remark

    async def _connect(self) -> None:
        """A client a group, and a producer."""
        producer = HeartbeatData(client_id="producer", producer_data_set=(ProducerData(group_name="PG"),))
        await self._beat(producer)
        for group, topics in GROUPS.items():
            subscriptions = tuple(
                SubscriptionData(topic=topic, sub_string=tags, sub_version=1)
                for topic, tags in {**topics, f"%RETRY%{group}": "*"}.items()
            )
            data = ConsumerData(group_name=group, subscription_data_set=subscriptions)
            await self._beat(HeartbeatData(client_id=group, consumer_data_set=(data,)))

    async def _beat(self, data: HeartbeatData) -> None:
        client = RemotingClient()
        self._clients.append(client)
        reply = await self._lab.ask(RequestCode.HEART_BEAT, None, data.to_json(), client=client, **_JAVA)
        assert reply.code == 0, reply.remark

    async def _send_plain(self) -> None:
        sizes = (100, 2000, 3000, 100)
        for number in range(20):
            more = {"TAGS": "TagB" if number % 2 else "TagA"}
            if number % 5 == 0:
                more["__SHARDINGKEY"] = "key"
            await self._send("MetA", bytes(sizes[number % 4]), number % 2, **more)
        batch = [Message("MetA", b"batched", properties={"UNIQ_KEY": f"B{number}"}) for number in range(5)]
        reply = await self._lab.send("MetA", encode_batch(batch), code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        assert reply.code == 0, reply.remark
        for topic, count in (("MetB", 12), ("MetRetry", 4), ("MetPop", 8)):
            for number in range(count):
                await self._send(topic, b"body", number % 2)

    async def _send(self, topic: str, body: bytes, queue_id: int = 0, **properties: str) -> MessageExt:
        return await self._lab.sent(topic, body, queue_id=queue_id, properties=self._properties(**properties))

    async def _send_delayed(self) -> None:
        for _ in range(3):
            await self._lab.send("MetDelay", properties=self._properties(DELAY="1"))
        for seconds in (2, 2, 3600, 7200):
            reply = await self._lab.send("MetDelay", properties=self._properties(TIMER_DELAY_SEC=str(seconds)))
            assert reply.code == 0, reply.remark

    async def _send_transactions(self) -> None:
        for outcome in (_COMMIT, _COMMIT, _ROLLBACK, 0):
            properties = self._properties(TRAN_MSG="true", PGROUP="PG")
            born = self._lab.broker.clock.now_ms()
            record = await self._lab.sent("MetTx", properties=properties, sys_flag=4, born_timestamp=born)
            if outcome:
                ext = {
                    "producerGroup": "PG",
                    "tranStateTableOffset": record.queue_offset,
                    "commitLogOffset": record.physical_offset,
                    "commitOrRollback": outcome,
                    "fromTransactionCheck": "false",
                    "msgId": record.uniq_key,
                }
                reply = await self._lab.ask(RequestCode.END_TRANSACTION, ext)
                assert reply.code == 0, reply.remark

    # Consumers

    async def _consume(self) -> None:
        for topic in GROUPS["CG_OK"]:
            await self._take("CG_OK", topic)
        await self._take("CG_TAG", "MetA", subscription="TagB")
        for queue_id in range(2):  # hangs with what it has
            await self._commit("CG_LAG", "MetB", queue_id, 0)
            await self._lab.pull("MetB", 0, group="CG_LAG", queue_id=queue_id, maxMsgNums=4)

    async def _take(self, group: str, topic: str, queues: int = 2, **fields: Any) -> list[MessageExt]:
        """Pull everything and commit it."""
        taken: list[MessageExt] = []
        for queue_id in range(queues):
            offset = 0
            while True:
                reply = await self._lab.pull(topic, offset, group=group, queue_id=queue_id, **fields)
                following = int(reply.field("nextBeginOffset"))
                taken += messages(reply) if reply.code == 0 else []
                if following <= offset:
                    break
                offset = following
            await self._commit(group, topic, queue_id, offset)
        return taken

    async def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        ext = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
        reply = await self._lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        assert reply.code == 0, reply.remark

    async def _fail(self) -> None:
        """One of four is taken; two come back after a second, one is given up."""
        taken = await self._take("CG_FAIL", "MetRetry")
        for message, level in zip(taken[1:], (1, 1, -1), strict=True):
            ext = {
                "offset": message.physical_offset,
                "group": "CG_FAIL",
                "delayLevel": level,
                "originMsgId": message.uniq_key,
                "originTopic": "MetRetry",
                "unitMode": "false",
                "maxReconsumeTimes": 16,
            }
            reply = await self._lab.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext)
            assert reply.code == 0, reply.remark

    async def _pop_first(self) -> None:
        """Six of eight are acknowledged."""
        popped = await self._pop(2_000)
        assert len(popped) == 8
        for message in popped[:6]:
            await self._ack(message, "MetPop")

    async def _pop_again(self) -> None:
        """Those that were not come back under the retry topic."""
        await self._lab.ephemeral.advanced(seconds=12)
        popped = await self._pop(60_000)
        assert len(popped) == 2
        for message in popped:
            await self._ack(message, "%RETRY%CG_POP_MetPop")

    async def _pop(self, invisible_ms: int) -> list[Popped]:
        found: list[Popped] = []
        for _ in range(8):
            ext = {
                "consumerGroup": "CG_POP",
                "topic": "MetPop",
                "queueId": -1,
                "maxMsgNums": 32,
                "invisibleTime": invisible_ms,
                "pollTime": 0,
                "bornTime": self._lab.broker.clock.now_ms(),
                "initMode": 0,
                "expType": "TAG",
                "exp": "*",
                "order": "false",
            }
            reply: RemotingCommand = await self._lab.ask(RequestCode.POP_MESSAGE, ext)
            more = Reply(reply, "MetPop").messages
            if not more:
                break
            found += more
        return found

    async def _ack(self, message: Popped, topic: str) -> None:
        ext = {
            "consumerGroup": "CG_POP",
            "topic": topic,
            "queueId": message.receipt.queue_id,
            "offset": message.receipt.queue_offset,
            "extraInfo": message.receipt.text,
        }
        reply = await self._lab.ask(RequestCode.ACK_MESSAGE, ext)
        assert reply.code == 0, reply.remark
