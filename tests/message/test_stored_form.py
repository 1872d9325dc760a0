"""Delay, retry, dead letters, transactions: what is appended for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message import transaction
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import parse_properties
from flaremq.message.record.codec import check_record, encode_record
from flaremq.message.stored_form import StoredForm, delay_level_of, delayed, delivered, sent_back
from flaremq.message.sys_flag import TransactionType, transaction_type
from flaremq.message.topics import HALF_TOPIC, SCHEDULE_TOPIC

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
HOST = encode_host("10.0.0.5:10911")


def form_of(message: Message, **changes: int) -> StoredForm:
    form = StoredForm.of_message(message, queue_id=2, born_timestamp=1_000, born_host=HOST)
    return replace(form, **changes)  # type: ignore[arg-type]


def stored(form: StoredForm, *, queue_offset: int = 4, physical_offset: int = 500, crc: bool = False) -> MessageExt:
    """The form as the store would append it, read back."""
    record = encode_record(
        topic=form.topic.encode(),
        body=form.body,
        properties=form.properties,
        queue_id=form.queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=form.born_timestamp,
        born_host=form.born_host,
        store_timestamp=2_000,
        store_host=HOST,
        flag=form.flag,
        sys_flag=form.sys_flag,
        reconsume_times=form.reconsume_times,
        prepared_transaction_offset=form.prepared_transaction_offset,
        append_crc=crc,
    )
    assert check_record(record, strict=True).ok
    return MessageExt(record)


def test_delayed_message_waits_in_the_queue_of_its_level() -> None:
    form = delayed(form_of(Message("orders", b"x", tags="a", delay_level=3)), LEVELS)
    assert (form.topic, form.queue_id, form.delay_level) == (SCHEDULE_TOPIC, 2, 0)
    assert parse_properties(form.properties) == {
        "TAGS": "a",
        "DELAY": "3",
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
    }


def test_too_high_level_is_clamped() -> None:
    form = delayed(form_of(Message("orders", b"x", delay_level=99)), LEVELS)
    assert form.queue_id == 17
    assert delay_level_of(form.properties) == 18


def test_due_message_returns_to_its_place_and_is_not_delayed_again() -> None:
    waiting = stored(delayed(form_of(Message("orders", b"x", delay_level=3, flag=9), reconsume_times=2), LEVELS))
    form = delivered(waiting)
    assert form is not None
    assert (form.topic, form.queue_id, form.delay_level) == ("orders", 2, 0)
    assert form.properties == bytes(waiting.raw_properties)  # DELAY is still written there
    assert (form.flag, form.reconsume_times, form.born_timestamp) == (9, 2, 1_000)
    assert not form.wait_store_msg_ok


def test_due_half_message_is_discarded() -> None:
    waiting = stored(delayed(form_of(Message(HALF_TOPIC, b"x", delay_level=3)), LEVELS))
    assert delivered(waiting) is None


@pytest.mark.parametrize("properties", [{}, {"REAL_TOPIC": "t"}, {"REAL_TOPIC": "t", "REAL_QID": "x"}])
def test_record_that_does_not_say_where_it_belongs_is_corruption(properties: dict[str, str]) -> None:
    with pytest.raises(CorruptionError, match="REAL_TOPIC and REAL_QID"):
        delivered(stored(form_of(Message("t", b"", properties=properties))))


def test_checksum_of_the_old_record_is_not_stored_again() -> None:
    waiting = stored(delayed(form_of(Message("orders", b"x", delay_level=1)), LEVELS), crc=True)
    form = delivered(waiting)
    assert form is not None and b"__CRC32#" not in form.properties
    stored(form)
    stored(form, crc=True)


def test_first_retry_remembers_origin_and_waits_for_level_three() -> None:
    record = stored(form_of(Message("orders", b"x", tags="a")))
    form = sent_back(record, group="g", delay_level=0, reconsume_times_max=16)
    assert (form.topic, form.queue_id, form.delay_level, form.reconsume_times) == ("%RETRY%g", 0, 3, 1)
    assert parse_properties(form.properties) == {
        "TAGS": "a",
        "WAIT": "false",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": record.message_id,
        "DELAY": "3",
    }


def test_later_retries_keep_the_first_origin_and_wait_longer() -> None:
    first = stored(
        sent_back(stored(form_of(Message("orders", b"x"))), group="g", delay_level=0, reconsume_times_max=16)
    )
    again = sent_back(first, group="g", delay_level=0, reconsume_times_max=16)
    properties = parse_properties(again.properties)
    assert properties["RETRY_TOPIC"] == "orders"
    assert properties["ORIGIN_MESSAGE_ID"] == first.properties["ORIGIN_MESSAGE_ID"]
    assert (again.delay_level, again.reconsume_times) == (4, 2)


def test_consumer_may_choose_the_level() -> None:
    form = sent_back(stored(form_of(Message("orders", b"x"))), group="g", delay_level=7, reconsume_times_max=16)
    assert form.delay_level == 7


@pytest.mark.parametrize(("reconsume_times", "level"), [(16, 0), (17, 2), (0, -1)])
def test_exhausted_or_refused_message_becomes_a_dead_letter(reconsume_times: int, level: int) -> None:
    record = stored(form_of(Message("orders", b"x"), reconsume_times=reconsume_times))
    form = sent_back(record, group="g", delay_level=level, reconsume_times_max=16, queue_id=3)
    assert (form.topic, form.queue_id, form.delay_level) == ("%DLQ%g", 0, 0)
    assert form.reconsume_times == reconsume_times + 1
    assert parse_properties(form.properties)["DELAY"] == "0"


def half_record() -> MessageExt:
    message = Message("orders", b"x", properties={"PGROUP": "p", "UNIQ_KEY": "u"}, delay_level=2)
    return stored(transaction.half(form_of(message, sys_flag=TransactionType.PREPARED)))


def test_half_message_hides_under_the_half_topic() -> None:
    record = half_record()
    assert (record.topic, record.queue_id, record.sys_flag) == (HALF_TOPIC, 0, 0)
    assert record.properties == {
        "PGROUP": "p",
        "UNIQ_KEY": "u",
        "TRAN_MSG": "true",
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "__transactionId__": "u",
    }


def test_half_message_without_unique_key_has_no_transaction_id() -> None:
    form = transaction.half(form_of(Message("orders", b"x")))
    assert b"__transactionId__" not in form.properties


def test_commit_appends_the_message_under_its_real_topic() -> None:
    record = half_record()
    form = transaction.commit(record)
    assert (form.topic, form.queue_id) == ("orders", 2)
    assert transaction_type(form.sys_flag) is TransactionType.COMMIT
    assert form.prepared_transaction_offset == record.physical_offset
    assert parse_properties(form.properties) == {
        "PGROUP": "p",
        "UNIQ_KEY": "u",
        "TRAN_MSG": "true",
        "__transactionId__": "u",
    }


def test_committed_message_with_a_delay_is_delayed_next() -> None:
    record = stored(form_of(Message("h", b"", properties={"REAL_TOPIC": "t", "REAL_QID": "0", "DELAY": "4"})))
    assert transaction.commit(record).delay_level == 4


def test_end_of_another_transaction_is_refused() -> None:
    record = half_record()
    transaction.check_end_request(record, producer_group="p", queue_offset=4, physical_offset=500)
    for group, queue_offset, physical_offset in [("q", 4, 500), ("p", 5, 500), ("p", 4, 501)]:
        with pytest.raises(InvalidArgumentError, match="end of transaction"):
            transaction.check_end_request(
                record, producer_group=group, queue_offset=queue_offset, physical_offset=physical_offset
            )


def test_operation_notes_finished_offsets() -> None:
    form = transaction.operation([3, 10], queue_id=0, born_timestamp=1, born_host=HOST)
    record = stored(form)
    assert record.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    assert record.tags == "d"
    assert transaction.parse_operation(record.body) == [3, 10]


@pytest.mark.parametrize(("body", "offsets"), [(b"7", [7]), (b"0,1,3,", [0, 1, 3]), (b"5,6", [5, 6]), (b"", [])])
def test_operations_of_old_and_new_brokers_are_read(body: bytes, offsets: list[int]) -> None:
    assert transaction.parse_operation(body) == offsets


@pytest.mark.parametrize("body", [b"x", b"1,,2", b"-1", b",", "²".encode()])
def test_operation_that_is_no_list_is_corruption(body: bytes) -> None:
    with pytest.raises(CorruptionError, match="op record"):
        transaction.parse_operation(body)


def test_open_half_message_is_appended_again_with_a_count() -> None:
    again = stored(transaction.half_again(half_record()))
    assert again.topic == HALF_TOPIC
    assert transaction.check_times(again) == 1
    assert transaction.check_times(stored(transaction.half_again(again))) == 2
    immune = stored(transaction.half_again(again, prepared_queue_offset=4))
    assert transaction.check_times(immune) == 1
    assert immune.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "4"


def test_half_message_checked_too_often_is_given_up() -> None:
    record = half_record()
    form = transaction.given_up(record)
    assert form.topic == "TRANS_CHECK_MAX_TIME_TOPIC"
    assert form.properties == bytes(record.raw_properties)
