"""A store to be read by a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store_lab import StoreLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[StoreLab]:
    """Whatever a test leaves of it is verified."""
    bench = StoreLab(tmp_path / "store")
    yield bench
    bench.finish()
