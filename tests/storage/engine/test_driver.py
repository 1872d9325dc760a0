"""StoreDriver: what it appends is what every other put writes; when it is durable and who may read it before."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.batch import encode_batch
from flaremq.message.message import Message
from flaremq.message.stored_form import StoredForm
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import GetMessageStatus, PutMessageStatus
from tests.support.crash_fs import CrashFS, Fault
from tests.support.driven_store import BORN_HOST, BORN_HOST_V6, DrivenStore, batch_body, kernels, open_driven, show
from tests.support.store_lab import SMALL, TOPIC, StoreLab, all_bodies

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
BORN = 1_699_999_999_000


def short(value: object) -> str:
    """A parameter in the name of its test."""
    return str(value)[:40]


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
messages = st.builds(
    Message,
    st.sampled_from(["orders", "payments", "%RETRY%group"]),
    st.binary(max_size=300),
    tags=st.none() | words,
    keys=st.none() | st.lists(words.filter(lambda word: " " not in word), min_size=1, max_size=3),
    flag=st.integers(-(2**31), 2**31 - 1),
    properties=st.dictionaries(words, words, max_size=3),
)


def append(
    driver: StoreDriver, message: Message, queue_id: int = 0, **changes: Any
) -> tuple[int, int, int] | PutResult:
    """A plain message through the hottest method."""
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": queue_id,
        "body": message.body,
        "properties": message.encoded_properties(),
        "flag": message.flag,
        "sys_flag": 0,
        "born_timestamp": BORN,
        "born_host": BORN_HOST,
        "reconsume_times": 0,
    }
    return driver.append(**(fields | changes))


def appended(driver: StoreDriver, body: bytes, **changes: Any) -> tuple[int, int, int]:
    result = append(driver, Message(TOPIC, body), **changes)
    assert isinstance(result, tuple), result
    return result


class Twins:
    """The same options and the same clock over two disks in memory: one store driven, one not."""

    def __init__(self, **changes: Any) -> None:
        options = replace(SMALL, **changes)
        self.clock = ManualClock()
        self.driven, self.usual = (
            MessageStore.open("/store", options, filesystem=CrashFS(), clock=self.clock, threads=False, driven=driven)
            for driven in (True, False)
        )
        self.driver = self.driven.driver()

    def files(self, store: MessageStore) -> dict[str, bytes]:
        disk = store._engine.parts.filesystem
        assert isinstance(disk, CrashFS)
        return {path: data for path, data in disk.files().items() if "/commitlog/" in path or "/consumequeue/" in path}

    def close(self) -> None:
        """The end of a test: both hold the same, and it is sound."""
        show(self.driver)
        for store in (self.driven, self.usual):
            assert store.check() == []
        assert self.files(self.driven) == self.files(self.usual)
        for store in (self.driven, self.usual):
            store.close()


# The same bytes


@pytest.mark.slow
@given(st.lists(st.tuples(messages, st.integers(0, 3)), min_size=1, max_size=12))
def test_appends_write_the_bytes_that_a_put_writes(sent: list[tuple[Message, int]]) -> None:
    twins = Twins()
    for message, queue_id in sent:
        twins.clock.advance(7)
        outcome = append(twins.driver, message, queue_id)
        put = twins.usual.put(message, queue_id, born_timestamp=BORN, born_host=BORN_HOST)
        assert put.ok
        assert outcome == (put.queue_offset, put.physical_offset, put.physical_offset + put.size)
    twins.close()


def test_appends_go_over_to_the_next_file_as_puts_do() -> None:
    twins = Twins()
    for number in range(40):
        message = Message(TOPIC, bytes([number]) * (1500 + 37 * number))
        twins.driver.append(TOPIC, 0, message.body, b"", 0, 0, BORN, BORN_HOST, 0)
        twins.usual.put(message, born_timestamp=BORN, born_host=BORN_HOST)
    assert sum("/commitlog/" in path for path in twins.files(twins.driven)) > 3
    twins.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"born_host": BORN_HOST_V6},
        {"sys_flag": 0x8},
        {"reconsume_times": 3},
        {"topic": "never-seen-before"},
        {"topic": "%RETRY%" + "T" * 180},
        {"body": b""},
        {"body": b"x" * 7000},
        {"properties": b"K\x01v\x02" * 200},
        {"properties": b"K\x01v"},
    ],
    ids=short,
)
def test_appends_that_are_not_plain_write_the_bytes_of_a_put_form(changes: dict[str, Any]) -> None:
    twins = Twins()
    fields: dict[str, Any] = {
        "topic": TOPIC,
        "queue_id": 1,
        "body": b"body",
        "properties": b"",
        "flag": 5,
        "sys_flag": 0,
        "born_timestamp": BORN,
        "born_host": BORN_HOST,
        "reconsume_times": 0,
    }
    for _ in range(3):
        outcome = twins.driver.append(**(fields | changes))
        put = twins.usual.put_form(StoredForm(**(fields | changes)))
        assert put.ok and outcome == (put.queue_offset, put.physical_offset, put.physical_offset + put.size)
    twins.close()


def test_record_checksums_are_written_by_appends_too() -> None:
    twins = Twins(enabled_append_prop_crc=True)
    for number in range(5):
        message = Message(TOPIC, b"%d" % number, tags="A")
        append(twins.driver, message)
        twins.usual.put(message, born_timestamp=BORN, born_host=BORN_HOST)
    assert b"".join(twins.files(twins.usual).values()).count(b"__CRC32#") == 5
    twins.close()


# Refusals


REFUSED = [
    ({"properties": b"K\x01v\x00\x02"}, ILLEGAL),
    ({"properties": b"x" * 32768}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ({"properties": b"__CRC32#\x01" + b"0" * 10 + b"\x02"}, ILLEGAL),
    ({"properties": b"A\x01b\x02__CRC33#\x01" + b"0" * 10 + b"\x02"}, ILLEGAL),
    ({"properties": b"A\x01b\x02_^CRC32#\x01" + b"0" * 10 + b"\x02"}, ILLEGAL),
    ({"body": b"x" * (4 * 1024 * 1024 + 1)}, ILLEGAL),
    ({"topic": "../../evil"}, ILLEGAL),
    ({"topic": ""}, ILLEGAL),
    ({"sys_flag": 0x80}, ILLEGAL),
]
WRONG = [
    {"queue_id": -1},
    {"queue_id": 2**31},
    {"flag": 2**31},
    {"born_timestamp": 2**63},
    {"reconsume_times": -(2**31) - 1},
]


def state(driver: StoreDriver) -> tuple[int, dict[str, dict[int, int]]]:
    offsets = {topic: dict(queues) for topic, queues in driver._writer.queue_offsets.items() if queues}
    return driver.appended, offsets


@pytest.mark.parametrize(("changes", "status"), REFUSED, ids=short)
def test_refused_append_says_why_and_leaves_no_trace(
    lab: StoreLab, changes: dict[str, Any], status: PutMessageStatus
) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)
    result = append(driver, Message(TOPIC, b"body"), **changes)
    assert isinstance(result, PutResult) and result.status is status and result.detail
    assert state(driver) == before
    assert appended(driver, b"after")[0] == 1


@pytest.mark.parametrize("changes", WRONG, ids=short)
def test_field_that_fits_no_record_is_illegal_and_leaves_no_trace(lab: StoreLab, changes: dict[str, Any]) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)
    result = append(driver, Message(TOPIC, b"body"), **changes)
    assert isinstance(result, PutResult) and result.status is ILLEGAL
    assert state(driver) == before
    assert appended(driver, b"after")[0] == 1


def on_disk(disk: CrashFS, **changes: Any) -> DrivenStore:
    """A driver over a disk in memory."""
    store = MessageStore.open("/store", replace(SMALL, **changes), filesystem=disk, threads=False, driven=True)
    return DrivenStore(store)


def test_append_to_a_full_disk_is_refused_and_taken_again_when_there_is_room() -> None:
    disk = CrashFS()
    driver = on_disk(disk)
    appended(driver, b"first")
    disk.faults = [Fault(kind="enospc", at=1, forever=True)]
    refused = None
    taken = 1
    while refused is None:
        result = append(driver, Message(TOPIC, b"x" * 1000))
        if isinstance(result, PutResult):
            refused = result
        else:
            taken += 1
    assert refused.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
    disk.faults = []
    assert appended(driver, b"again")[0] == taken
    driver.store.close()


# Batches as they come off the wire


def retargeted(message: Message, topic: str) -> Message:
    return Message(topic, message.body, flag=message.flag, properties=dict(message.properties or {}))


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@given(data=st.data())
def test_batch_body_writes_the_bytes_that_a_put_batch_writes(compiled: bool, data: st.DataObject) -> None:
    twins = Twins()
    with kernels(compiled):
        for _ in range(data.draw(st.integers(1, 3))):
            topic = data.draw(st.sampled_from(["orders", "%RETRY%" + "T" * 140]))
            sent = [retargeted(m, topic) for m in data.draw(st.lists(messages, min_size=1, max_size=8))]
            queue_id = data.draw(st.integers(0, 2))
            sys_flag = data.draw(st.sampled_from([0, 1, 0x301]))
            host = data.draw(st.sampled_from([BORN_HOST, BORN_HOST_V6]))
            got = twins.driver.append_batch_body(
                topic, queue_id, encode_batch(sent), born_timestamp=BORN, born_host=host, sys_flag=sys_flag
            )
            put = twins.usual.put_batch(sent, queue_id, born_timestamp=BORN, born_host=host, sys_flag=sys_flag)
            assert put.ok
            assert (got.status, got.queue_offset, got.physical_offset, got.size, got.count, got.message_id) == (
                (put.status, put.queue_offset, put.physical_offset, put.size, put.count, put.message_id)
            )
    twins.close()


def parsed(body: bytes) -> list[tuple[int, bytes, bytes]] | None:
    """What a batch body holds, by the format page; None if it is malformed."""
    at, found = 0, []
    while at < len(body):
        if len(body) - at < 22:
            return None
        flag, length = struct.unpack_from(">ii", body, at + 12)
        if length < 0 or at + 20 + length + 2 > len(body):
            return None
        properties = max(0, *struct.unpack_from(">h", body, at + 20 + length))  # below zero is none
        end = at + 22 + length + properties
        if end > len(body) or 0 in body[end - properties : end]:
            return None
        found.append((flag, body[at + 20 : at + 20 + length], body[end - properties : end]))
        at = end
    return found or None


GOOD = batch_body((1, b"first body", b"TAGS\x01A\x02"), (2, b"", b""), (-3, b"third", b"K\x01v\x02UNIQ_KEY\x01u\x02"))


def send_body(driver: StoreDriver, body: bytes) -> PutResult:
    return driver.append_batch_body(TOPIC, 0, body, born_timestamp=BORN, born_host=BORN_HOST, sys_flag=0)


def check_like_the_format_page(driver: DrivenStore, body: bytes) -> None:
    """Taken whole or refused without a trace, as the plain parser above says."""
    before = state(driver)
    expected = parsed(body)
    result = send_body(driver, body)
    if expected is None:
        assert result.status is ILLEGAL and result.detail, body
        assert state(driver) == before
        return
    assert result.ok and result.count == len(expected), body
    show(driver)
    stored = [
        driver.store.get(TOPIC, 0, result.queue_offset + number, 1).messages[0] for number in range(len(expected))
    ]
    assert [(m.flag, bytes(m.stored_body), bytes(m.raw_properties)) for m in stored] == expected


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
def test_batch_body_cut_at_any_byte_is_taken_whole_or_not_at_all(compiled: bool) -> None:
    driver = on_disk(CrashFS())
    appended(driver, b"before")
    with kernels(compiled):
        for end in range(len(GOOD) + 1):
            check_like_the_format_page(driver, GOOD[:end])


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
def test_batch_body_with_any_byte_changed_is_taken_whole_or_not_at_all(compiled: bool) -> None:
    driver = on_disk(CrashFS())
    appended(driver, b"before")
    with kernels(compiled):
        for at in range(len(GOOD)):
            for value in (0x00, 0x7F, 0x80, 0xFF):
                check_like_the_format_page(driver, GOOD[:at] + bytes([value]) + GOOD[at + 1 :])


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@given(body=st.binary(max_size=120) | st.lists(st.sampled_from([b"\0" * 16, b"\0\0\0\1", b"\0\0", b"x"])).map(b"".join))
def test_random_batch_body_is_taken_whole_or_not_at_all(compiled: bool, body: bytes) -> None:
    driver = on_disk(CrashFS())
    appended(driver, b"before")
    with kernels(compiled):
        check_like_the_format_page(driver, body)
    driver.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        batch_body((0, b"b", b"A\x01b\x02__CRC32#\x01" + b"0" * 10 + b"\x02")),
        batch_body((0, b"b", b"A\x01b\x02__CRC33#\x01" + b"0" * 10 + b"\x02")),
        batch_body((0, b"b", b"A\x01b\x02_^CRC32#\x01" + b"0" * 10 + b"\x02")),
        batch_body(*[(0, b"x" * 900, b"")] * 17),  # fits no file of 16 KiB
        batch_body((0, b"x" * (4 * 1024 * 1024 + 1), b"")),
        batch_body((0, b"", b"")) * 65_537,
    ],
    ids=[
        "empty",
        "checksum of its own",
        "one bit off it",
        "one bit off its start",
        "larger than a file",
        "larger than maxMessageSize",
        "too many",
    ],
)
def test_batch_that_cannot_be_stored_is_refused_without_a_trace(lab: StoreLab, compiled: bool, body: bytes) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)
    with kernels(compiled):
        result = send_body(driver, body)
    assert result.status is ILLEGAL and result.detail
    assert state(driver) == before


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@pytest.mark.parametrize("sys_flag", [0x4, 0x8, 0xC, 0x80])
def test_batch_with_transaction_or_inner_batch_bits_is_refused(lab: StoreLab, compiled: bool, sys_flag: int) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    with kernels(compiled):
        result = driver.append_batch_body(TOPIC, 0, GOOD, born_timestamp=0, born_host=BORN_HOST, sys_flag=sys_flag)
    assert result.status is ILLEGAL


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@pytest.mark.parametrize("changes", [{"queue_id": -1}, {"queue_id": 2**31}, {"born_timestamp": 2**63}], ids=short)
def test_batch_field_that_fits_no_record_is_illegal(lab: StoreLab, compiled: bool, changes: dict[str, Any]) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)
    fields: dict[str, Any] = {"queue_id": 0, "born_timestamp": BORN, "born_host": BORN_HOST, "sys_flag": 0} | changes
    with kernels(compiled):
        result = driver.append_batch_body(TOPIC, body=GOOD, **fields)
    assert result.status is ILLEGAL and state(driver) == before


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
@pytest.mark.parametrize("host", [b"short", bytes(4) + b"\0\1\0\0", bytes(4) + b"\1\0\0\0"])
def test_host_that_is_none_is_the_callers_fault(lab: StoreLab, compiled: bool, host: bytes) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)
    with pytest.raises(InvalidArgumentError):
        append(driver, Message(TOPIC, b"body"), born_host=host)
    with kernels(compiled), pytest.raises(InvalidArgumentError):
        driver.append_batch_body(TOPIC, 0, GOOD, born_timestamp=0, born_host=host, sys_flag=0)
    assert state(driver) == before


def test_prepared_and_rolled_back_records_take_no_place_in_the_queue(lab: StoreLab) -> None:
    driver = open_driven(lab)
    offsets = [appended(driver, b"x", sys_flag=sys_flag)[0] for sys_flag in (0, 0x4, 0x8, 0xC, 0)]
    assert offsets == [0, 0, 1, 0, 2]
    show(driver)
    assert len(all_bodies(lab.store)) == 3


def test_rows_that_could_not_be_written_take_no_queue_offsets(lab: StoreLab) -> None:
    driver = open_driven(lab)
    appended(driver, b"before")
    before = state(driver)

    def fail(*_: Any) -> None:
        raise MemoryError("no room for the array")

    with pytest.raises(MemoryError):
        driver.append_rows(TOPIC, 3, 30, fail)
    assert state(driver) == before


def test_batch_goes_whole_into_the_next_file(lab: StoreLab) -> None:
    driver = open_driven(lab)
    appended(driver, b"x" * 15_000)
    with kernels(True):
        result = send_body(driver, batch_body(*[(0, b"y" * 100, b"")] * 10))
    assert result.ok and result.physical_offset == 16 * 1024
    show(driver)
    assert len(all_bodies(lab.store)) == 11


# Durability


def refuse_log_syncs(disk: CrashFS) -> None:
    def observe(operation: str, path: str) -> None:
        if operation == "sync" and "/commitlog/" in path:
            raise StoreIOError("sync", path, OSError(5, "Input/output error"))

    disk.observer = observe


def put_single(driver: StoreDriver) -> int:
    return appended(driver, b"one")[2]


def put_form(driver: StoreDriver) -> int:
    form = StoredForm(topic=TOPIC, queue_id=0, body=b"one", properties=b"", born_host=BORN_HOST)
    result = driver.append_form(form)
    return result.physical_offset + result.size


def put_batch(driver: StoreDriver) -> int:
    result = send_body(driver, batch_body((0, b"one", b"")))
    return result.physical_offset + result.size


@pytest.mark.parametrize("put", [put_single, put_form, put_batch])
def test_sync_flush_shows_nothing_before_it_is_durable(lab: StoreLab, put: Callable[[StoreDriver], int]) -> None:
    driver = open_driven(lab)
    end = put(driver)
    assert (driver.appended, driver.durable) == (end, 0)
    assert (driver.readable, driver.undispatched) == (0, 0)
    assert driver.dispatch() == set()
    assert lab.store.max_offset(TOPIC, 0) == 0
    assert lab.store.get(TOPIC, 0, 0).status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE
    assert lab.store.read(0) is None
    assert driver.sync() == end == driver.durable
    assert driver.dispatch() == {(TOPIC, 0)}
    assert all_bodies(lab.store) == [b"one"]
    assert driver.dispatch() == set()


def test_async_flush_shows_what_is_appended(lab: StoreLab) -> None:
    driver = open_driven(lab, flush_disk_type="ASYNC_FLUSH")
    end = put_single(driver)
    assert (driver.readable, driver.durable) == (end, 0)
    driver.dispatch()
    assert all_bodies(lab.store) == [b"one"]


def test_failed_sync_raises_for_ever_and_nothing_is_taken_or_shown_any_more() -> None:
    disk = CrashFS()
    driver = on_disk(disk)
    put_single(driver)
    show(driver)
    refuse_log_syncs(disk)
    appended(driver, b"unsure")
    durable = driver.durable
    for _ in range(2):
        with pytest.raises(StoreIOError):
            driver.sync()
        disk.observer = None  # a disk that works again has still dropped what it dropped
    assert driver.durable == durable
    driver.dispatch()
    assert all_bodies(driver.store) == [b"one"]
    for result in (
        append(driver, Message(TOPIC, b"late")),
        send_body(driver, GOOD),
        driver.append_form(StoredForm(topic=TOPIC, queue_id=0, body=b"", properties=b"", born_host=BORN_HOST)),
    ):
        assert isinstance(result, PutResult) and result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    driver.store.abandon()


def test_power_loss_keeps_what_was_synced_and_shows_no_more() -> None:
    disk = CrashFS()
    driver = on_disk(disk)
    for number in range(10):
        appended(driver, b"safe %d" % number)
    show(driver)
    for number in range(10):
        appended(driver, b"unsure %d" % number)
    after = disk.crash(7)
    store = MessageStore.open("/store", SMALL, filesystem=after, threads=False)
    found = all_bodies(store)
    assert found[:10] == [b"safe %d" % number for number in range(10)]
    assert found[10:] == [b"unsure %d" % number for number in range(len(found) - 10)]
    store.close()


# The flush type, changed while running


def test_flush_type_changed_while_running_decides_from_then_on(lab: StoreLab) -> None:
    driver = open_driven(lab)
    appended(driver, b"sync")
    lab.store.change_flush_disk_type("ASYNC_FLUSH")
    assert not driver.sync_mode
    end = appended(driver, b"async")[2]
    assert driver.readable == end
    driver.dispatch()
    assert all_bodies(lab.store) == [b"sync", b"async"]
    lab.store.change_flush_disk_type("SYNC_FLUSH")
    assert driver.sync_mode and driver.durable == end, "what was taken before is durable first"
    appended(driver, b"sync again")
    assert driver.dispatch() == set()
    show(driver)
    assert all_bodies(lab.store) == [b"sync", b"async", b"sync again"]


def test_unknown_flush_type_is_refused_and_changes_nothing(lab: StoreLab) -> None:
    driver = open_driven(lab)
    with pytest.raises(InvalidArgumentError, match="SYNC_FLUSH or ASYNC_FLUSH"):
        lab.store.change_flush_disk_type("NO_FLUSH")
    assert driver.sync_mode
    appended(driver, b"body")
    assert driver.undispatched == 0


# Dispatch


def test_dispatch_names_the_queues_that_grew(lab: StoreLab) -> None:
    driver = open_driven(lab)
    for queue_id in (3, 1, 3):
        appended(driver, b"body", queue_id=queue_id)
    assert show(driver) == {(TOPIC, 1), (TOPIC, 3)}


def test_dispatch_that_failed_is_known_and_caught_up_later() -> None:
    disk = CrashFS()
    driver = on_disk(disk)
    put_single(driver)
    driver.sync()
    disk.faults = [Fault(kind="enospc", at=1, forever=True)]
    assert driver.dispatch() == set()
    assert driver.has_dispatch_error and driver.store.health & RunningFlag.LOGIC_QUEUE_ERROR
    refused = append(driver, Message(TOPIC, b"while it lasts"))
    assert isinstance(refused, PutResult) and refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk.faults = []
    assert driver.dispatch() == {(TOPIC, 0)}
    assert not driver.has_dispatch_error
    assert appended(driver, b"afterwards")[0] == 1
    driver.store.close()
