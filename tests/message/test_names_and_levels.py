"""Topic names, delay levels, system flags."""

from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message import sys_flag, topics
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, level_of_queue_id, parse_delay_levels, queue_id_of_level
from flaremq.message.sys_flag import CompressionType, TransactionType


@pytest.mark.parametrize("topic", ["a", "Orders-2024_x|y%z", "t" * 127, "%RETRY%group", topics.SCHEDULE_TOPIC])
def test_legal_topics_are_accepted(topic: str) -> None:
    topics.validate_topic(topic)
    assert topics.encode_topic(topic) == topic.encode()


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "a.b", "订单", "a\n", "a\x00", "t" * 128])
def test_illegal_topics_are_refused(topic: str) -> None:
    with pytest.raises(InvalidArgumentError, match="topic"):
        topics.validate_topic(topic)
    with pytest.raises(InvalidArgumentError, match="topic"):
        topics.encode_topic(topic)


def test_only_retry_topics_may_be_longer_than_127_bytes() -> None:
    assert len(topics.encode_topic("%RETRY%" + "t" * 248)) == 255
    for topic in ("%RETRY%" + "t" * 249, "%RETRY%" + "t" * 150 + " "):
        with pytest.raises(InvalidArgumentError, match="retry topic"):
            topics.encode_topic(topic)


def test_names_of_retry_and_dead_letter_topics() -> None:
    assert topics.retry_topic("g") == "%RETRY%g"
    assert topics.pop_retry_topic("g", "t") == "%RETRY%g_t"
    assert topics.dlq_topic("g") == "%DLQ%g"
    assert topics.reply_topic("c") == "c_REPLY_TOPIC"
    assert topics.is_retry_topic("%RETRY%g") and not topics.is_retry_topic("%DLQ%g")
    assert topics.is_dlq_topic("%DLQ%g") and not topics.is_dlq_topic("g")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("SCHEDULE_TOPIC_XXXX", True),
        ("rmq_sys_wheel_timer", True),
        ("TBW102", True),
        ("%RETRY%g", False),
        ("o", False),
    ],
)
def test_system_topics_are_known(topic: str, expected: bool) -> None:
    assert topics.is_system_topic(topic) is expected


def test_default_delay_table_has_eighteen_levels() -> None:
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    assert levels.level_max == 18
    assert [levels.delay_ms(level) for level in (1, 2, 5, 18)] == [1_000, 5_000, 60_000, 7_200_000]


def test_too_high_level_counts_as_the_highest_and_unknown_as_a_second() -> None:
    levels = parse_delay_levels("2s 1d")
    assert levels.delay_ms(99) == 86_400_000
    assert levels.clamp(99) == 2
    assert levels.delay_ms(0) == levels.delay_ms(-3) == 1_000
    assert levels.due_ms(1, 1_000_000) == 1_002_000


@pytest.mark.parametrize("text", ["", "  ", "1", "s", "1x", "1s -5s", "1s 5", "1.5s", "²s"])
def test_malformed_delay_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="messageDelayLevel"):
        parse_delay_levels(text)


def test_delay_queue_is_one_below_the_level() -> None:
    assert queue_id_of_level(1) == 0
    assert level_of_queue_id(17) == 18


def test_transaction_type_reads_and_writes_its_two_bits() -> None:
    for kind in TransactionType:
        flag = sys_flag.with_transaction_type(0xFFF, kind)
        assert sys_flag.transaction_type(flag) is kind
        assert flag | sys_flag.TRANSACTION_MASK == 0xFFF


def test_compression_type_reads_and_writes_its_three_bits() -> None:
    for kind in CompressionType:
        flag = sys_flag.with_compression(0x30, kind)
        assert sys_flag.compression_type(flag) == kind
        assert flag & 0xFF == 0x31
    assert sys_flag.compression_type(0x700) == 7


def test_prepared_and_rollback_get_no_queue_unit_and_rollback_no_index_entry() -> None:
    assert [sys_flag.gets_queue_unit(kind) for kind in TransactionType] == [True, False, True, False]
    assert [sys_flag.gets_index_entry(kind) for kind in TransactionType] == [True, True, True, False]
