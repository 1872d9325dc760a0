"""A store seen from outside: where its log ends, what counts as damage, what is refused, what is never
touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError, StoreIOError, UnavailableError
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.outlook import outlook_of
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.directory import RunReader, StoreFile, without_zero_tail
from flaremq.storage.files.filesystem import File, LocalFileSystem
from flaremq.storage.log import walk as store_walk
from flaremq.storage.message_store import MessageStore
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.readable import readable_walk
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab


def bodies_seen(lab: StoreLab, *, everything: bool = False) -> list[bytes]:
    """What an offline walk finds, in physical order."""
    found = []
    with StoreReader.open(lab.root) as reader:
        for item in reader.walk(everything=everything):
            if isinstance(item, store_walk.RecordBatch):
                found += [MessageExt(bytes(record)).body for _, record in item.records()]
    return found


# Where the log ends


def test_a_clean_store_ends_behind_its_last_record(lab: StoreLab) -> None:
    lab.open()
    last = lab.put_many(5)[-1]
    lab.close()
    with StoreReader.open(lab.root) as reader:
        assert reader.closed_cleanly
        assert reader.log_end == last.physical_offset + last.size
        assert reader.survey.records == 5
        assert not outlook_of(reader).changes_anything


def test_the_unwritten_part_of_a_queue_is_not_read(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    lab.put_many(3)
    lab.close()
    lab.broken_on_purpose = True
    read_bytes: list[int] = []
    read_file = RunReader.read_file

    def counted(reader: RunReader, file: StoreFile, file_offset: int, length: int) -> bytes:
        data = read_file(reader, file, file_offset, length)
        read_bytes.append(len(data))
        return data

    with StoreReader.open(lab.root) as reader:
        queue = reader.find_queue((TOPIC, 0))
        assert queue is not None
        file = queue.run.files[-1]
        os.truncate(file.path, 0)  # and again as long as it was: what a preallocated file looks like
        os.truncate(file.path, file.size)
        log_end = reader.log_end
        monkeypatch.setattr(RunReader, "read_file", counted)
        assert queue.count_behind(log_end) == 0
    assert sum(read_bytes) == 0


@pytest.mark.parametrize("data", [b"", b"\0", b"\0" * 70, b"a", b"a\0\0", b"\0a\0", b"\0\0a"])
def test_zeros_at_the_end_go_and_no_others(data: bytes) -> None:
    assert without_zero_tail(data) == data.rstrip(b"\0")


def test_a_damaged_record_is_stepped_over_and_named(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(5)
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[2].physical_offset + 90)  # in the body: only the checksum can tell
    with StoreReader.open(lab.root) as reader:
        (damage,) = reader.survey.damaged
        assert (damage.start, damage.size) == (puts[2].physical_offset, puts[2].size)
        assert "body checksum" in damage.reason
        assert reader.survey.records == 4
    assert bodies_seen(lab) == [b"body 000", b"body 001", b"body 003", b"body 004"]


def test_damage_that_reaches_over_several_records_is_one_range(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(6)
    lab.close()
    lab.broken_on_purpose = True
    start, end = puts[1].physical_offset + 10, puts[3].physical_offset + 10
    lab.damage_log(start, bytes(end - start))
    with StoreReader.open(lab.root) as reader:
        (damage,) = reader.survey.damaged
        assert (damage.start, damage.end) == (puts[1].physical_offset, puts[4].physical_offset)


def test_a_record_that_was_written_for_another_place_is_no_record(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(4)
    lab.close()
    lab.broken_on_purpose = True
    stale = lab.log_bytes()[puts[0].physical_offset :][: puts[0].size]
    lab.damage_log(puts[2].physical_offset, stale)
    with StoreReader.open(lab.root) as reader:
        (damage,) = reader.survey.damaged
        assert damage.start == puts[2].physical_offset
        assert "another place" in damage.reason
        assert reader.read(puts[2].physical_offset) is None
        assert reader.read(puts[3].physical_offset) is not None


def test_a_torn_last_record_is_where_the_log_ends(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(3)
    lab.kill()
    lab.broken_on_purpose = True
    (lab.root / "flaremq.offsets").unlink()  # as in a store of RocketMQ's: nothing says what was durable
    lab.damage_log(puts[2].physical_offset + 60, bytes(puts[2].size - 60))
    with StoreReader.open(lab.root) as reader:
        survey = reader.survey
        assert survey.damaged == ()
        assert survey.end == puts[2].physical_offset
        assert survey.tail.leftover_bytes <= 60
        assert outlook_of(reader).queues[TOPIC, 0].max_offset == 2


def test_records_behind_a_torn_one_do_not_count_unless_they_were_durable(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    puts = lab.put_many(2)
    lab.store.flush()
    puts += lab.put_many(3)
    lab.kill()
    lab.broken_on_purpose = True
    lab.damage_log(puts[3].physical_offset + 90)
    with StoreReader.open(lab.root) as reader:
        tail = reader.survey.tail
        assert (tail.physical_offset, tail.records_follow) == (puts[3].physical_offset, True)
        assert reader.survey.damaged == ()
    assert bodies_seen(lab) == [b"body 000", b"body 001", b"body 000"]
    assert bodies_seen(lab, everything=True) == [b"body 000", b"body 001", b"body 000", b"body 002"]


def test_a_missing_log_file_is_a_damaged_range(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    lab.log_files()[1].unlink()
    with StoreReader.open(lab.root) as reader:
        assert reader.log.run.gaps == ((LOG_FILE, 2 * LOG_FILE),)
        (damage,) = reader.survey.damaged
        assert (damage.start, damage.end) == (LOG_FILE, 2 * LOG_FILE)
        offsets = [offset for offset, _ in reader.records()]
    assert any(offset < LOG_FILE for offset in offsets) and any(offset >= 2 * LOG_FILE for offset in offsets)


def test_a_file_cut_short_keeps_its_size_from_the_others(lab: StoreLab) -> None:
    lab.open()
    puts = lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    os.truncate(lab.log_files()[1], LOG_FILE // 2)
    with StoreReader.open(lab.root) as reader:
        assert reader.log.run.file_size == LOG_FILE
        assert [file.start for file in reader.log.run.misfits] == [LOG_FILE]
        (damage,) = reader.survey.damaged
        assert LOG_FILE < damage.start <= LOG_FILE + LOG_FILE // 2 and damage.end == 2 * LOG_FILE
        assert reader.survey.end == puts[-1].physical_offset + puts[-1].size


def test_a_last_file_of_no_length_is_not_there(lab: StoreLab) -> None:
    lab.open()
    put = lab.put(keys=["k"])
    lab.close()
    lab.broken_on_purpose = True
    (lab.root / "commitlog" / f"{LOG_FILE:020d}").touch()
    (lab.root / "consumequeue" / TOPIC / "0" / f"{400:020d}").touch()
    with StoreReader.open(lab.root) as reader:
        assert (reader.log_end, reader.survey.records) == (put.physical_offset + put.size, 1)
        assert outlook_of(reader).queues[TOPIC, 0].max_offset == 1
        found = list(StoreVerifier(reader).findings())
    assert [(finding.kind, finding.severity) for finding in found] == [("file-empty", Severity.NOTE)] * 2


def test_a_file_of_no_length_between_others_is_a_gap(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    lab.close()
    lab.broken_on_purpose = True
    os.truncate(lab.log_files()[1], 0)
    with StoreReader.open(lab.root) as reader:
        (damage,) = reader.survey.damaged
        assert (damage.start, damage.end) == (LOG_FILE, 2 * LOG_FILE)


def test_a_filler_with_no_file_behind_it_is_not_part_of_the_log(lab: StoreLab) -> None:
    lab.open()
    puts = lab.fill_files(1)
    lab.close()
    lab.broken_on_purpose = True
    lab.log_files()[1].unlink()
    with StoreReader.open(lab.root) as reader:
        last = [put for put in puts if put.physical_offset < LOG_FILE][-1]
        assert reader.log_end == last.physical_offset + last.size
        assert reader.survey.tail.filler_bytes == LOG_FILE - reader.log_end


@pytest.mark.parametrize("window", [120, 1000, 4096])
def test_the_size_of_the_read_window_makes_no_difference(
    lab: StoreLab, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.open()
    puts = lab.fill_files(2) + lab.put_many(20)
    lab.close()
    lab.broken_on_purpose = True
    lab.damage_log(puts[3].physical_offset + 100)
    with StoreReader.open(lab.root) as reader:
        expected, survey = [offset for offset, _ in reader.records()], reader.survey
    monkeypatch.setattr(store_walk, "WINDOW_BYTES", window)
    with StoreReader.open(lab.root) as reader:
        assert [offset for offset, _ in reader.records()] == expected
        assert reader.survey == survey


def test_compiled_and_plain_walk_see_the_same(lab: StoreLab) -> None:
    lab.open()
    puts = lab.fill_files(2) + lab.put_many(30)
    lab.close()
    lab.broken_on_purpose = True
    for put in (puts[3], puts[11], puts[12], puts[-1]):
        lab.damage_log(put.physical_offset + 95)
    with StoreReader.open(lab.root) as reader:
        seen = []
        for readable in (True, False):
            items: list[object] = []
            with readable_walk(readable):
                for item in reader.walk():
                    if isinstance(item, store_walk.RecordBatch):
                        items += [(offset, bytes(record)) for offset, record in item.records()]
                    else:
                        items.append(item)
            seen.append(items)
    assert seen[0] == seen[1] and len(seen[0]) > len(puts) - 4


def test_compiled_walk_ends_a_killed_log_where_the_plain_one_does(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put_many(10)
    lab.store.flush()
    puts = lab.put_many(10)
    lab.kill()
    lab.broken_on_purpose = True
    lab.damage_log(puts[4].physical_offset + 95)
    with StoreReader.open(lab.root) as reader:
        tails = [list(reader.walk())[-1]]
        with readable_walk():
            tails.append(list(reader.walk())[-1])
    assert tails[0] == tails[1]
    assert isinstance(tails[0], store_walk.LogTail) and tails[0].physical_offset == puts[4].physical_offset


def test_records_of_a_range_start_and_end_inside_it(lab: StoreLab) -> None:
    lab.open()
    puts = lab.fill_files(2)
    lab.close()
    middle, later = puts[4].physical_offset, puts[9].physical_offset
    with StoreReader.open(lab.root) as reader:
        found = [offset for offset, _ in reader.records(middle, later)]
        assert found == [put.physical_offset for put in puts[4:9]]
        # A start that is no record's start means the first record behind it.
        assert next(reader.records(middle + 1))[0] == puts[5].physical_offset


def test_a_page_the_disk_refuses_reads_as_zeros_and_is_remembered(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(1)
    lab.close()
    lab.broken_on_purpose = True
    with StoreReader.open(lab.root, filesystem=_BadSector(lab.log_files()[0], 4096)) as reader:
        survey = reader.survey
        assert reader.files.unreadable == [(str(lab.log_files()[0]), 4096, 4096)]
    (damage,) = survey.damaged
    assert damage.start <= 4096 < 8192 <= damage.end


class _BadSector(LocalFileSystem):
    """One page of one file cannot be read."""

    __slots__ = ("_path", "_sector")

    def __init__(self, path: Path, sector: int) -> None:
        self._path = str(path)
        self._sector = sector

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        file = super().open(path, create=create, read_only=read_only)
        return _BadFile(file, self._sector) if path == self._path else file  # type: ignore[return-value]


class _BadFile:
    def __init__(self, file: File, sector: int) -> None:
        self._file = file
        self._sector = sector

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < self._sector + 4096 and self._sector < offset + length:
            raise StoreIOError("read", self._file.path, OSError(5, "Input/output error"))
        return self._file.read_at(offset, length)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


# What a killed store will look like


def test_the_outlook_of_a_killed_store_counts_what_is_not_dispatched(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(4)
    lab.kill()
    queue = lab.queue_files()[0]
    lab.overwrite(queue, 2 * 20, bytes(2 * 20))  # the last two units were never written
    with StoreReader.open(lab.root) as reader:
        outlook = outlook_of(reader)
    assert outlook.changes_anything and not outlook.closed_cleanly
    assert outlook.undispatched_messages == 2
    assert outlook.queues[TOPIC, 0].max_offset == 4
    assert outlook.log_end == puts[-1].physical_offset + puts[-1].size
    lab.open()
    assert lab.store.max_offset(TOPIC, 0) == 4


def test_the_outlook_counts_units_behind_the_end_of_the_log(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(3)
    lab.kill()
    (lab.root / "flaremq.offsets").unlink()
    lab.damage_log(puts[1].physical_offset, bytes(LOG_FILE - puts[1].physical_offset))
    with StoreReader.open(lab.root) as reader:
        outlook = outlook_of(reader)
    assert (outlook.log_end, outlook.surplus_units) == (puts[1].physical_offset, 2)
    assert outlook.queues[TOPIC, 0].max_offset == 1


# Queries


def test_a_query_compares_the_key_itself_and_honours_the_limit(lab: StoreLab) -> None:
    lab.open()
    for number in range(6):
        lab.put(b"%d" % number, keys=["same"])
    lab.put(b"collision", keys=["Aa"])
    lab.put(b"other", keys=["BB"])  # "Aa" and "BB" have the same Java hash
    lab.close()
    with StoreReader.open(lab.root) as reader:
        assert [m.body for m in reader.query(TOPIC, "same", 2)] == [b"4", b"5"]
        assert [m.body for m in reader.query(TOPIC, "Aa")] == [b"collision"]
        assert reader.query(TOPIC, "absent") == []
        with pytest.raises(InvalidArgumentError, match="max_count 0"):
            reader.query(TOPIC, "same", 0)


def test_a_query_by_time_takes_the_record_at_its_word(lab: StoreLab) -> None:
    lab.open()
    stored = []
    for number in range(5):
        stored.append(lab.put(b"%d" % number, keys=["k"]).store_timestamp)
        lab.clock.advance(300)
    lab.close()
    with StoreReader.open(lab.root) as reader:
        found = reader.query(TOPIC, "k", begin_ms=stored[1], end_ms=stored[3])
    assert [m.body for m in found] == [b"1", b"2", b"3"]


def test_a_query_also_finds_what_the_index_does_not_have_yet(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"indexed", keys=["k"])
    lab.put(b"not indexed", keys=["k"])
    lab.kill()
    lab.broken_on_purpose = True
    for index in (lab.root / "index").iterdir():
        lab.overwrite(index, 24, (0).to_bytes(8, "big"))  # the header as it was after the first message
        lab.overwrite(index, 36, (2).to_bytes(4, "big"))
    with StoreReader.open(lab.root) as reader:
        assert [m.body for m in reader.query(TOPIC, "k")] == [b"indexed", b"not indexed"]


def test_index_counts_that_do_not_explain_the_file_are_refused(lab: StoreLab) -> None:
    lab.open()
    lab.put(keys=["k"])
    lab.close()
    with (
        StoreReader.open(lab.root, index_geometry=IndexGeometry(17, 64)) as reader,
        pytest.raises(InvalidArgumentError, match="17 slots and 64 entries make 1388") as error,
    ):
        reader.query(TOPIC, "k")
    assert "maxHashSlotNum" in str(error.value)


def test_a_query_scans_the_log_where_index_counts_cannot_be_known(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"alone", keys=["k"])
    lab.close()
    lab.broken_on_purpose = True
    for index in (lab.root / "index").iterdir():
        lab.overwrite(index, 24, (1 << 40).to_bytes(8, "big"))  # the header no longer tells where entries are
    with StoreReader.open(lab.root) as reader:
        assert [index.geometry for index in reader.indexes] == [None]
        assert [m.body for m in reader.query(TOPIC, "k")] == [b"alone"]


def test_index_counts_are_derived_from_the_file_when_the_defaults_do_not_fit(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(30, keys=["k", "l"])
    lab.close()
    with StoreReader.open(lab.root) as reader:
        assert {index.geometry for index in reader.indexes} == {IndexGeometry(16, 64)}


# What is refused, and what is left alone


def test_a_store_in_use_is_refused_and_stays_locked(lab: StoreLab) -> None:
    lab.open()
    with pytest.raises(UnavailableError, match="this process has the store open"):
        StoreReader.open(lab.root)
    # The attempt must not have dropped the lock: another process still cannot take it.
    code = (
        "import sys; from flaremq.storage.at_rest.reader import StoreReader\n"
        "from flaremq.errors import UnavailableError\n"
        "try: StoreReader.open(sys.argv[1])\n"
        "except UnavailableError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, lab.root], capture_output=True, text=True, check=True)
    assert "a running process holds this store" in done.stdout


def test_readers_do_not_disturb_each_other_but_keep_writers_out(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.close()
    code = (
        "import sys; from flaremq import MessageStore\n"
        "from flaremq.errors import UnavailableError\n"
        "try: MessageStore.open(sys.argv[1])\n"
        "except UnavailableError as error: print(error)\n"
    )
    with StoreReader.open(lab.root), StoreReader.open(lab.root):
        done = subprocess.run([sys.executable, "-c", code, lab.root], capture_output=True, text=True, check=True)
    assert "another process holds the store open" in done.stdout


def test_a_reader_keeps_a_writer_of_its_own_process_out_until_the_last_one_is_closed(lab: StoreLab) -> None:
    lab.open()
    lab.close()
    first, second = StoreReader.open(lab.root), StoreReader.open(lab.root)
    first.close()
    first.close()  # closing twice gives back one lock, not two
    with pytest.raises(UnavailableError, match="already has the store open"):
        lab.open()
    second.close()
    lab.open()


def test_no_lock_file_is_made_where_there_is_none(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.close()
    (lab.root / "lock").unlink()
    with StoreReader.open(lab.root) as reader:
        assert reader.survey.records == 1
    assert not (lab.root / "lock").exists()


def test_the_holder_of_a_store_may_look_at_its_files(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    with StoreReader.open(lab.root, lock=False) as reader:
        assert reader.survey.records == 1
    assert lab.put().ok


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").mkdir()
    with pytest.raises(InvalidArgumentError, match="is not a store"):
        StoreReader.open(tmp_path)
    with pytest.raises(NotFoundError, match="does not exist"):
        StoreReader.open(tmp_path / "absent")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        StoreReader.open(tmp_path / "file")


def test_an_empty_store_is_a_store(lab: StoreLab) -> None:
    lab.open()
    lab.close()
    with StoreReader.open(lab.root) as reader:
        assert (reader.log_min, reader.log_end, reader.survey.records) == (0, 0, 0)
        assert outlook_of(reader).queues == {}
        assert reader.query(TOPIC, "k") == []
        assert reader.read(0) is None


def test_strangers_among_the_files_are_listed_not_read(lab: StoreLab) -> None:
    lab.open()
    lab.put(keys=["k"])
    lab.close()
    strangers = [
        lab.root / "commitlog" / "notes.txt",
        lab.root / "consumequeue" / "README",
        lab.root / "consumequeue" / TOPIC / "0" / "x.bak",
        lab.root / "index" / "readme.md",
    ]
    for path in strangers:
        path.write_bytes(b"what is this")
    lab.broken_on_purpose = True
    with StoreReader.open(lab.root) as reader:
        assert sorted(reader.foreign) == sorted(map(str, strangers))
        assert reader.survey.records == 1


def test_many_queues_do_not_need_many_open_files(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    for queue in range(100):
        lab.put(queue_id=queue)
    lab.close()
    before = len(os.listdir("/proc/self/fd"))
    with StoreReader.open(lab.root) as reader:
        assert len(outlook_of(reader).queues) == 100
        assert len(os.listdir("/proc/self/fd")) - before <= 70
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_outlook_matches_what_opening_really_does(lab: StoreLab) -> None:
    lab.open()
    for queue in range(3):
        lab.put_many(queue + 2, queue_id=queue, keys=["k"])
    lab.kill()
    with StoreReader.open(lab.root) as reader:
        outlook = outlook_of(reader)
    store: MessageStore = lab.open()
    assert store.recovery.log_end == outlook.log_end
    assert store.recovery.started_at == outlook.redispatch_from
    assert {key: store.max_offset(*key) for key in store.queues()} == {
        key: span.max_offset for key, span in outlook.queues.items()
    }
