"""``verify`` finds what is wrong, names it, and says of nothing else that it is wrong.

Each test breaks one thing in a healthy store. What counts is the kind of the finding, its place and its
severity: damage where the store says something false, a note where a crash left what opening repairs.
"""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest

from flaremq.java_json import parse_java_json
from flaremq.message.delay import parse_delay_levels
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.outlook import outlook_of
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log import walk as store_walk
from flaremq.storage.verify.finding import Finding, Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.golden import open_golden
from tests.support.readable import readable_walk
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab

GEOMETRY = IndexGeometry(16, 64)


def findings_of(lab: StoreLab, **options: object) -> list[Finding]:
    with StoreReader.open(lab.root, index_geometry=GEOMETRY) as reader:
        return list(StoreVerifier(reader, **options).findings())  # type: ignore[arg-type]


def kinds_of(lab: StoreLab) -> dict[str, Severity]:
    return {finding.kind: finding.severity for finding in findings_of(lab)}


@pytest.fixture
def filled(lab: StoreLab) -> StoreLab:
    """A healthy, closed store: three queues, tags, keys, a delayed message, several files of each kind."""
    lab.open()
    for number in range(90):
        lab.put(
            b"message %d" % number,
            queue_id=number % 3,
            tags=f"t{number % 4}",
            keys=[f"k{number}", "all"],
            properties={"UNIQ_KEY": f"u{number}"},
        )
    for _ in range(2):
        lab.put(b"later", delay_level=3)
    lab.close()
    assert findings_of(lab) == []
    lab.broken_on_purpose = True
    return lab


def index_files(lab: StoreLab) -> list[Path]:
    return sorted((lab.root / "index").iterdir())


# The log


def test_a_flipped_body_byte_is_a_damaged_record_and_its_views_are_only_noted(filled: StoreLab) -> None:
    with StoreReader.open(filled.root) as reader:
        offset, record = list(reader.records())[10]
    filled.damage_log(offset + 90)
    found = {finding.kind: finding for finding in findings_of(filled)}
    damage = found.pop("record-damaged")
    assert (damage.severity, damage.path, damage.offset) == (Severity.DAMAGE, str(filled.log_files()[0]), offset)
    assert f"{offset} to {offset + len(record) - 1}" in damage.detail
    assert {kind: finding.severity for kind, finding in found.items()} == {
        "queue-offset-gap": Severity.NOTE,
        "unit-of-lost-record": Severity.NOTE,
        "index-entry-dangling": Severity.NOTE,
    }


def test_a_gap_between_log_files_is_named(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    lab.log_files()[1].unlink()
    missing = [finding for finding in findings_of(lab) if finding.kind == "file-missing"]
    assert [finding.path for finding in missing] == [str(lab.root / "commitlog" / f"{LOG_FILE:020d}")]


def test_a_log_file_of_the_wrong_length_is_named(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    os.truncate(lab.log_files()[1], LOG_FILE - 1)
    assert kinds_of(lab)["file-size"] is Severity.DAMAGE


def test_the_end_of_a_log_that_was_durable_cannot_be_lost_unnoticed(filled: StoreLab) -> None:
    with StoreReader.open(filled.root) as reader:
        offsets = [offset for offset, _ in reader.records()]
    last = filled.log_files()[-1]
    filled.overwrite(last, offsets[-1] % LOG_FILE, bytes(LOG_FILE - offsets[-1] % LOG_FILE))
    kinds = kinds_of(filled)
    assert kinds["log-cut-short"] is Severity.DAMAGE
    assert kinds["unit-behind-log"] is Severity.DAMAGE
    (filled.root / "flaremq.offsets").unlink()  # even if nothing but the queues remember
    assert kinds_of(filled)["unit-behind-log"] is Severity.DAMAGE


def test_a_store_without_its_log_is_damaged(filled: StoreLab) -> None:
    for path in filled.log_files():
        path.unlink()
    assert kinds_of(filled)["log-absent"] is Severity.DAMAGE


def test_a_clock_that_went_back_is_a_note(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.clock.jump(-3_600_000)
    lab.put()
    lab.close()
    assert kinds_of(lab) == {"store-time-backwards": Severity.NOTE}


# Queues


@pytest.mark.parametrize(
    ("at", "data", "kind"),
    [
        (0, struct.pack(">q", 12345), "unit-wrong"),
        (8, struct.pack(">i", 7), "unit-wrong"),
        (12, struct.pack(">q", 99), "tags-code-wrong"),
        (0, bytes(20), "unit-missing"),
        (0, struct.pack(">qiq", 0, 2**31 - 1, 0), "unit-missing"),
    ],
)
def test_a_unit_that_contradicts_its_record_is_damage(filled: StoreLab, at: int, data: bytes, kind: str) -> None:
    path = filled.queue_files(queue_id=1)[0]
    filled.overwrite(path, 5 * 20 + at, data)
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity) == (kind, Severity.DAMAGE)
    assert (finding.path, finding.offset) == (str(path), 5 * 20)


def test_a_lost_queue_is_one_finding(filled: StoreLab) -> None:
    for path in filled.queue_files(queue_id=2):
        path.unlink()
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity) == ("unit-missing", Severity.DAMAGE)
    assert "(and 29 more)" in finding.detail


def test_records_of_a_deleted_topic_are_only_noted(filled: StoreLab) -> None:
    folder = filled.root / "consumequeue" / TOPIC
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    assert kinds_of(filled) == {"unit-missing": Severity.DAMAGE}  # nothing says that it was deleted
    config = filled.root / "config"
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_text('{"topicConfigTable":{"SCHEDULE_TOPIC_XXXX":{}}}')
    assert kinds_of(filled) == {"queue-removed": Severity.NOTE}


def test_a_unit_with_no_record_behind_it_is_damage(filled: StoreLab) -> None:
    path = filled.queue_files(queue_id=0)[-1]
    used = len(path.read_bytes().rstrip(b"\0")) // 20 + 1
    filled.overwrite(path, used * 20, struct.pack(">qiq", 0, 100, 5))
    assert kinds_of(filled) == {"unit-wrong": Severity.DAMAGE}


def test_a_due_time_that_stands_out_is_damage_and_another_level_table_is_not(filled: StoreLab) -> None:
    path = filled.queue_files("SCHEDULE_TOPIC_XXXX", 2)[0]
    assert {finding.kind for finding in findings_of(filled, delay_levels=parse_delay_levels("1s 2s 3s"))} == {
        "delay-level-differs"
    }
    due = struct.unpack_from(">q", path.read_bytes(), 12)[0]
    filled.overwrite(path, 12, struct.pack(">q", due + 1))
    assert kinds_of(filled) == {"due-time-wrong": Severity.DAMAGE}


def test_a_changed_level_table_is_no_damage_however_few_messages_wait(lab: StoreLab) -> None:
    lab.open()
    lab.put(delay_level=3)
    lab.reopen(message_delay_level="1s 2s 3s")
    lab.put(delay_level=3)
    lab.reopen(message_delay_level="1s 2s 7m")
    for _ in range(2):
        lab.put(delay_level=3)
    lab.close()
    for table in ("1s 5s 10s", "1s 2s 3s", "1s 2s 7m", "1d"):
        found = findings_of(lab, delay_levels=parse_delay_levels(table))
        assert {(finding.kind, finding.severity) for finding in found} == {("delay-level-differs", Severity.NOTE)}


@pytest.mark.parametrize("folder", ["commitlog", f"consumequeue/{TOPIC}/0"])
def test_a_file_whose_name_is_no_offset_that_can_be_is_foreign(filled: StoreLab, folder: str) -> None:
    (filled.root / folder / f"{1 << 63:020d}").write_bytes(next((filled.root / folder).iterdir()).read_bytes())
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity) == ("foreign-file", Severity.WARNING)
    filled.open()
    assert filled.store.is_writable


def test_a_queue_file_far_behind_the_others_costs_no_memory_and_hides_nothing(filled: StoreLab) -> None:
    folder = filled.root / "consumequeue" / TOPIC / "0"
    data = (folder / f"{0:020d}").read_bytes()
    far = len(data) << 44
    (folder / f"{far:020d}").write_bytes(data)
    found = [(finding.kind, Path(finding.path).name) for finding in findings_of(filled)]
    assert {kind for kind, _ in found} == {"file-missing", "unit-wrong"}


def test_a_foreign_file_is_a_warning(filled: StoreLab) -> None:
    (filled.root / "commitlog" / "core.1234").write_bytes(b"x")
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity) == ("foreign-file", Severity.WARNING)


# Index


@pytest.mark.parametrize(
    ("position", "data", "kind"),
    [
        (GEOMETRY.entry_position(5) + 0, struct.pack(">i", 1), "index-hash-wrong"),
        (GEOMETRY.entry_position(5) + 4, struct.pack(">q", 1 << 40), "index-entry-wrong"),
        (GEOMETRY.entry_position(5) + 4, struct.pack(">q", 3), "index-entry-dangling"),
        (GEOMETRY.entry_position(5) + 12, struct.pack(">i", 77), "index-time-wrong"),
        (GEOMETRY.entry_position(5) + 16, struct.pack(">i", 4), "index-chain-wrong"),
        (40, struct.pack(">16i", *([1] * 16)), "index-slot-wrong"),
        (24, struct.pack(">q", 5), "index-header-wrong"),
        (36, struct.pack(">i", 20), "index-header-wrong"),
    ],
)
def test_an_index_that_contradicts_itself_or_the_log_is_damage(
    filled: StoreLab, position: int, data: bytes, kind: str
) -> None:
    filled.overwrite(index_files(filled)[0], position, data)
    found = kinds_of(filled)
    assert found[kind] is Severity.DAMAGE


def test_one_wrong_entry_does_not_make_the_others_look_wrong(filled: StoreLab) -> None:
    filled.overwrite(index_files(filled)[1], GEOMETRY.entry_position(9) + 4, struct.pack(">q", 1 << 50))
    assert kinds_of(filled) == {"index-entry-wrong": Severity.DAMAGE, "key-missing": Severity.DAMAGE}


def test_keys_that_no_index_file_covers_are_a_warning(filled: StoreLab) -> None:
    index_files(filled)[-1].unlink()
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity) == ("key-not-indexed", Severity.WARNING)


def test_an_index_file_of_another_length_is_damage(filled: StoreLab) -> None:
    os.truncate(index_files(filled)[1], 1000)
    assert kinds_of(filled)["index-size"] is Severity.DAMAGE


def test_a_store_without_an_index_is_not_blamed_for_it(lab: StoreLab) -> None:
    lab.open(message_index_enable=False)
    lab.put(keys=["k"])
    lab.close()
    assert kinds_of(lab) == {"index-absent": Severity.NOTE}


# Checkpoint, markers, configuration


def test_a_checkpoint_that_claims_more_than_the_log_holds_is_a_warning(filled: StoreLab) -> None:
    filled.overwrite(filled.root / "checkpoint", 0, struct.pack(">q", 1 << 60))
    (finding,) = findings_of(filled)
    assert (finding.kind, finding.severity, finding.offset) == ("checkpoint-ahead", Severity.WARNING, 0)


def test_after_a_crash_a_checkpoint_proves_that_the_end_of_the_log_is_lost(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(4)
    lab.store.tick()
    lab.kill()
    lab.broken_on_purpose = True
    last = puts[-1].physical_offset
    lab.overwrite(lab.log_files()[0], last, bytes(LOG_FILE - last))
    found = [(finding.kind, finding.severity) for finding in findings_of(lab)]
    assert ("checkpoint-ahead", Severity.DAMAGE) in found and ("log-cut-short", Severity.DAMAGE) in found
    with StoreReader.open(lab.root) as reader:
        assert "the last" in str(outlook_of(reader).loss)
    (lab.root / "flaremq.offsets").unlink()  # nothing but RocketMQ's own file says so
    assert ("checkpoint-ahead", Severity.WARNING) in [(finding.kind, finding.severity) for finding in findings_of(lab)]
    with StoreReader.open(lab.root) as reader:
        verifier = StoreVerifier(reader)
        list(verifier.findings())
        assert not verifier.summary.healthy
        assert "had been on disk" in str(outlook_of(reader).loss)


def test_after_a_crash_the_last_log_files_cannot_be_lost_unnoticed(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(2)
    lab.store.tick()
    lab.kill()
    lab.broken_on_purpose = True
    for path in lab.log_files()[1:]:
        path.unlink()
    assert kinds_of(lab)["log-cut-short"] is Severity.DAMAGE


def test_a_store_that_was_killed_has_lost_nothing(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(4)
    lab.store.tick()
    lab.put_many(4)
    lab.kill()
    assert Severity.DAMAGE not in kinds_of(lab).values() and Severity.WARNING not in kinds_of(lab).values()
    with StoreReader.open(lab.root) as reader:
        assert outlook_of(reader).loss is None


def test_a_missing_checkpoint_is_a_note_and_a_short_one_a_warning(filled: StoreLab) -> None:
    os.truncate(filled.root / "checkpoint", 10)
    assert kinds_of(filled) == {"checkpoint-absent": Severity.WARNING}
    (filled.root / "checkpoint").unlink()
    assert kinds_of(filled) == {"checkpoint-absent": Severity.NOTE}


def test_config_may_have_bare_integer_keys_and_falls_back_to_its_backup(filled: StoreLab) -> None:
    config = filled.root / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text('{\n\t"offsetTable":{"T@G":{0:5,1:7\n\t\t}\n\t}\n}')
    assert findings_of(filled) == []
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:5,')
    assert kinds_of(filled) == {"config-unreadable": Severity.DAMAGE}
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    assert kinds_of(filled) == {"config-unreadable": Severity.WARNING}
    (config / "consumerOffset.json").write_text("")
    assert kinds_of(filled) == {"config-unreadable": Severity.WARNING}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:5,1:7}", {"0": 5, "1": 7}),
        ('{"a":{\n\t-1:5,\n 2 : 6\n}}', {"a": {"-1": 5, "2": 6}}),
        ('{"a{1:2,3:4}":"{5:6}","q\\"{7:8":[1,2]}', {"a{1:2,3:4}": "{5:6}", 'q"{7:8': [1, 2]}),
        ('{"1":2}', {"1": 2}),
        ("[1,2]", [1, 2]),
    ],
)
def test_bare_integer_keys_are_read_and_strings_are_left_alone(text: str, value: object) -> None:
    assert parse_java_json(text) == value


def test_a_killed_store_has_notes_only(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(4, keys=["k"])
    lab.kill()
    lab.overwrite(lab.queue_files()[0], 3 * 20, bytes(20))
    found = kinds_of(lab)
    assert found == {"unit-pending": Severity.NOTE, "not-closed": Severity.NOTE}


def test_after_recovery_only_the_damaged_record_itself_is_damage(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(6, keys=["k"])
    lab.kill()
    lab.broken_on_purpose = True
    (lab.root / "flaremq.offsets").unlink()
    lab.damage_log(puts[2].physical_offset + 90)
    lab.open()
    lab.close()
    found = kinds_of(lab)
    assert found.pop("record-damaged") is Severity.DAMAGE
    assert set(found.values()) <= {Severity.NOTE}


def test_what_a_crash_explains_in_a_killed_store_is_damage_in_a_closed_one(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(4, keys=["k"])
    lab.close()
    lab.broken_on_purpose = True
    lab.overwrite(lab.queue_files()[0], 3 * 20, bytes(20))
    assert kinds_of(lab) == {"unit-missing": Severity.DAMAGE}


# All of it


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_flipped_bit_of_log_queue_and_index_is_found_when_records_are_sealed(lab: StoreLab, seed: int) -> None:
    lab.open(enabled_append_prop_crc=True)
    for number in range(40):
        lab.put(b"message %d" % number, queue_id=number % 2, tags="t", keys=[f"k{number}"])
    lab.close()
    lab.broken_on_purpose = True
    chooser = random.Random(seed)
    files = [*lab.log_files(), *lab.queue_files(queue_id=0), *lab.queue_files(queue_id=1), *index_files(lab)]
    # In an index file the counter of used slots is informative and entry 0 is never used.
    unused = {*range(32, 36), *range(GEOMETRY.entry_position(0), GEOMETRY.entry_position(1))}
    for _ in range(60):
        path = chooser.choice(files)
        content = path.read_bytes()
        used = len(content.rstrip(b"\0"))
        at = chooser.randrange(used)
        if path.parent.name == "index" and at in unused:
            continue
        flipped = content[at] ^ (1 << chooser.randrange(8))
        lab.overwrite(path, at, bytes([flipped]))
        with StoreReader.open(lab.root, index_geometry=GEOMETRY) as reader:
            verifier = StoreVerifier(reader)
            assert list(verifier.findings()), f"{path} byte {at} {content[at]} -> {flipped}"
            assert verifier.summary.damaged, f"{path} byte {at} {content[at]} -> {flipped}"
        lab.overwrite(path, at, content[at : at + 1])
    assert findings_of(lab) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["rmq49-clean", "rmq53-batchcq", "rmq53-expired", "rmq53-killed", "rmq55-slave"])
def test_the_compiled_check_says_what_the_plain_one_says(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole stores of RocketMQ's, as they are and with random bytes changed; windows small enough to
    matter."""
    monkeypatch.setattr(store_walk, "WINDOW_BYTES", 30_000)
    root = open_golden(name, tmp_path).root
    chooser = random.Random(seed)
    folders = ("commitlog", "consumequeue", "batchconsumequeue", "index")
    files = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    for round_number in range(6):
        path = chooser.choice(files)
        content = path.read_bytes()
        at = chooser.randrange(len(content.rstrip(b"\0")) or 1)
        old = content[at : at + chooser.choice([1, 4, 20, 200])]
        new = chooser.choice([bytes(len(old)), chooser.randbytes(len(old)), bytes([old[0] ^ 1]) + old[1:]])
        if round_number:  # the first round leaves the store as it is
            _overwrite(path, at, new)
        said = []
        for readable in (True, False):
            with StoreReader.open(root) as reader, readable_walk(readable):
                verifier = StoreVerifier(reader)
                said.append((list(verifier.findings()), verifier.summary))
        assert said[0] == said[1], f"{path} at {at}: {old.hex()} -> {new.hex()}"
        _overwrite(path, at, old)


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_findings_and_summary_can_be_printed_as_json(filled: StoreLab) -> None:
    filled.damage_log(95)
    with StoreReader.open(filled.root, index_geometry=GEOMETRY) as reader:
        verifier = StoreVerifier(reader)
        printed = json.loads(json.dumps([finding.to_dict() for finding in verifier.findings()]))
    assert set(printed[0]) == {"severity", "kind", "path", "offset", "detail"}
    summary = json.loads(json.dumps(verifier.summary.to_dict()))
    assert (summary["healthy"], summary["damage"]) == (False, 1)


def test_progress_is_told_up_to_the_end_of_the_log(filled: StoreLab) -> None:
    reached: list[int] = []
    with StoreReader.open(filled.root, index_geometry=GEOMETRY) as reader:
        list(StoreVerifier(reader, on_progress=reached.append).findings())
        assert reached[-1] == reader.log_end
    assert reached == sorted(reached)
