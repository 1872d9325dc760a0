"""Benches for the storage tests: one on the local file system, one on the simulated disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store_lab import StoreLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[StoreLab]:
    """A store bench on the local file system; whatever it leaves is verified."""
    bench = StoreLab(tmp_path / "store")
    yield bench
    bench.finish()
