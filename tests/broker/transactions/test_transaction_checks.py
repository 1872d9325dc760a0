"""Asking producers about open transactions: when, how often, about what."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from flaremq.broker.transactions.half_table import HalfTable
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from flaremq.message.transaction import half
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus
from tests.broker.bank_lab import GROUP, Bank
from tests.broker.waiting_lab import WaitingLab, run
from tests.support.golden_frames import golden_frames


def test_open_transaction_is_asked_about_after_its_time_and_not_before() -> None:
    bank = Bank()
    half = bank.half(b"a")
    bank.lab.clock.advance(5_999)
    assert bank.check() == []
    bank.lab.clock.advance(1)
    (question,) = bank.check()
    copy = bank.lab.messages(HALF_TOPIC)[-1]
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    assert question.is_oneway
    assert dict(question.ext or {}) == {
        "tranStateTableOffset": "1",
        "commitLogOffset": str(copy.physical_offset),
        "msgId": "a",
        "transactionId": "a",
        "offsetMsgId": copy.message_id,
        "topic": HALF_TOPIC,
        "bname": "broker-a",
    }
    asked = MessageExt(question.body_bytes)
    assert (asked.topic, asked.queue_id, asked.body) == ("orders", 1, b"a")
    assert (asked.queue_offset, asked.physical_offset) == (1, copy.physical_offset)
    assert asked.born_timestamp == half.store_timestamp
    bank.answer(question, commit=True)
    assert bank.committed() == [b"a"]
    bank.lab.clock.advance(60_000)
    assert bank.check() == []


@pytest.mark.slow
@pytest.mark.parametrize("recording", ["json-49", "json-55"])
def test_question_is_the_recorded_one(recording: str) -> None:
    """The real broker's question, asked by ours about the same half message."""
    (recorded,) = [frame.command for frame in golden_frames(recording) if frame.command.code == 39][:1]
    record = MessageExt(recorded.body_bytes)
    lab = WaitingLab(StoreOptions(mapped_file_size_commit_log=1 << 20, listen_port=20911))
    bank = Bank(lab)
    ext = recorded.ext or {}
    properties = dict(record.properties)
    for name in ("REAL_TOPIC", "REAL_QID", "TRANSACTION_CHECK_TIMES", "__transactionId__"):
        properties.pop(name, None)
    properties["WAIT"] = "false"  # the copy is nobody's to wait for
    lab.clock.jump(record.born_timestamp - lab.clock.now_ms())
    for number in range(record.queue_offset - 1):
        bank.end(bank.half(b"%d" % number), commit=False)
    form = lab.form(record.body, record.topic, record.queue_id, **properties)
    assert lab.store.put_form(half(replace(form, born_host=record.born_host_bytes))).ok
    lab.clock.advance(6000)
    (question,) = bank.check()
    ours = MessageExt(question.body_bytes)
    ours_ext = dict(question.ext or {})
    # The log of the recording held other records: places in it differ, nothing else does.
    assert ours_ext.pop("commitLogOffset") == str(ours.physical_offset)
    assert ours_ext.pop("offsetMsgId") == ours.message_id
    expected = {name: value for name, value in ext.items() if name not in ("commitLogOffset", "offsetMsgId")}
    if recording == "json-49":
        expected |= {"topic": HALF_TOPIC, "bname": "broker-a"}  # fields of 5.x
    assert ours_ext == expected
    assert (question.flag, question.code) == (recorded.flag, recorded.code)
    for name in ("topic", "queue_id", "queue_offset", "flag", "sys_flag", "body", "born_timestamp", "born_host"):
        assert getattr(ours, name) == getattr(record, name), name
    assert ours.properties == dict(record.properties) | {"__transactionId__": properties["UNIQ_KEY"]}


def test_answer_to_an_older_question_ends_the_transaction_once() -> None:
    bank = Bank()
    half = bank.half(b"a")
    bank.lab.clock.advance(10_000)
    (first,) = bank.check()
    bank.lab.clock.advance(30_000)
    (second,) = bank.check()
    bank.answer(first, commit=True)
    with pytest.raises(RequestError):
        bank.answer(second, commit=True)
    with pytest.raises(RequestError):
        bank.end(half, commit=True)
    bank.lab.clock.advance(30_000)
    assert bank.check() == []
    assert bank.committed() == [b"a"]


def test_end_that_arrives_while_its_message_is_copied_waits_and_ends_the_copy() -> None:
    bank = Bank()
    half = bank.half(b"a")
    bank.lab.clock.advance(10_000)

    async def play() -> None:
        bank.lab.store_loop.pause = asyncio.Event()
        round_ = asyncio.ensure_future(bank.service.check_round())
        while bank.lab.store.max_offset(HALF_TOPIC, 0) < 2:
            await asyncio.sleep(0)
        end = asyncio.ensure_future(bank.ending(half.queue_offset, half.physical_offset, commit=True))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not end.done()
        bank.lab.store_loop.pause.set()
        await round_
        await end

    asyncio.run(play())
    (question,) = bank.producer.notified
    assert bank.committed() == [b"a"]
    with pytest.raises(RequestError):
        bank.answer(question, commit=True)
    bank.lab.clock.advance(60_000)
    assert bank.check() == []
    assert bank.committed() == [b"a"]


def test_message_is_put_away_after_too_many_questions() -> None:
    bank = Bank(transaction_check_max=3)
    bank.half(b"a")
    questions = []
    for _ in range(6):
        bank.lab.clock.advance(30_000)
        questions += bank.check()
    assert len(questions) == 3
    (away,) = bank.lab.messages(CHECK_MAX_TIME_TOPIC)
    assert away.body == b"a"
    assert away.properties["TRANSACTION_CHECK_TIMES"] == "3"
    with pytest.raises(RequestError):
        bank.answer(questions[-1], commit=True)
    assert bank.committed() == []
    assert bank.service.half.cursor == bank.lab.store.max_offset(HALF_TOPIC, 0)


def test_message_older_than_the_log_is_kept_is_put_away_unasked() -> None:
    bank = Bank()
    bank.half(b"a")
    bank.lab.clock.advance(bank.lab.options.file_reserved_time * 3_600_000 + 1)
    assert bank.check() == []
    assert bank.lab.bodies(CHECK_MAX_TIME_TOPIC) == [b"a"]


@pytest.mark.parametrize("is_asked_again", [False, True])
def test_message_that_was_put_away_can_be_resumed(is_asked_again: bool) -> None:
    bank = Bank(transaction_check_max=1)
    bank.half(b"a")
    earlier: list[RemotingCommand] = []
    for _ in range(2):
        bank.lab.clock.advance(30_000)
        earlier += bank.check()
    (away,) = bank.lab.messages(CHECK_MAX_TIME_TOPIC)
    request = RemotingCommand.request(323, {"topic": CHECK_MAX_TIME_TOPIC, "msgId": away.message_id})
    reply = run(bank.handler.resume(bank.producer.connection, request))
    assert reply.code == 0
    if is_asked_again:
        bank.lab.clock.advance(30_000)
        (question,) = bank.check()
    bank.answer(earlier[0], commit=True)  # an answer that took its time ends what is open now
    if is_asked_again:
        with pytest.raises(RequestError):
            bank.answer(question, commit=True)
    assert bank.committed() == [b"a"]


@pytest.mark.parametrize("message_id", ["", "nonsense", "7F00000100002A9F00000000000FFFFF"])
def test_resuming_what_was_not_put_away_is_refused(message_id: str) -> None:
    bank = Bank()
    with pytest.raises(RequestError) as caught:
        run(bank.service.resume(message_id))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_sender_is_left_alone_for_the_time_he_asked_for() -> None:
    bank = Bank()
    patient = bank.half(b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    bank.half(b"usual")
    bank.lab.clock.advance(30_000)
    assert [question.field("msgId") for question in bank.check()] == ["usual"]
    moved = bank.lab.messages(HALF_TOPIC)[2]
    assert moved.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    bank.end(patient, commit=True)  # it names the first record, which is history
    bank.lab.clock.advance(100_000)
    assert [question.field("msgId") for question in bank.check()] == ["usual"]
    assert bank.committed() == [b"patient"]


def test_sender_is_asked_when_the_time_he_asked_for_is_over() -> None:
    bank = Bank()
    bank.half(b"a", CHECK_IMMUNITY_TIME_IN_SECONDS="50")
    bank.half(b"b")
    asked = []
    for _ in range(3):
        bank.lab.clock.advance(20_000)
        asked.append([question.field("msgId") for question in bank.check()])
    assert asked == [["b"], ["b"], ["b", "a"]] or asked == [["b"], ["b"], ["a", "b"]]


def test_nobody_to_ask_is_no_obstacle() -> None:
    bank = Bank()
    bank.producer.is_open = False
    bank.half(b"a")
    bank.lab.clock.advance(10_000)
    assert bank.check() == []
    bank.producer.is_open = True
    bank.lab.clock.advance(30_000)
    (question,) = bank.check()
    bank.answer(question, commit=True)
    assert bank.committed() == [b"a"]


def test_round_ends_where_the_store_takes_no_copy_and_goes_on_there_later() -> None:
    bank = Bank()
    for number in range(3):
        bank.half(b"%d" % number)
    bank.lab.clock.advance(10_000)
    with bank.lab.refusing(HALF_TOPIC):
        assert bank.check() == []
    assert bank.service.half.cursor == 0
    assert len(bank.check()) == 3


def test_message_that_cannot_be_copied_is_put_away() -> None:
    bank = Bank()
    bank.half(b"a")
    bank.lab.clock.advance(10_000)
    with bank.lab.refusing(HALF_TOPIC, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED):
        assert bank.check() == []
    assert bank.lab.bodies(CHECK_MAX_TIME_TOPIC) == [b"a"]


def test_half_record_that_belongs_nowhere_is_put_away() -> None:
    bank = Bank()
    bank.lab.store.put_form(replace(bank.lab.form(b"odd", PGROUP=GROUP), topic=HALF_TOPIC))
    bank.lab.clock.advance(10_000)
    assert bank.check() == []
    assert bank.lab.bodies(CHECK_MAX_TIME_TOPIC) == [b"odd"]


def test_finished_messages_cost_no_memory() -> None:
    bank = Bank()
    for number in range(200):
        bank.end(bank.half(b"%d" % number), commit=number % 2 == 0)
    assert bank.service.half.cursor == 200
    assert bank.service.half.finished_count == 0


def test_expired_part_of_the_half_topic_is_passed_over() -> None:
    table = HalfTable()
    table.finish([5, 7])
    table.skip_to(6, 0)
    assert table.cursor == 6
    table.skip_to(9, 8)
    assert (table.cursor, table.is_open(6), table.is_open(8)) == (6, True, False)
    table.finish([6])
    assert (table.cursor, table.finished_count) == (9, 0)
