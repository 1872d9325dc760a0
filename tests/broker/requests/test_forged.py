"""Forged offsets, receipts and handles through every request that takes one: nobody honest notices.

An attacker sees replies, so he knows where the next record will lie, and he can put the bytes of a whole record there:
inside a body. He knows names, counts and clocks. What he has not: a record of his own in a queue that clients may not
send to, or a receipt for a message that nobody was given.
"""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.message_id import encode_message_id
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from flaremq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import BrokerLab, bodies, pull_fields, run
from tests.support.forgery import HOST, body_place, forged_record
from tests.support.header_table import REQUEST_HEADERS

GROUP, PULLERS, PRODUCERS, THIEVES = "honest", "pullers", "bank", "thieves"
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
SYSTEM_TOPICS = (HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, CHECK_MAX_TIME_TOPIC, REVIVE)
BROKER_GROUPS = ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP")
ROUNDS = 40

# Requests that name an offset, a receipt, a handle or a message by its place, and change or read by it.
ATTACKED = frozenset(
    {
        RequestCode.END_TRANSACTION,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        RequestCode.RECALL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
    }
)
# Nothing is done to a message or to progress by the number in these.
HARMLESS = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,  # to clients
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,  # to clients
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,  # to clients
        RequestCode.BROKER_HEARTBEAT,  # to controllers
        RequestCode.DELETE_SUBSCRIPTIONGROUP,  # whether offsets go too
        RequestCode.RESET_MASTER_FLUSH_OFFSET,  # shown to tools, used for nothing
        RequestCode.EXCHANGE_BROKER_HA_INFO,  # a hint at most
    }
)
# A receipt that changes nothing may be answered like one that is no longer good.
IDLE_SUCCESS = frozenset(
    {RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME}
)


def test_every_request_that_names_a_place_is_attacked_here() -> None:
    words = ("offset", "extra_info", "handle", "msg_id")
    naming = {
        code
        for code, header in REQUEST_HEADERS.items()
        if any(word in field.name for field in fields(header) for word in words)
    }
    assert naming - HARMLESS - ATTACKED == set()


class Attacker:
    """Sends what is not true, over a connection of its own."""

    def __init__(self, lab: BrokerLab, chance: random.Random) -> None:
        self.lab = lab
        self.chance = chance
        self.places: list[int] = []  # where forged records lie
        self.honest: list[int] = []  # where real ones do

    async def plant(self) -> None:
        """Forged records of every kind of topic, at the next offsets of their queues and beyond."""
        store = self.lab.broker.store
        for topic in (*SYSTEM_TOPICS, "orders", "nowhere"):
            end = store.max_offset(topic, 0)
            for queue_offset in (0, end, end + 1, end + 5, 10**6):
                place = body_place(store.max_physical_offset)
                target = self.chance.choice((*SYSTEM_TOPICS, "orders", "nowhere"))
                body = forged_record(
                    place,
                    topic=topic,
                    queue_offset=queue_offset,
                    PGROUP=PRODUCERS,
                    TRAN_MSG="true",
                    REAL_TOPIC=target,
                    REAL_QID=self.chance.choice(("0", "99999")),
                )
                assert (await self.lab.send("carrier", body)).code == 0
                self.places.append(place)

    def place(self) -> int:
        """A byte of the log where no record starts."""
        near = self.chance.choice(self.honest) + self.chance.choice((-1, 1, 8))
        return self.chance.choice((self.chance.choice(self.places), near, -1, 2**62, 10**9))

    def receipt(self) -> str:
        """One that nobody was given; who guesses another's to the millisecond has that one."""
        now = self.lab.broker.state.clock.now_ms()
        offset = self.chance.choice((0, 1, 2, 3, 5, 10**6))
        pop_time = now - self.chance.choice((-5, 1, 60_000, 3_600_000))
        revive = self.chance.choice((0, 1, 7, 8, 999, -1))
        return f"{self.chance.choice((0, offset))} {pop_time} {3_700_000} {revive} 0 broker-a 0 {offset}"

    async def strike(self, code: RequestCode) -> RemotingCommand:
        ext, body = getattr(self, f"_{code.name.lower()}")()
        return await self.lab.ask(code, ext, body)

    def _end_transaction(self) -> tuple[dict[str, Any], bytes]:
        queue_offset = self.chance.choice((0, 1, 2, 3, 7, 10**6))
        return {
            "producerGroup": PRODUCERS,
            "tranStateTableOffset": queue_offset,
            "commitLogOffset": self.place(),
            "commitOrRollback": self.chance.choice((8, 12)),
            "fromTransactionCheck": self.chance.choice((True, False)),
            "msgId": "FORGED",
            "transactionId": "FORGED",
        }, b""

    def _message_id(self) -> str:
        return encode_message_id(HOST, max(0, self.place()))

    def _resume_check_half_message(self) -> tuple[dict[str, Any], bytes]:
        return {"msgId": self._message_id()}, b""

    def _view_message_by_id(self) -> tuple[dict[str, Any], bytes]:
        return {"offset": self.place()}, b""

    def _consumer_send_msg_back(self) -> tuple[dict[str, Any], bytes]:
        group = self.chance.choice((THIEVES, GROUP, *BROKER_GROUPS))
        return {"offset": self.place(), "group": group, "delayLevel": self.chance.choice((-1, 0, 3))}, b""

    def _consume_message_directly(self) -> tuple[dict[str, Any], bytes]:
        return {"consumerGroup": GROUP, "clientId": "victim", "msgId": self._message_id()}, b""

    def _ack_message(self) -> tuple[dict[str, Any], bytes]:
        text = self.receipt()
        group = self.chance.choice((GROUP, PULLERS, *BROKER_GROUPS))
        topic = self.chance.choice(("orders", REVIVE))
        place = {"consumerGroup": group, "topic": topic, "queueId": 0, "offset": text.rpartition(" ")[2]}
        return place | {"extraInfo": text}, b""

    def _batch_ack_message(self) -> tuple[dict[str, Any] | None, bytes]:
        start, pop_time, invisible, revive, retry, broker, queue_id, _ = self.receipt().split(" ")
        ack = BatchAck(
            consumer_group=self.chance.choice((GROUP, PULLERS)),
            topic="orders",
            retry=retry,
            start_offset=int(start),
            queue_id=int(queue_id),
            revive_queue_id=int(revive),
            pop_time=int(pop_time),
            invisible_time=int(invisible),
            bits=self.chance.getrandbits(32),
        )
        return None, BatchAckMessageRequestBody(broker_name=broker, acks=(ack,)).to_json()

    def _change_message_invisibletime(self) -> tuple[dict[str, Any], bytes]:
        ext, body = self._ack_message()
        return ext | {"invisibleTime": 3_600_000}, body

    def _recall_message(self) -> tuple[dict[str, Any], bytes]:
        topic = self.chance.choice((*SYSTEM_TOPICS, "nowhere"))
        due = self.lab.broker.state.clock.now_ms() + 60_000
        handle = urlsafe_b64encode(f"v1 {topic} broker-a {due} FORGED".encode()).decode()
        return {"topic": topic, "recallHandle": handle}, b""

    def _update_consumer_offset(self) -> tuple[dict[str, Any], bytes]:
        place = {"topic": self.chance.choice(SYSTEM_TOPICS), "queueId": 0}
        offset = self.chance.choice((0, 10**6, 2**62))
        return place | {"consumerGroup": self.chance.choice(BROKER_GROUPS), "commitOffset": offset}, b""

    def _pull_message(self) -> tuple[dict[str, Any], bytes]:
        group, topic = self.chance.choice(BROKER_GROUPS), self.chance.choice(SYSTEM_TOPICS)
        return pull_fields(topic, 0, group=group, queue_id=0, sysFlag=5, commitOffset=2**62), b""

    _lite_pull_message = _pull_message

    def _invoke_broker_to_reset_offset(self) -> tuple[dict[str, Any], bytes]:
        group, topic = self.chance.choice(BROKER_GROUPS), self.chance.choice(SYSTEM_TOPICS)
        return {"group": group, "topic": topic, "timestamp": -1, "isForce": True}, b""

    def _clone_group_offset(self) -> tuple[dict[str, Any], bytes]:
        return {
            "srcGroup": THIEVES,
            "destGroup": self.chance.choice(BROKER_GROUPS),
            "topic": self.chance.choice(SYSTEM_TOPICS),
            "offline": False,
        }, b""


Half = tuple[str, int, int]  # body, queue offset, physical offset


class Honest:
    """What must not be affected: open transactions, messages for a POP group, a group that pulls."""

    def __init__(self, lab: BrokerLab, halves: list[Half]) -> None:
        self.lab = lab
        self.halves = halves

    async def half(self, body: str) -> None:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCERS}\x02UNIQ_KEY\x01{body}\x02"
        reply = await self.lab.send("paid", body.encode(), properties=properties)
        assert reply.code == 0
        self.halves.append((body, int(reply.field("queueOffset")), int(reply.field("msgId")[16:], 16)))

    async def commit_all(self) -> None:
        for body, queue_offset, place in self.halves:
            ext = {
                "producerGroup": PRODUCERS,
                "tranStateTableOffset": queue_offset,
                "commitLogOffset": place,
                "commitOrRollback": 8,
                "fromTransactionCheck": False,
                "msgId": body,
            }
            reply = await self.lab.ask(RequestCode.END_TRANSACTION, ext)
            assert reply.code == 0, (body, reply)
        paid = bodies(await self.lab.pull("paid", group="paid-readers"))
        assert paid == [body.encode() for body, _, _ in self.halves]

    async def pop(self, count: int) -> list[bytes]:
        ext = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0, "maxMsgNums": count, "initMode": 0}
        times = {"invisibleTime": 3_600_000, "pollTime": 0, "bornTime": self.lab.broker.state.clock.now_ms()}
        reply = await self.lab.ask(RequestCode.POP_MESSAGE, ext | times)
        return bodies(reply) if reply.code == 0 else []


def _system_ends(lab: BrokerLab) -> dict[tuple[str, int], int]:
    """Where the system topics end; the revive log may hear of acks of what was really given."""
    store = lab.broker.store
    lab.broker.store_loop.dispatching.catch_up()
    topics = {*SYSTEM_TOPICS} - {REVIVE}
    return {
        (topic, queue_id): store.max_offset(topic, queue_id) for topic, queue_id in store.queues() if topic in topics
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("restarted", [False, True])
def test_forged_requests_touch_no_system_topic_no_transaction_and_no_consumer(
    tmp_path: Path, seed: int, restarted: bool
) -> None:
    halves: list[Half] = []

    async def attack(lab: BrokerLab) -> None:
        honest = Honest(lab, halves)
        lab.topic("paid", 1)
        for body in ("one", "two"):
            await honest.half(body)
        records = [await lab.sent("orders", b"order %d" % number) for number in range(6)]
        assert await honest.pop(2) == [b"order 0", b"order 1"]
        state = lab.broker.state
        assert (await lab.pull("orders", group=PULLERS)).code == 0
        state.offsets.commit(PULLERS, "orders", 0, 1)
        await state.transactions.persist()
        attacker = Attacker(lab, random.Random(seed))
        attacker.honest = [record.physical_offset for record in records]
        del records
        await attacker.plant()
        ends, offsets = _system_ends(lab), state.offsets.table()
        replies: dict[RequestCode, set[int]] = {code: set() for code in ATTACKED}
        for _ in range(ROUNDS):
            for code in sorted(ATTACKED):
                replies[code].add((await attacker.strike(code)).code)
        assert {code for code, found in replies.items() if 0 in found} <= IDLE_SUCCESS
        assert _system_ends(lab) == ends
        assert state.offsets.table() == offsets
        assert state.topics.find("nowhere") is None and lab.broker.store.max_offset("nowhere", 0) == 0
        if not restarted:
            await look(lab)

    async def look(lab: BrokerLab) -> None:
        honest = Honest(lab, halves)
        for body in ("three", "four", "five"):
            await honest.half(body)
        await honest.commit_all()
        assert await honest.pop(32) == [b"order %d" % number for number in range(2, 6)]
        assert lab.broker.state.offsets.find(PULLERS, "orders", 0) == 1

    run(attack, path=str(tmp_path / "store"))
    if restarted:
        run(look, path=str(tmp_path / "store"))
