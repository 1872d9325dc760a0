"""Rescue writes a healthy store from what a damaged one still holds, and says exactly what it could not
save."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.message.record.codec import encode_record
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.message_store import MessageStore
from flaremq.storage.rescue import rescue as rescue_module
from flaremq.storage.rescue.relocation import OffsetMap, Relocation
from flaremq.storage.rescue.rescue import REPORT_NAME, RescueReport, options_of, rescue_store
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.cli import flaremq
from tests.support.golden import open_golden
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab, all_bodies


def rescue(root: Path, target: Path) -> RescueReport:
    with StoreReader.open(root) as reader:
        return rescue_store(reader, str(target))


def messages_of(root: Path) -> list[MessageExt]:
    with StoreReader.open(root) as reader:
        return [MessageExt(bytes(record)) for _, record in reader.records()]


def open_rescued(target: Path) -> MessageStore:
    with StoreReader.open(target) as reader:
        options = options_of(reader)
    return MessageStore.open(target, options, threads=False)


@pytest.fixture
def damaged(lab: StoreLab) -> StoreLab:
    """Two queues of ten messages each; the fourth message of queue 1 is damaged."""
    lab.open()
    puts = [
        lab.put(b"%d" % number, queue_id=number % 2, tags=f"t{number % 3}", keys=[f"k{number}"]) for number in range(20)
    ]
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[7].physical_offset + 88)
    return lab


def test_everything_but_the_damaged_record_is_in_the_new_store(damaged: StoreLab, tmp_path: Path) -> None:
    report = rescue(damaged.root, tmp_path / "new")
    assert report.result.healthy
    assert (report.records, report.lost_messages) == (19, 1)
    with open_rescued(tmp_path / "new") as store:
        assert all_bodies(store, queue_id=0) == [b"%d" % number for number in range(0, 20, 2)]
        assert all_bodies(store, queue_id=1) == [b"%d" % number for number in range(1, 20, 2) if number != 7]
        assert [m.body for m in store.query(TOPIC, "k9")] == [b"9"]
        assert store.query(TOPIC, "k7") == []


def test_records_keep_all_but_their_places(damaged: StoreLab, tmp_path: Path) -> None:
    before = {m.body: m for m in messages_of(damaged.root)}
    rescue(damaged.root, tmp_path / "new")
    for after in messages_of(tmp_path / "new"):
        old = before[after.body].to_dict()
        new = after.to_dict()
        for place in ("physicalOffset", "queueOffset", "msgId"):
            del old[place], new[place]
        assert new == old


def test_the_report_says_what_was_lost_and_how_offsets_moved(damaged: StoreLab, tmp_path: Path) -> None:
    before = {(m.queue_id, m.queue_offset): m for m in messages_of(damaged.root)}
    report = rescue(damaged.root, tmp_path / "new").to_dict()
    (lost,) = report["lostRanges"]
    assert lost["path"] == str(damaged.log_files()[0]) and "body checksum" in lost["reason"]
    queue = next(queue for queue in report["queues"] if queue["queueId"] == 1)
    assert queue["lostOffsets"] == [[3, 4]]
    assert queue["offsetMap"] == [{"old": 0, "new": 0, "count": 3}, {"old": 4, "new": 3, "count": 6}]
    moved = {m.body: m for m in messages_of(tmp_path / "new")}
    for run in report["physicalOffsetMap"]:
        for old in before.values():
            if run["old"] <= old.physical_offset < run["old"] + run["bytes"]:
                assert moved[old.body].physical_offset == old.physical_offset - run["old"] + run["new"]
    assert json.loads((tmp_path / "new" / REPORT_NAME).read_text()) == report


def test_the_damaged_store_is_only_read(damaged: StoreLab, tmp_path: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in damaged.root.rglob("*")}
    rescue(damaged.root, tmp_path / "new")
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in damaged.root.rglob("*")} == before


def test_a_lost_file_costs_the_messages_in_it_and_no_others(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    puts = lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    lab.log_files()[1].unlink()
    report = rescue(lab.root, tmp_path / "new")
    lost = [put for put in puts if LOG_FILE <= put.physical_offset < 2 * LOG_FILE]
    assert (report.records, report.lost_messages) == (len(puts) - len(lost), len(lost))
    assert report.lost == {(TOPIC, 0): [(lost[0].queue_offset, lost[-1].queue_offset + 1)]}
    assert report.result.healthy


def test_messages_only_the_queue_still_knows_count_as_lost(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    puts = lab.put_many(5)
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[3].physical_offset, bytes(LOG_FILE - puts[3].physical_offset))
    report = rescue(lab.root, tmp_path / "new")
    assert report.lost == {(TOPIC, 0): [(3, 5)]}


def test_a_damaged_queue_does_not_make_messages_look_lost(damaged: StoreLab, tmp_path: Path) -> None:
    queue = damaged.queue_files(queue_id=0)[0]
    damaged.overwrite(queue, 3 * 20, b"\x7f" * 100)
    damaged.overwrite(queue, 12 * 20, b"\x00\x00\x00\x01" * 10)  # units that never were
    damaged.overwrite(damaged.queue_files(queue_id=1)[0], 3 * 20, bytes(20))
    report = rescue(damaged.root, tmp_path / "new")
    assert (report.records, report.lost) == (19, {(TOPIC, 1): [(3, 4)]})


def test_a_flipped_queue_offset_does_not_make_messages_look_lost(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    puts = lab.put_many(4)
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[3].physical_offset + 23, b"\x01")  # no checksum covers it
    report = rescue(lab.root, tmp_path / "new")
    assert (report.records, report.lost_messages) == (4, 0)


def test_records_with_an_impossible_topic_are_lost_and_with_odd_properties_doubtful(
    lab: StoreLab, tmp_path: Path
) -> None:
    lab.open()
    puts = [lab.put(b"12345", properties={"name": "value"}) for _ in range(3)]
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[0].physical_offset + 88 + 5 + 1, b"\xff")  # the topic's first letter
    lab.damage_log(puts[1].physical_offset + puts[1].size - 3, b"\x00")
    report = rescue(lab.root, tmp_path / "new")
    assert (report.records, report.doubtful) == (2, [puts[1].physical_offset])
    assert [lost.reason for lost in report.damaged] == ["the topic is not a legal name"]


def test_unconfirmed_records_behind_a_torn_one_are_saved_too(lab: StoreLab, tmp_path: Path) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put(b"durable")
    lab.store.flush()
    torn = lab.put(b"torn")
    lab.put(b"behind")
    lab.kill()
    lab.broken_on_purpose = True
    lab.damage_log(torn.physical_offset + 88)
    rescue(lab.root, tmp_path / "new")
    assert [m.body for m in messages_of(tmp_path / "new")] == [b"durable", b"behind"]


def test_sealed_records_are_sealed_again(lab: StoreLab, tmp_path: Path) -> None:
    lab.open(enabled_append_prop_crc=True)
    puts = lab.put_many(4)
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[0].physical_offset + 88)
    rescue(lab.root, tmp_path / "new")
    found = messages_of(tmp_path / "new")
    assert [m.queue_offset for m in found] == [0, 1, 2]
    for message in found:
        assert check_record(message.record, physical_offset=message.physical_offset, require_record_crc=True).ok


def test_consumers_read_on_where_they_were(damaged: StoreLab, tmp_path: Path) -> None:
    config = damaged.root / "config"
    config.mkdir()
    table = '{"offsetTable":{"TOPIC@g":{0:4,1:6},"other@g":{0:9}}}'
    (config / "consumerOffset.json").write_text(table.replace("TOPIC", TOPIC))
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": {TOPIC: {}}}))
    (config / "subscriptionGroup.json").write_text("{broken")
    (config / "timercheck").write_bytes(bytes(4096))
    report = rescue(damaged.root, tmp_path / "new")
    target = tmp_path / "new" / "config"
    offsets = json.loads((target / "consumerOffset.json").read_text())["offsetTable"]
    assert offsets == {f"{TOPIC}@g": {"0": 4, "1": 5}, "other@g": {"0": 0}}
    assert (target / "topics.json").read_text() == (config / "topics.json").read_text()
    assert sorted(os.listdir(target)) == ["consumerOffset.json", "topics.json"]
    assert len(report.complaints) == 1 and "subscriptionGroup.json" in report.complaints[0]


def test_delay_offsets_are_translated(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    puts = [lab.put(b"%d" % number, delay_level=2) for number in range(4)]
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[0].physical_offset + 88)
    (lab.root / "config").mkdir()
    (lab.root / "config" / "delayOffset.json").write_text('{"offsetTable":{2:3}}')
    rescue(lab.root, tmp_path / "new")
    table = json.loads((tmp_path / "new" / "config" / "delayOffset.json").read_text())["offsetTable"]
    assert table == {"2": 2}


def test_a_batch_queue_comes_out_as_one(tmp_path: Path) -> None:
    store = open_golden("rmq53-batchcq", tmp_path)
    log = store.log_files()[0]
    first = next(m for m in store.messages if m["topic"] == "GoldBcq")
    with log.open("r+b") as file:
        file.seek(first["physicalOffset"] + 100)
        file.write(b"\xff\xff\xff")
    report = rescue(store.root, tmp_path / "new")
    assert report.result.healthy and report.lost_messages == 2  # an inner batch of two
    with StoreReader.open(tmp_path / "new") as reader:
        kinds = {queue.topic: queue.is_batch for queue in reader.queues}
        batches = [m for m in messages_of(tmp_path / "new") if m.is_inner_batch]
    assert kinds == {"GoldA": False, "GoldBcq": True}
    assert all(int(m.properties["INNER_BASE"]) == m.queue_offset for m in batches)


def _record(topic: str, body: bytes, **fields: int | bytes) -> bytes:
    host = encode_host("127.0.0.1:10911")
    defaults: dict[str, int | bytes] = {
        "properties": b"",
        "queue_id": 0,
        "queue_offset": 0,
        "physical_offset": 0,
        "born_timestamp": 1,
        "store_timestamp": 2,
        "born_host": host,
        "store_host": host,
    }
    return encode_record(topic=topic.encode(), body=body, **{**defaults, **fields})  # type: ignore[arg-type]


def test_references_to_half_messages_follow_them() -> None:
    relocation = Relocation()
    # Half messages 5 and 7 are kept, 6 is lost.
    relocation.move(_record(HALF_TOPIC, b"a", queue_offset=5, physical_offset=1000), 0)
    relocation.move(_record(HALF_TOPIC, b"b", queue_offset=7, physical_offset=3000), 200)
    op = relocation.move(_record(OP_HALF_TOPIC, b"5,6,7,", queue_offset=3, physical_offset=4000), 400)
    assert op is not None and MessageExt(op).body == b"0,1,"
    assert check_record(op, physical_offset=400).ok
    single = relocation.move(_record(OP_HALF_TOPIC, b"7", queue_offset=4, physical_offset=4500), 600)
    assert single is not None and MessageExt(single).body == b"1"
    assert relocation.move(_record(OP_HALF_TOPIC, b"6", queue_offset=5, physical_offset=5000), 800) is None
    commit = _record("orders", b"x", physical_offset=6000, sys_flag=8, prepared_transaction_offset=3000)
    moved = relocation.move(commit, 800)
    assert moved is not None and MessageExt(moved).prepared_transaction_offset == 200
    reference = b"TRAN_PREPARED_QUEUE_OFFSET\x017\x02"
    again = _record(HALF_TOPIC, b"c", queue_offset=8, physical_offset=7000, properties=reference)
    moved = relocation.move(again, 1000)
    assert moved is not None and MessageExt(moved).properties["TRAN_PREPARED_QUEUE_OFFSET"] == "1"


def test_records_without_a_place_in_a_queue_keep_offset_zero() -> None:
    relocation = Relocation()
    moved = relocation.move(_record("orders", b"x", physical_offset=500, sys_flag=4), 100)
    assert moved is not None
    assert (MessageExt(moved).queue_offset, MessageExt(moved).physical_offset) == (0, 100)
    assert relocation.queues == {}


def test_light_queue_offsets_are_renumbered() -> None:
    relocation = Relocation()
    properties = b"INNER_MULTI_DISPATCH\x01%LMQ%a,b\x02INNER_MULTI_QUEUE_OFFSET\x0140,50\x02"
    moved = relocation.move(_record("orders", b"x", queue_id=3, queue_offset=9, properties=properties), 0)
    assert moved is not None
    assert MessageExt(moved).properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
    assert set(relocation.queues) == {("orders", 3), ("%LMQ%a", 0), ("b", 3)}


def test_offset_maps_merge_runs_and_know_positions() -> None:
    offsets = OffsetMap()
    for old, new in ((10, 0), (11, 1), (15, 2), (16, 3)):
        offsets.add(old, new)
    assert offsets.runs == [[10, 0, 2], [15, 2, 2]]
    assert (offsets.kept, offsets.holes()) == (4, [(12, 15)])
    assert [offsets.find(old) for old in (9, 10, 12, 15, 17)] == [None, 0, None, 2, None]
    assert [offsets.position(old) for old in (0, 10, 11, 13, 15, 17, 99)] == [0, 0, 1, 2, 2, 4, 4]
    assert OffsetMap().position(5) == 0


def test_a_topic_made_anew_is_placed_by_its_last_life() -> None:
    offsets = OffsetMap()
    for old, new in ((0, 0), (1, 1), (2, 2), (0, 3), (1, 4)):
        offsets.add(old, new)
    assert offsets.position(1) == 4 and offsets.find(2) is None


def test_a_target_that_is_not_empty_is_refused(damaged: StoreLab, tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.mkdir()
    (target / "precious").write_text("data")
    with pytest.raises(InvalidArgumentError, match="not empty"):
        rescue(damaged.root, target)
    assert (target / "precious").read_text() == "data"
    with pytest.raises(InvalidArgumentError, match="inside the store"):
        rescue(damaged.root, damaged.root / "new")


def test_an_empty_target_folder_is_fine(damaged: StoreLab, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert rescue(damaged.root, tmp_path / "new").result.healthy


def test_a_failed_rescue_leaves_nothing_behind(
    damaged: StoreLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CorruptionError("does not verify")

    monkeypatch.setattr(rescue_module, "_verify", fail)
    with pytest.raises(CorruptionError):
        rescue(damaged.root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_store_without_one_valid_record_cannot_be_rescued(damaged: StoreLab, tmp_path: Path) -> None:
    damaged.log_files()[0].write_bytes(b"not a log")
    with pytest.raises(CorruptionError, match="not one valid record"):
        rescue(damaged.root, tmp_path / "new")
    damaged.log_files()[0].unlink()
    with pytest.raises(InvalidArgumentError, match="no log files"):
        rescue(damaged.root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_rescued_store_takes_messages(damaged: StoreLab, tmp_path: Path) -> None:
    rescue(damaged.root, tmp_path / "new")
    with open_rescued(tmp_path / "new") as store:
        assert store.put(Message(TOPIC, b"next"), 1).queue_offset == 9


@pytest.mark.slow
def test_whatever_verify_finds_wrong_with_a_record_rescue_does_not_pass_over(lab: StoreLab, tmp_path: Path) -> None:
    """Bytes of a record in turn, tags and keys included: no checksum covers most of it."""
    lab.open()
    puts = [lab.put(b"body %d" % number, queue_id=number % 2, tags="tag", keys=[f"key{number}"]) for number in range(6)]
    lab.close()
    lab.broken_on_purpose = True
    start, end = puts[2].physical_offset, puts[3].physical_offset
    path = lab.log_files()[0]
    whole = path.read_bytes()
    told = 0
    for at in range(start, end, 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with StoreReader.open(lab.root) as reader:
            damage = [finding for finding in StoreVerifier(reader).findings() if finding.severity is Severity.DAMAGE]
        if not damage:
            continue
        with StoreReader.open(lab.root) as reader:
            report = rescue_store(reader, str(tmp_path / str(at)))
        assert report.findings == damage
        lost = any(span.start <= start < span.end for span in report.damaged)
        assert lost or start in report.doubtful, (at - start, damage)
        assert not report.is_whole
        told += 1
    assert told > 8


@pytest.mark.parametrize(("at", "mask"), [(15, 2), (22, 1), (39, 4)], ids=["queue id", "queue offset", "transaction"])
def test_a_record_that_left_its_queue_in_a_store_that_was_killed_is_told(
    lab: StoreLab, tmp_path: Path, at: int, mask: int
) -> None:
    """Its unit lies where the next start writes units anew, and still is a witness."""
    lab.open()
    puts = [lab.put(b"body %d" % number) for number in range(6)]
    lab.store.abandon()
    lab.broken_on_purpose = True
    lab.damage_log(puts[2].physical_offset + at, bytes([mask]))
    with StoreReader.open(lab.root) as reader:
        report = rescue_store(reader, str(tmp_path / "new"))
    assert puts[2].physical_offset in report.doubtful and not report.is_whole


def test_a_flipped_byte_of_a_key_is_told_and_the_record_kept(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    puts = [lab.put(keys=[f"key{number}"]) for number in range(3)]
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[1].physical_offset + lab.log_bytes()[puts[1].physical_offset :].index(b"key1") + 3)
    done = flaremq("store", "rescue", lab.root, "--to", tmp_path / "new")
    report = json.loads(done.out)
    assert (done.code, report["records"], report["doubtfulRecords"]) == (1, 3, [puts[1].physical_offset])
    assert {finding["kind"] for finding in report["sourceDamage"]} == {"index-hash-wrong", "key-missing"}
    assert "1 record(s) are kept" in done.err and f"formerly at {puts[1].physical_offset}" in done.err


def test_a_missing_log_file_is_blamed_and_not_the_one_behind_it(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    lab.fill_files(4)
    lab.close()
    lab.broken_on_purpose = True
    files = lab.log_files()
    files[1].unlink()
    files[2].unlink()
    with StoreReader.open(lab.root) as reader:
        report = rescue_store(reader, str(tmp_path / "new"))
    assert [lost.path for lost in report.damaged] == [str(files[1])]
