from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.tables.lab import FORMATS, TableLab


@pytest.fixture(params=FORMATS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> TableLab:
    return TableLab(tmp_path, request.param)
