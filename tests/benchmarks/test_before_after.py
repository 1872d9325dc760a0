"""Two trees side by side: what the comparison says, and that its cases do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import before_after
from benchmarks.child import PROJECT
from benchmarks.cpu import broker_cases
from benchmarks.cpu.worker import CASES, Worker
from flaremq.protocol.frame import FrameDecoder


def test_a_comparison_has_the_median_and_the_middle_half() -> None:
    assert before_after.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 2.0, 4.0)
    assert before_after.spread([2.0]) == (2.0, 2.0, 2.0)


def test_what_was_promised_can_be_asked_for() -> None:
    names = "put batch get arrow query recover rebuild ingest produce consume"
    assert set(names.split()) <= CASES.keys()


@pytest.mark.parametrize("name", ["put", "ingest", "produce", "consume"])
@pytest.mark.slow
def test_a_slice_is_done_on_the_sources_of_a_tree(name: str, tmp_path: Path) -> None:
    with Worker(PROJECT, name, next(iter(CASES[name])), tmp_path / "work") as worker:
        assert worker.run() > 0 and worker.run() > 0


def test_a_case_that_a_tree_cannot_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "src" / "flaremq").mkdir(parents=True)
    (tmp_path / "src" / "flaremq" / "__init__.py").write_text("")
    with (
        Worker(tmp_path, "put", "put 1 KB", tmp_path / "work") as worker,
        pytest.raises(RuntimeError, match="ImportError"),
    ):
        worker.run()


def test_a_folder_without_sources_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert before_after.main([str(tmp_path)]) == 2
    assert f"{tmp_path} has no src/flaremq" in capsys.readouterr().err


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        before_after.main([str(PROJECT), "--only", "everything"])
    assert "'everything' is not one of put, batch" in capsys.readouterr().err


def test_frames_of_the_cases_are_what_a_client_sends() -> None:
    frames = [broker_cases.send(7, 100), broker_cases.send_batch(8, 100), broker_cases.pull(9, 32)]
    single, batch, pull = FrameDecoder().receive(b"".join(frames))
    assert (single.code, batch.code, pull.code) == (310, 320, 11)
    assert (single.opaque, batch.opaque, pull.opaque) == (7, 8, 9)
    assert len(single.body) == 100 and single.ext is not None and single.ext["e"] == "7"
    assert pull.ext is not None and pull.ext["queueOffset"] == "0032" and pull.ext["topic"] == "ingest"
