"""What a Python worker of Spark keeps between its tasks."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources import worker
from flaremq.pipeline.sources.open import source_spec
from flaremq.pipeline.sources.wire import WireSource
from flaremq.pipeline.sources.worker import kept_source, settle
from tests.pipeline.conftest import FilledStore
from tests.pipeline.wire_lab import WireLab


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    monkeypatch.setattr(worker, "_settled", 0)
    yield
    gc.unfreeze()
    for source in worker._kept.values():
        source.close()
    worker._kept.clear()


def test_the_collector_of_a_spark_worker_leaves_loaded_modules_alone(
    in_worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle()
    settled = gc.get_freeze_count()
    assert settled > 10_000
    kept = [[number] for number in range(1000)]
    settle()
    assert gc.get_freeze_count() <= settled, "nothing was loaded since"
    monkeypatch.setitem(sys.modules, "loaded_later", types.ModuleType("loaded_later"))
    settle()
    assert gc.get_freeze_count() > settled + len(kept) // 2


def test_the_collector_of_other_processes_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    monkeypatch.setattr(worker, "_settled", 0)
    settle()
    assert gc.get_freeze_count() == 0


def test_the_next_task_of_a_worker_finds_the_source_over_the_wire_open(in_worker: None, tmp_path: Path) -> None:
    with WireLab(str(tmp_path)) as lab:
        spec = source_spec(parse_options({"nameServer": lab.name_server, "topic": "orders"}))
        with kept_source(spec) as first, kept_source(spec) as beside:
            assert beside is not first, "a source is for one task at a time"
        with kept_source(spec) as later:
            assert later is first
        with pytest.raises(RuntimeError), kept_source(spec) as broken:
            raise RuntimeError("a task fails")
        with kept_source(spec) as after:
            assert after is not broken


def test_outside_of_a_worker_a_source_is_closed_when_it_was_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    with WireLab(str(tmp_path)) as lab:
        spec = source_spec(parse_options({"nameServer": lab.name_server}))
        with kept_source(spec) as first:
            assert isinstance(first, WireSource)
        with kept_source(spec) as later:
            assert later is not first


def test_few_sources_are_kept(in_worker: None, tmp_path: Path) -> None:
    with WireLab(str(tmp_path)) as lab:
        specs = [
            source_spec(parse_options({"nameServer": lab.name_server, "consumerGroup": f"group-{number}"}))
            for number in range(4)
        ]
        for spec in specs:
            with kept_source(spec):
                pass
        assert len(worker._kept) <= 2


def test_a_store_directory_is_opened_by_each_task(in_worker: None, orders_store: FilledStore) -> None:
    spec = source_spec(parse_options(orders_store.options))
    with kept_source(spec) as first:
        pass
    with kept_source(spec) as later:
        assert later is not first
