"""These tests are about what the system does with files: theirs lie on the disk, wherever those of other tests do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="flaremq-test-", dir="/var/tmp") as folder:
        yield Path(folder)
