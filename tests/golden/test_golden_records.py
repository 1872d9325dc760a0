"""Every record a real RocketMQ wrote: read as Java reads it, and written back as Java wrote it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq.message import transaction
from flaremq.message.batch import decode_batch, encode_batch_item, inner_messages
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.java_hash import tags_code
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import encode_properties, find_property, parse_properties
from flaremq.message.record.codec import CheckReason, check_record, encode_record
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, has_crc_property
from flaremq.message.stored_form import StoredForm, delay_level_of, delivered, sent_back
from flaremq.message.sys_flag import TransactionType
from flaremq.message.topics import SCHEDULE_TOPIC, encode_topic
from tests.support.golden import GoldenStore, golden_names, open_golden

BODY_TEXT_MAX = 96  # longer bodies are in the manifests by their hash only


@pytest.fixture(scope="module", params=golden_names())
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenStore:
    return open_golden(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def records(golden: GoldenStore) -> dict[int, MessageExt]:
    return {message["physicalOffset"]: MessageExt(record) for message, record in golden.records()}


def test_archive_holds_the_files_java_was_given(golden: GoldenStore) -> None:
    for file in golden.manifest["filesBefore"]:
        data = (golden.root / file["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size"], file["sha256"]), file["path"]


def test_every_record_reads_as_java_reads_it(golden: GoldenStore) -> None:
    for expected, record in golden.records():
        assert MessageExt(record).to_dict("text", body_bytes_max=BODY_TEXT_MAX) == expected


def test_every_record_passes_the_strictest_check(golden: GoldenStore) -> None:
    with_checksum = golden.manifest["storeOptions"].get("enabledAppendPropCRC") == "true"
    for expected, record in golden.records():
        check = check_record(
            record,
            physical_offset=expected["physicalOffset"],
            strict=True,
            require_record_crc=with_checksum,
        )
        assert check == (CheckReason.OK, expected["size"])


def test_every_record_encodes_back_to_its_bytes(golden: GoldenStore) -> None:
    for _, record in golden.records():
        message = MessageExt(record)
        properties = bytes(message.raw_properties)
        append_crc = has_crc_property(properties)
        if append_crc:
            properties = properties[:-CRC_PROPERTY_SIZE]
        encoded = encode_record(
            topic=encode_topic(message.topic),
            body=message.stored_body,
            properties=properties,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host_bytes,
            store_timestamp=message.store_timestamp,
            store_host=message.store_host_bytes,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            append_crc=append_crc,
        )
        assert encoded == record


def test_walk_over_each_file_finds_exactly_the_records_and_blanks(golden: GoldenStore) -> None:
    end = golden.manifest["commitLog"]["maxPhyOffset"]
    found: list[int] = []
    blanks: list[tuple[int, int]] = []
    for start, path in golden.log_files().items():
        data, at = path.read_bytes(), 0
        while at < len(data) and start + at < end:
            check = check_record(data, at, physical_offset=start + at)
            if check.ok:
                found.append(start + at)
            else:
                assert check.reason is CheckReason.BLANK
                blanks.append((start + at, check.size))
            at += check.size
    assert found == [message["physicalOffset"] for message in golden.messages]
    assert blanks == [(blank["physicalOffset"], blank["size"]) for blank in golden.manifest["blanks"]]


def test_properties_survive_parsing_and_encoding(records: dict[int, MessageExt]) -> None:
    for message in records.values():
        raw = bytes(message.raw_properties)
        assert parse_properties(encode_properties(message.properties)) == message.properties
        for key, value in message.properties.items():
            assert find_property(raw, key.encode()) == value.encode()


def test_queue_units_carry_the_tag_hash_or_the_due_time(golden: GoldenStore, records: dict[int, MessageExt]) -> None:
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    for queue in golden.manifest["queues"].values():
        for _, physical_offset, size, code, *_ in queue["units"]:
            if size == 0x7FFFFFFF or physical_offset not in records:
                continue  # filler, or a unit whose record has expired
            message = records[physical_offset]
            level = delay_level_of(bytes(message.raw_properties))
            if message.topic == SCHEDULE_TOPIC and level > 0:
                assert code == levels.due_ms(level, message.store_timestamp)
            else:
                assert code == tags_code(message.tags or "")


def test_inner_batches_come_apart_and_together(records: dict[int, MessageExt]) -> None:
    for message in records.values():
        if not message.is_inner_batch:
            continue
        inner = list(inner_messages(message))
        assert len(inner) == int(message.properties["INNER_NUM"])
        assert inner[0].queue_offset == message.queue_offset
        items = [encode_batch_item(m.flag, bytes(m.body), bytes(m.properties)) for m in decode_batch(message.body)]
        assert b"".join(items) == message.body


def assert_same_message(form: StoredForm, expected: MessageExt, *, left_out: tuple[str, ...] = ()) -> None:
    assert (form.topic, form.queue_id, form.flag) == (expected.topic, expected.queue_id, expected.flag)
    assert form.body == expected.stored_body
    assert (form.born_timestamp, form.born_host) == (expected.born_timestamp, expected.born_host_bytes)
    assert form.sys_flag == expected.sys_flag
    assert form.reconsume_times == expected.reconsume_times
    assert form.prepared_transaction_offset == expected.prepared_transaction_offset
    wanted: dict[str, Any] = {k: v for k, v in expected.properties.items() if k not in (*left_out, "__CRC32#")}
    assert parse_properties(form.properties) == wanted


def versions_of(records: dict[int, MessageExt]) -> Iterator[list[MessageExt]]:
    """The records of one and the same message, in log order."""
    by_key: dict[str, list[MessageExt]] = defaultdict(list)
    for message in records.values():
        if message.uniq_key is not None:
            by_key[message.uniq_key].append(message)
    yield from by_key.values()


def test_delivered_messages_are_what_we_would_deliver(golden: GoldenStore, records: dict[int, MessageExt]) -> None:
    compared = 0
    for versions in versions_of(records):
        waiting: dict[tuple[str, int], MessageExt] = {}
        for message in versions:
            if message.topic == SCHEDULE_TOPIC:
                waiting[message.properties["REAL_TOPIC"], message.reconsume_times] = message
                continue
            source = waiting.pop((message.topic, message.reconsume_times), None)
            if source is not None:
                form = delivered(source)
                assert form is not None
                assert_same_message(form, message)
                compared += 1
    assert compared or not golden.name.endswith("-clean")


def test_committed_messages_are_what_we_would_commit(golden: GoldenStore, records: dict[int, MessageExt]) -> None:
    compared = 0
    for message in records.values():
        if message.transaction_type is TransactionType.COMMIT:
            form = transaction.commit(records[message.prepared_transaction_offset])
            # Versions before 5.5 keep the two properties of the half message.
            assert_same_message(form, message, left_out=("REAL_TOPIC", "REAL_QID"))
            compared += 1
    assert compared or not golden.name.endswith("-clean")


def test_dead_letters_are_what_we_would_write(golden: GoldenStore, records: dict[int, MessageExt]) -> None:
    compared = 0
    for versions in versions_of(records):
        consumed: dict[int, MessageExt] = {}
        for message in versions:
            if message.topic.startswith("%DLQ%"):
                source = consumed[message.reconsume_times - 1]
                group = message.topic.removeprefix("%DLQ%")
                assert_same_message(sent_back(source, group=group, delay_level=-1, reconsume_times_max=16), message)
                compared += 1
            elif message.topic != SCHEDULE_TOPIC:
                consumed[message.reconsume_times] = message
    assert compared or not golden.name.endswith("-clean")


def test_op_records_hold_queue_offsets(records: dict[int, MessageExt]) -> None:
    for message in records.values():
        if message.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
            offsets = transaction.parse_operation(message.body)
            form = transaction.operation(
                offsets, queue_id=0, born_timestamp=message.born_timestamp, born_host=message.born_host_bytes
            )
            assert offsets
            assert parse_properties(form.properties).items() <= message.properties.items()


def test_modification_times_survive_unpacking(tmp_path: Path) -> None:
    golden = open_golden("rmq49-clean", tmp_path)
    assert all(path.stat().st_mtime < 1_795_000_000 for path in golden.log_files().values())
