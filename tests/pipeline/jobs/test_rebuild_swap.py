"""A rebuild in place that is cut short at any step leaves a store that opens, and the next run tidies up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flaremq.pipeline.jobs.rebuild import job
from flaremq.pipeline.jobs.rebuild.job import rebuild
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.rebuild.swap import FOLDER, ViewSwap
from tests.support.proof_lab import SIZES, corpus, views
from tests.support.store_lab import StoreLab

STEPS = [
    "sync",
    "ready",
    "old consumequeue",
    "new consumequeue",
    "old index",
    "new index",
    "note",
    "unready",
    "remove",
]


class _PowerCut(Exception):
    pass


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("template") / "store").root


def cut_at(step: str, lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a rebuild in place that dies right before ``step``; the steps it told of."""
    told: list[str] = []

    def on_step(name: str) -> None:
        told.append(name)
        if name == step:
            raise _PowerCut(name)

    class Cut(ViewSwap):
        def __init__(self, layout: StoreLayout) -> None:
            super().__init__(layout, on_step=on_step)

    with monkeypatch.context() as patched:
        patched.setattr(job, "ViewSwap", Cut)
        if step in STEPS:
            with pytest.raises(_PowerCut):
                rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
        else:
            rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    return told


@pytest.fixture
def lab(template: Path, tmp_path: Path) -> StoreLab:
    shutil.copytree(template, tmp_path / "store")
    return StoreLab(tmp_path / "store", odd_text=True)


def test_the_steps_are_these(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_at("never", lab, monkeypatch) == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_the_next_run_finishes_or_undoes_what_a_crash_left(
    step: str, lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = views(lab.root)
    cut_at(step, lab, monkeypatch)
    swap = ViewSwap(StoreLayout(lab.root))
    finishes = STEPS.index("ready") < STEPS.index(step) <= STEPS.index("note")
    assert swap.resolve_earlier() == ("finished" if finishes else "undone")
    assert views(lab.root) == before
    assert not (lab.root / FOLDER).exists()
    assert swap.resolve_earlier() is None
    lab.open()
    assert lab.store.recovery.rebuilt is False
    lab.close()
    assert lab.findings() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_store_opened_after_the_crash_is_whole_and_what_it_wrote_is_kept(
    step: str, lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_at(step, lab, monkeypatch)
    lab.open()
    placed = lab.put(b"after the crash", keys="new")
    lab.close()
    assert lab.findings() == []
    before = views(lab.root)
    result = rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    assert result.earlier_run == "undone"
    lab.open()
    assert [message.physical_offset for message in lab.store.query("orders", "new")] == [placed.physical_offset]
    lab.close()
    after = views(lab.root)
    assert {path: data for path, data in after.items() if path.startswith("c")} == {
        path: data for path, data in before.items() if path.startswith("c")
    }


def test_a_failing_build_leaves_the_store_as_it_was(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from flaremq.pipeline.jobs.rebuild import tasks as rebuild_tasks

    before = views(lab.root)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(rebuild_tasks, "build_index", fail)
        with pytest.raises(OSError, match="no space"):
            rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    assert views(lab.root) == before
    assert not (lab.root / FOLDER).exists()
