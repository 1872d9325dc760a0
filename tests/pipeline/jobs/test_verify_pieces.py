"""The check in pieces says what the serial check says, wherever the log is cut and whatever is wrong."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.verify.job import verify
from flaremq.storage.at_rest.pieces import LogPiece, PieceWalk, chain_pieces, cut_pieces
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log.walk import LogItem, RecordBatch
from tests.support.golden import golden_names, open_golden
from tests.support.proof_lab import SIZES, corpus, in_order, serial_check
from tests.support.store_lab import LOG_FILE, StoreLab


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("template") / "store", 12).root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "store")
    return tmp_path / "store"


def assert_same_as_serial(root: Path, piece_bytes: int, properties: dict[str, str] | None = None) -> int:
    """Check both ways; the number of findings."""
    expected, summary = serial_check(root, properties)
    result = verify(None, path=str(root), properties=properties or SIZES, piece_bytes=piece_bytes)
    assert in_order(list(result.findings)) == in_order(expected)
    assert result.summary == summary
    return len(expected)


def _flat(items: list[LogItem]) -> list[object]:
    """Records one by one, everything else as it is: batches are cut differently."""
    flat: list[object] = []
    for item in items:
        flat += (
            [(offset, bytes(record)) for offset, record in item.records()] if isinstance(item, RecordBatch) else [item]
        )
    return flat


class _Walked:
    def __init__(self, reader: StoreReader, piece: LogPiece) -> None:
        walk = PieceWalk(reader, piece)
        self.items = _flat(list(walk))
        self.begin, self.end, self.is_tail = walk.begin, walk.end, walk.is_tail


def _in_pieces(reader: StoreReader, pieces: list[LogPiece]) -> list[object]:
    results = [_Walked(reader, piece) for piece in pieces]
    chain = chain_pieces(pieces, results, lambda piece: _Walked(reader, piece))
    return [item for result in chain for item in result.items]


def test_a_cut_at_any_byte_gives_the_serial_walk(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put(b"first", keys="k")
    offset = lab.store.max_physical_offset
    # A body that holds a whole record naming the very place where it lies: the cut falls for it, the seam does not.
    with StoreReader.open(lab.root, lock=False) as reader:
        inner = bytearray(next(reader.records())[1])
    inner[28:36] = (offset + 88).to_bytes(8, "big")
    lab.put(bytes(inner))
    lab.put(b"last")
    lab.close()
    with StoreReader.open(lab.root) as reader:
        serial = _flat(list(reader.walk()))
        end = reader.log_end
        assert len(serial) == 4
        for cut in range(1, end + 200):
            pieces = [LogPiece(0, 0, cut, 0), LogPiece(1, cut, 2**63 - 1, None)]
            assert _in_pieces(reader, pieces) == serial, cut


@pytest.mark.parametrize("piece_bytes", [97, 1_000, LOG_FILE, 1 << 20])
def test_pieces_of_a_damaged_log_make_up_the_serial_walk(root: Path, piece_bytes: int) -> None:
    lab = StoreLab(root, broken_on_purpose=True)
    for at in (2_000, 2_001, 9_000, LOG_FILE - 3, LOG_FILE, LOG_FILE + 1, 30_000):
        lab.damage_log(at)
    lab.damage_log(20_000, bytes(1_500))
    with StoreReader.open(root) as reader:
        assert _in_pieces(reader, cut_pieces(reader, piece_bytes)) == _flat(list(reader.walk()))


@pytest.mark.parametrize("name", golden_names())
def test_golden_stores_get_the_findings_of_the_serial_check(name: str, tmp_path: Path) -> None:
    golden = open_golden(name, tmp_path)
    assert_same_as_serial(golden.root, 30_000, golden.options)


def test_a_healthy_store_has_only_the_findings_the_serial_check_has(root: Path) -> None:
    for piece_bytes in (500, 4_000, 1 << 28):
        assert_same_as_serial(root, piece_bytes)


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_and_lost_bytes_give_the_findings_of_the_serial_check(seed: int, root: Path) -> None:
    choice = random.Random(seed)
    folders = ("commitlog", "consumequeue", "index")
    files = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    for _ in range(choice.choice([1, 1, 2, 5])):
        path = choice.choice(files)
        data = bytearray(path.read_bytes())
        at = choice.randrange(len(data))
        if choice.random() < 0.5:
            data[at] ^= 1 << choice.randrange(8)
        else:
            data[at : at + 100] = bytes(len(data[at : at + 100]))
        path.write_bytes(data)
    assert_same_as_serial(root, choice.choice([400, 1_000, 5_000, 1 << 20]))


def _remove_a_log_file(root: Path) -> None:
    sorted((root / "commitlog").iterdir())[1].unlink()


def _cut_a_queue_short(root: Path) -> None:
    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[-1]
    path.write_bytes(bytes(path.stat().st_size))


def _remove_a_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "orders" / "1")


def _remove_an_index_file(root: Path) -> None:
    sorted((root / "index").iterdir())[1].unlink()


def _remove_the_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def _remove_the_log(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.unlink()


def _repeat_a_unit(root: Path) -> None:
    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[40:60] = data[20:40]
    path.write_bytes(data)


def _leave_the_crash_mark(root: Path) -> None:
    (root / "abort").write_text("1")
    _cut_a_queue_short(root)


BREAKS = [
    _remove_a_log_file,
    _cut_a_queue_short,
    _remove_a_queue,
    _remove_an_index_file,
    _remove_the_index,
    _remove_the_log,
    _repeat_a_unit,
    _leave_the_crash_mark,
]


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda function: str(function.__name__).strip("_"))
@pytest.mark.parametrize("piece_bytes", [1_500, 1 << 28])
def test_lost_files_give_the_findings_of_the_serial_check(root: Path, break_it: object, piece_bytes: int) -> None:
    assert callable(break_it)
    break_it(root)
    assert assert_same_as_serial(root, piece_bytes)


def test_only_the_stretch_in_doubt_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flaremq.storage.verify import doubts

    path = sorted((root / "consumequeue" / "orders" / "0").iterdir())[1]
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    walked: list[int] = []
    records = doubts._records

    def counted(reader: StoreReader, start: int, end: int) -> object:
        walked.append(end - start)
        return records(reader, start, end)

    monkeypatch.setattr(doubts, "_records", counted)
    result = verify(None, path=str(root), properties=SIZES, piece_bytes=1_000)
    assert "unit-wrong" in {finding.kind for finding in result.findings}
    # Bad text, which is always looked at one by one, is most of what is read here.
    assert 0 < max(walked) < result.summary.record_bytes


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put()
    with pytest.raises(UnavailableError, match="first"):
        verify(None, path=str(lab.root), properties=SIZES)
    lab.close()


def test_nothing_in_the_store_changes_while_it_is_checked(root: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(root.rglob("*"))}

    before = state()
    verify(None, path=str(root), properties=SIZES, piece_bytes=3_000)
    assert state() == before
    assert os.path.exists(root / "lock")
