"""The kernel cache: used when it fits, renewed when any source changed, never a reason to fail."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest

from flaremq.storage.kernels import compile as kernels_compile

SOURCE = """
from flaremq.storage.kernels.compile import I64, kernel

@kernel(I64, I64)
def twice(number):
    return 2 * number
"""

_numbers = itertools.count()


@pytest.fixture
def module_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "sample.py"
    path.write_text(SOURCE)
    return path


def load(path: Path) -> Any:
    """Import the file anew, as another process would."""
    spec = importlib.util.spec_from_file_location(f"kernel_sample_{next(_numbers)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.twice(21) == 42
    return module.twice


def cache_hits(dispatcher: Any) -> int:
    return sum(dispatcher.stats.cache_hits.values())


def test_a_kernel_is_compiled_once_and_then_loaded(module_path: Path) -> None:
    assert cache_hits(load(module_path)) == 0
    assert cache_hits(load(module_path)) == 1


def test_touching_a_file_does_not_compile_it_again(module_path: Path) -> None:
    load(module_path)
    module_path.touch()
    assert cache_hits(load(module_path)) == 1


def test_a_change_in_any_kernel_source_compiles_all_again(module_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(module_path)
    monkeypatch.setattr(kernels_compile, "_DIGEST", "another family of sources")
    assert cache_hits(load(module_path)) == 0
    assert cache_hits(load(module_path)) == 1


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_cut_off_cache_file_is_replaced(module_path: Path, suffix: str) -> None:
    load(module_path)
    for path in module_path.parent.rglob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:100])
    assert cache_hits(load(module_path)) == 0
    assert cache_hits(load(module_path)) == 1


def test_kernels_run_where_nothing_can_be_cached(module_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "read-only file system")

    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl.__init__", refuse)
    assert cache_hits(load(module_path)) == 0


def test_a_kernel_refuses_types_it_was_not_made_for(module_path: Path) -> None:
    with pytest.raises(TypeError):
        load(module_path)("text")
