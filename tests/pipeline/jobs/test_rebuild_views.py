"""Rebuilt queues and index are, byte for byte, what live dispatch and recovery write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.message.message import Message
from flaremq.pipeline.jobs.rebuild.job import RebuildResult, rebuild
from flaremq.pipeline.jobs.rebuild.tasks import _name_of as index_name_of
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.layout import is_index_name
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.golden import golden_names, load_manifest, open_golden
from tests.support.proof_lab import SIZES, VIEWS, corpus, files_below, serial_check, views
from tests.support.store_lab import StoreLab

CLEAN = [name for name in golden_names() if not load_manifest(name)["abortFilePresent"]]


def build(root: Path, out: Path, piece_bytes: int = 3000) -> RebuildResult:
    return rebuild(None, path=str(root), out=str(out), properties=SIZES, piece_bytes=piece_bytes)


def without_views(root: Path) -> None:
    for view in VIEWS:
        shutil.rmtree(root / view, ignore_errors=True)


@pytest.mark.parametrize("piece_bytes", [700, 5_000, 1 << 28])
def test_a_store_with_a_little_of_everything_is_rebuilt_to_the_byte(tmp_path: Path, piece_bytes: int) -> None:
    corpus(tmp_path / "store")
    result = build(tmp_path / "store", tmp_path / "out", piece_bytes)
    assert views(tmp_path / "out") == views(tmp_path / "store")
    assert result.damaged == ()
    assert sorted(os.listdir(tmp_path / "out")) == ["consumequeue", "index"]


@pytest.mark.parametrize("name", CLEAN)
def test_golden_stores_are_rebuilt_as_recovery_rebuilds_them(name: str, tmp_path: Path) -> None:
    golden = open_golden(name, tmp_path)
    result = rebuild(
        None, path=str(golden.root), out=str(tmp_path / "out"), properties=golden.options, piece_bytes=20_000
    )
    had_index = files_below(golden.root, "index")
    without_views(golden.root)
    with MessageStore.open(golden.root, StoreOptions.from_properties(golden.options), threads=False):
        pass
    live = views(golden.root)
    found = views(tmp_path / "out")
    # Names of index files are times; content is what counts.
    assert {path: data for path, data in found.items() if not path.startswith("index")} == {
        path: data for path, data in live.items() if not path.startswith("index")
    }
    assert [data for path, data in sorted(found.items()) if path.startswith("index")] == [
        data for path, data in sorted(live.items()) if path.startswith("index")
    ]
    assert result.index_files == len(files_below(tmp_path / "out", "index"))
    if name in ("rmq49-clean", "rmq53-clean"):  # nothing expired, no tags indexed: Java's own bytes and names
        assert files_below(tmp_path / "out", "index") == had_index


@st.composite
def _puts(draw: st.DrawFn) -> list[tuple[str, int, bytes, str | None, str | None, int]]:
    one = st.tuples(
        st.sampled_from(["a", "bb", "%RETRY%g"]),
        st.integers(0, 3),
        st.binary(max_size=600),
        st.sampled_from([None, "k", "k1 k2 k3", "Aa BB"]),
        st.sampled_from([None, "t", "étiquette"]),
        st.sampled_from([0, 0, 0, 3, 18]),
    )
    return draw(st.lists(one, min_size=1, max_size=60))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(puts=_puts(), piece_bytes=st.integers(200, 20_000), delete=st.booleans())
def test_whatever_is_put_the_rebuilt_views_are_the_live_ones(
    tmp_path_factory: pytest.TempPathFactory,
    puts: list[tuple[str, int, bytes, str | None, str | None, int]],
    piece_bytes: int,
    delete: bool,
) -> None:
    folder = tmp_path_factory.mktemp("random")
    lab = StoreLab(folder / "store")
    store = lab.open()
    for number, (topic, queue_id, body, keys, tags, level) in enumerate(puts):
        lab.clock.advance(7)
        message = Message(topic, body, keys=keys or (), tags=tags, delay_level=level)
        assert store.put(message, queue_id).ok
        if delete and number == len(puts) // 2:
            store.delete_topics(["a"])
    lab.close()
    build(folder / "store", folder / "out", piece_bytes)
    assert views(folder / "out") == views(folder / "store")


def test_after_retention_the_rebuilt_queues_begin_where_the_log_does(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put(b"only one", topic="quiet", queue_id=4)
    lab.fill_files(3, keys="k")
    lab.close()
    lab.log_files()[0].unlink()
    build(lab.root, tmp_path / "out")
    without_views(lab.root)
    lab.open()
    lab.close()
    assert files_below(tmp_path / "out", "consumequeue") == files_below(lab.root, "consumequeue")
    rebuilt, live = (list(files_below(root, "index").values()) for root in (tmp_path / "out", lab.root))
    assert rebuilt == live


def test_a_damaged_log_is_rebuilt_as_recovery_would(tmp_path: Path) -> None:
    lab = corpus(tmp_path / "store", foreign=False)
    lab.broken_on_purpose = True
    with StoreReader.open(lab.root) as reader:
        offsets = [offset for offset, _ in reader.records()]
    for number in (3, 40, 41, 100, len(offsets) // 2):
        lab.damage_log(offsets[number] + 5)
    result = build(lab.root, tmp_path / "out", 2_000)
    assert len(result.damaged) == 4
    without_views(lab.root)
    lab.open()
    lab.close()
    assert files_below(tmp_path / "out", "consumequeue") == files_below(lab.root, "consumequeue")
    rebuilt, live = (list(files_below(root, "index").values()) for root in (tmp_path / "out", lab.root))
    assert rebuilt == live


def test_lost_views_are_put_back_in_place_and_the_store_opens_without_rebuilding(tmp_path: Path) -> None:
    lab = corpus(tmp_path / "store")
    before = views(lab.root)
    without_views(lab.root)
    rebuild(None, path=str(lab.root), in_place=True, properties=SIZES, piece_bytes=4_000)
    after = views(lab.root)
    assert {path: data for path, data in after.items() if path.startswith("c")} == {
        path: data for path, data in before.items() if path.startswith("c")
    }
    assert serial_check(lab.root)[1].damaged is False
    lab.open()
    assert lab.store.recovery.rebuilt is False
    assert lab.store.recovery.started_at == lab.store.recovery.log_end
    lab.close()
    assert views(lab.root) == after


def test_after_a_crash_recovery_goes_on_where_the_rebuilt_views_end(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put_many(50, keys="k")
    lab.kill()
    without_views(lab.root)
    result = rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    rebuilt = views(lab.root)
    lab.open()
    assert lab.store.recovery.started_at == result.log_end == lab.store.recovery.log_end
    lab.close()
    assert views(lab.root) == rebuilt
    assert lab.findings() == []


def test_a_queue_whose_records_have_all_expired_keeps_its_end_in_place(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    for _ in range(5):
        lab.put(b"soon gone", topic="quiet", queue_id=1)
    lab.fill_files(3)
    lab.close()
    lab.log_files()[0].unlink()
    lab.open()
    assert lab.store.max_offset("quiet", 1) == 5
    lab.close()
    result = rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    assert result.kept == ("quiet@1",)
    lab.open()
    assert lab.put(b"next", topic="quiet", queue_id=1).queue_offset == 5
    lab.close()


def test_a_store_in_use_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put()
    with pytest.raises(UnavailableError):
        rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    with pytest.raises(UnavailableError):
        build(lab.root, tmp_path / "out")
    assert not (lab.root / "flaremq.rebuild").exists()
    lab.close()


def test_bad_arguments_say_what_to_give(tmp_path: Path) -> None:
    lab = corpus(tmp_path / "store", 1)
    with pytest.raises(InvalidArgumentError, match="out=DIR"):
        rebuild(None, path=str(lab.root))
    with pytest.raises(InvalidArgumentError, match="not an empty folder"):
        build(lab.root, lab.root)
    with pytest.raises(NotFoundError):
        build(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgumentError, match="not a store"):
        rebuild(None, path=str(tmp_path / "empty"), in_place=True)
    assert os.listdir(tmp_path / "empty") == []


def test_rebuild_runs_on_spark(spark: object, tmp_path: Path) -> None:
    corpus(tmp_path / "store")
    told: list[tuple[str, int, int]] = []
    result = rebuild(
        spark,  # type: ignore[arg-type]
        path=str(tmp_path / "store"),
        out=str(tmp_path / "out"),
        properties=SIZES,
        piece_bytes=8_000,
        on_progress=lambda *progress: told.append(progress),
    )
    assert views(tmp_path / "out") == views(tmp_path / "store")
    assert told[-1][1] == told[-1][2] > 0
    assert result.to_json()["records"] == result.records > 0


@pytest.mark.parametrize("store_timestamp", [-(2**63), -1, 0, 1_700_000_000_123, 2**63 - 1])
def test_an_index_file_has_a_name_whatever_time_its_first_record_claims(store_timestamp: int) -> None:
    assert is_index_name(f"{index_name_of(store_timestamp):017d}")
