"""Ending transactions: a commit once in its topic, a rollback never, and only by whoever may."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import TRANSACTION_GROUP
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.message_rules import TimerRules, prepare_half
from flaremq.broker.delay.timer import TimerService
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.transactions.service import TransactionService
from flaremq.clock import ManualClock
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.message.sys_flag import TransactionType
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC
from flaremq.options import change_live
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.put.put_result import PutResult
from tests.broker.bank_lab import GROUP, Bank
from tests.broker.waiting_lab import HOST, run, running_store_loop
from tests.support.forgery import body_place, forged_record
from tests.support.golden_frames import decode_one, raw_cases

THIEF = bytes([10, 0, 0, 66, 0, 0, 0x2A, 0x9F])


def test_half_message_is_invisible_until_it_is_committed() -> None:
    bank = Bank()
    half = bank.half(b"a", TAGS="t")
    assert bank.committed() == []
    bank.end(half, commit=True)
    (message,) = bank.lab.messages("orders", 1)
    assert message.body == b"a"
    assert message.transaction_type is TransactionType.COMMIT
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties["TRAN_MSG"] == "true"
    assert "REAL_TOPIC" not in message.properties
    assert bank.noted() == [half.queue_offset]


def test_rolled_back_message_never_appears() -> None:
    bank = Bank()
    half = bank.half(b"a")
    bank.end(half, commit=False)
    assert bank.noted() == [0]
    bank.lab.clock.advance(60_000)
    assert bank.check() == []
    assert bank.committed() == []


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True), (False, False)])
def test_second_end_of_a_transaction_is_refused_and_changes_nothing(first: bool, second: bool) -> None:
    bank = Bank()
    half = bank.half(b"a")
    bank.end(half, commit=first)
    with pytest.raises(RequestError) as caught:
        bank.end(half, commit=second)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION
    assert bank.committed() == ([b"a"] if first else [])


def forged_half(bank: Bank, queue_offset: int, topic: str = "orders", queue_id: int = 1) -> PutResult:
    """A half message inside the body of a plain one, where only the byte offset is that of a record."""
    place = body_place(bank.lab.store.max_physical_offset)
    claims = {"PGROUP": GROUP, "TRAN_MSG": "true", "REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
    bytes_ = forged_record(place, topic=HALF_TOPIC, queue_offset=queue_offset, **claims)
    result = bank.lab.store.put_form(replace(bank.lab.form(b"carrier", "plain"), body=bytes_))
    assert result.ok and bytes(bank.lab.messages("plain")[-1].body) == bytes_
    return PutResult(result.status, queue_offset, place, result.store_timestamp, len(bytes_), b"")


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("topic", ["orders", "SCHEDULE_TOPIC_XXXX", HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC, "nowhere"])
def test_half_message_inside_a_body_is_none(topic: str, commit: bool) -> None:
    bank = Bank()
    honest = bank.half(b"honest")
    for queue_offset in (0, 1, 2, 1000):
        forged = forged_half(bank, queue_offset, topic)
        with pytest.raises(RequestError, match="no half message"):
            bank.end(forged, commit=commit)
    later = bank.half(b"later")
    bank.end(honest, commit=True)
    bank.end(later, commit=True)
    assert bank.committed() == [b"honest", b"later"]
    assert bank.lab.store.max_offset("nowhere", 1) == 0


@pytest.mark.parametrize(
    ("topic", "queue_id", "code"),
    [
        ("nowhere", 0, ResponseCode.TOPIC_NOT_EXIST),
        ("orders", 99999, ResponseCode.INVALID_PARAMETER),
        ("SCHEDULE_TOPIC_XXXX", 2, ResponseCode.NO_PERMISSION),
        (TIMER_TOPIC, 0, ResponseCode.NO_PERMISSION),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", 0, ResponseCode.NO_PERMISSION),
    ],
)
def test_commit_goes_only_where_a_client_may_send(topic: str, queue_id: int, code: ResponseCode) -> None:
    bank = Bank()
    half = bank.lab.send(b"a", topic, queue_id, TRAN_MSG="true", PGROUP=GROUP)
    with pytest.raises(RequestError) as caught:
        bank.end(half, commit=True)
    assert caught.value.code == code
    assert bank.lab.store.max_offset(topic, queue_id) == 0
    assert bank.noted() == []
    bank.end(half, commit=False)


def test_sender_cannot_pass_his_message_off_as_the_copy_of_another() -> None:
    bank = Bank()
    honest = bank.half(b"honest", UNIQ_KEY="K")
    bank.half(b"other", UNIQ_KEY="K", TRANSACTION_CHECK_TIMES="1", TRAN_PREPARED_QUEUE_OFFSET="0")
    bank = bank.restart()
    bank.end(honest, commit=True)
    assert bank.committed() == [b"honest"]


def test_another_sender_with_the_same_key_has_a_transaction_of_his_own() -> None:
    bank = Bank()
    honest = bank.half(b"honest", UNIQ_KEY="K")
    form = replace(bank.lab.form(b"other", "orders", 1, UNIQ_KEY="K", TRAN_MSG="true", PGROUP=GROUP), born_host=THIEF)
    assert bank.lab.store.put_form(prepare_half(form)).ok
    bank.lab.clock.advance(60_000)
    assert len(bank.check()) == 2  # both are copied, the other one last
    bank.end(honest, commit=True, answer=True)
    assert bank.committed() == [b"honest"]


def test_message_that_only_claims_to_be_a_commit_is_none() -> None:
    """A sender may set the bits of a commit; the half message at byte 0 has the place that his message names."""
    bank = Bank()
    honest = bank.half(b"honest", UNIQ_KEY="K")
    assert honest.physical_offset == 0
    form = replace(bank.lab.form(b"claim", "orders", 1, UNIQ_KEY="K"), sys_flag=8, born_host=THIEF)
    assert bank.lab.store.put_form(form).ok
    bank = bank.restart()
    bank.end(honest, commit=True)
    assert bank.committed() == [b"claim", b"honest"]


def test_end_that_does_not_fit_the_half_message_is_refused() -> None:
    bank = Bank()
    half = bank.half(b"a")
    plain = bank.lab.send(b"plain", PGROUP=GROUP)
    for queue_offset, physical_offset, group in (
        (half.queue_offset, half.physical_offset, "GP_OTHER"),
        (half.queue_offset + 1, half.physical_offset, GROUP),
        (half.queue_offset, half.physical_offset + 1, GROUP),
        (half.queue_offset, -1, GROUP),
        (half.queue_offset, 10**12, GROUP),
        (plain.queue_offset, plain.physical_offset, GROUP),
    ):
        with pytest.raises(RequestError) as caught:
            run(bank.ending(queue_offset, physical_offset, commit=True, group=group))
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert bank.committed() == [] and bank.noted() == []
    bank.end(half, commit=True)
    assert bank.committed() == [b"a"]


def test_commit_the_store_does_not_take_leaves_the_transaction_open() -> None:
    bank = Bank()
    half = bank.half(b"a")
    with bank.lab.refusing("orders"), pytest.raises(RequestError) as caught:
        bank.end(half, commit=True)
    assert caught.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bank.noted() == []
    bank.end(half, commit=True)
    assert bank.committed() == [b"a"]


def test_outcome_that_cannot_be_noted_now_is_kept_and_noted_later() -> None:
    bank = Bank()
    bank.half(b"open")
    rolled_back, committed = bank.half(b"rolled back"), bank.half(b"committed")
    with bank.lab.refusing(OP_HALF_TOPIC):
        bank.end(committed, commit=True)
        with pytest.raises(RequestError) as caught:
            bank.end(rolled_back, commit=False)
        assert caught.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        bank.lab.clock.advance(10_000)
        assert [question.field("msgId") for question in bank.check()] == ["open"]
    assert bank.committed() == [b"committed"]
    bank.half(b"another")
    bank.end(bank.half(b"last"), commit=False)
    bank.check()
    assert bank.noted() == [5]  # the rest lies below the cursor by now
    assert bank.service.half.cursor == 3


def test_unnoted_outcome_is_noted_by_the_next_round() -> None:
    bank = Bank()
    bank.half(b"open")
    with bank.lab.refusing(OP_HALF_TOPIC):
        bank.end(bank.half(b"committed"), commit=True)
    assert bank.check() == []  # too early to ask, but not to note
    assert bank.noted() == [1]


def end_together(bank: Bank, count: int) -> None:
    """Commit so many transactions while the store is slow."""
    halves = [bank.half(b"%03d" % number) for number in range(count)]

    async def play() -> None:
        bank.lab.store_loop.pause = asyncio.Event()
        ends = [
            asyncio.ensure_future(bank.ending(half.queue_offset, half.physical_offset, commit=True)) for half in halves
        ]
        for _ in range(50):
            await asyncio.sleep(0)
        bank.lab.store_loop.pause.set()
        await asyncio.gather(*ends)

    asyncio.run(play())
    assert sorted(bank.noted()) == list(range(count))
    assert sorted(bank.committed()) == [b"%03d" % number for number in range(count)]


def test_many_ends_at_a_time_share_op_records() -> None:
    bank = Bank()
    end_together(bank, 300)
    records = bank.lab.messages(OP_HALF_TOPIC)
    assert len(records) < 10
    assert all(record.tags == "d" and record.body_length <= 4096 for record in records)


def test_size_of_op_records_may_change_while_the_broker_runs() -> None:
    bank = Bank()
    change_live({"transactionOpMsgMaxSize": "20"}, [bank.options])
    end_together(bank, 100)
    assert max(record.body_length for record in bank.lab.messages(OP_HALF_TOPIC)) <= 20


def test_end_later_than_the_senders_own_time_is_refused_unless_it_was_asked_for() -> None:
    bank = Bank()
    half = bank.half(b"a", CHECK_IMMUNITY_TIME_IN_SECONDS="20")
    bank.lab.clock.advance(20_001)
    with pytest.raises(RequestError) as caught:
        bank.end(half, commit=True)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION
    bank.end(half, commit=True, answer=True)
    assert bank.committed() == [b"a"]


def test_committed_message_with_a_time_of_its_own_waits_for_it() -> None:
    bank = Bank()
    lab = bank.lab
    half = bank.half(b"a", TIMER_DELAY_SEC="30")
    bank.end(half, commit=True)
    assert bank.committed() == []
    (waiting,) = lab.messages(TIMER_TOPIC)
    assert waiting.prepared_transaction_offset == half.physical_offset
    timer = TimerService(lab.access, lab.clock, TimerRules(), lab.disk, lab.declare)
    timer.load()
    lab.clock.advance(30_000)
    run(timer.run_due())
    (message,) = lab.messages("orders", 1)
    assert (message.body, message.transaction_type) == (b"a", TransactionType.COMMIT)


# The handler


def test_unknown_outcome_gets_no_reply_at_all() -> None:
    bank = Bank()
    half = bank.half(b"a")
    assert bank.handler.end(bank.producer.connection, end_request(half, outcome=0)) is None


def test_commit_and_rollback_by_request() -> None:
    bank = Bank()
    for outcome, expected in ((8, [b"a"]), (12, [b"a"])):
        reply = bank.handler.end(bank.producer.connection, end_request(bank.half(b"a"), outcome=outcome))
        assert reply is not None and not isinstance(reply, RemotingCommand)
        assert run(reply).code == 0  # type: ignore[union-attr]
        assert bank.committed() == expected


@pytest.mark.parametrize("missing", ["producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback"])
def test_missing_field_is_named(missing: str) -> None:
    bank = Bank()
    request = end_request(bank.half(b"a"), outcome=8)
    request.ext = {name: value for name, value in (request.ext or {}).items() if name != missing}
    with pytest.raises(RequestError, match=missing):
        bank.handler.end(bank.producer.connection, request)


def test_recorded_nonsense_is_answered_with_the_recorded_code() -> None:
    cases = [case for case in raw_cases() if case.name == "end-transaction-nonsense"]
    assert len(cases) == 2
    for case in cases:
        bank = Bank()
        bank.lab.send(b"plain")  # at offset 0, where the request says that a half message lies
        outcome = bank.handler.end(bank.producer.connection, decode_one(case.sent))
        assert outcome is not None and not isinstance(outcome, RemotingCommand)
        with pytest.raises(RequestError) as caught:
            run(outcome)
        assert f'"code":{caught.value.code},'.encode() in case.got


def test_many_transactions_at_once_through_the_gate_of_a_running_broker(tmp_path: Path) -> None:
    clock, options = ManualClock(), BrokerOptions()

    async def play() -> list[bytes]:
        async with running_store_loop(tmp_path / "store", clock) as store_loop:
            config = ConfigFile(LocalFileSystem(), str(tmp_path / "store" / "config" / "consumerOffset.json"))
            offsets = ConsumerOffsets(options, config, clock)
            offsets.load()
            config = ConfigFile(LocalFileSystem(), str(tmp_path / "store" / "config" / "topics.json"))
            topics = TopicTable(options, config, clock)
            topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
            service = TransactionService(
                options, clock, store_loop, topics, offsets, ProducerTable(options, clock), HOST
            )
            await service.load()

            async def transact(number: int) -> None:
                properties = encode_properties({"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": str(number)})
                form = StoredForm(
                    topic="orders", queue_id=0, body=b"%d" % number, properties=properties, born_host=HOST
                )
                stored = await store_loop.put(prepare_half(form))
                await service.end(
                    producer_group=GROUP,
                    queue_offset=stored.queue_offset,
                    physical_offset=stored.physical_offset,
                    is_commit=number % 2 == 0,
                    is_answer=False,
                )

            await asyncio.gather(*(transact(number) for number in range(200)))
            assert service.half.cursor == 200
            assert await service.persist()
            assert offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == 200
            store_loop.dispatching.catch_up()
            bodies: list[bytes] = []
            while found := store_loop.store.get("orders", 0, len(bodies), 100, max_bytes=1 << 20).messages:
                bodies += [message.body for message in found]
            return bodies

    assert sorted(map(int, asyncio.run(play()))) == list(range(0, 200, 2))


# Requests


def end_request(half: PutResult, *, outcome: int) -> RemotingCommand:
    return RemotingCommand.request(
        37,
        {
            "producerGroup": GROUP,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset),
            "commitOrRollback": str(outcome),
            "fromTransactionCheck": "false",
            "msgId": "x",
        },
        oneway=True,
    )
