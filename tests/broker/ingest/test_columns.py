"""The numbers of the parsed sends' table: Python and C have them from two files."""

from __future__ import annotations

import re
from pathlib import Path

from flaremq.broker.ingest import columns


def test_compiled_code_has_the_same_columns() -> None:
    text = Path(columns.__file__).with_suffix(".pxd").read_text()
    compiled = {name: int(number) for name, number in re.findall(r"^ +([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    assert compiled == {name: number for name, number in vars(columns).items() if name.isupper()}
