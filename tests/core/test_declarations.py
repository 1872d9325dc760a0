"""What a .pxd says beside what its .py says: the same numbers, and everything compiled that is meant to be."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import flaremq.core

ROOT = Path(__file__).parents[2]
SOURCE = Path(flaremq.core.__file__).parents[2]
DECLARED = sorted(SOURCE.glob("flaremq/**/*.pxd"))
with open(ROOT / "pyproject.toml", "rb") as _file:
    MODULES: list[str] = tomllib.load(_file)["tool"]["flaremq"]["core"]["modules"]
# What a header declares is inlined into who cimports it; anything else must be compiled somewhere.
INLINED = re.compile(r"^cdef (inline|enum|struct|extern)\b")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def _constants(path: Path) -> dict[str, int]:
    """Of every ``cdef enum`` of a .pxd."""
    found: dict[str, int] = {}
    for block in re.findall(r"^cdef enum\b[^\n]*:\n((?:    .*\n|\s*\n)+)", path.read_text() + "\n", re.MULTILINE):
        found |= {name: int(value, 0) for name, value in re.findall(r"^    (\w+) = ([-\w]+)", block, re.MULTILINE)}
    return found


@pytest.mark.parametrize("path", DECLARED, ids=_name)
def test_constants_of_c_are_those_of_python(path: Path) -> None:
    from tests.support.interpreted_core import interpreted

    name = _name(path)
    constants = _constants(path)
    if not constants:
        return
    module = interpreted(name.removeprefix("flaremq.core.")) if name.startswith("flaremq.core.") else None
    module = module or importlib.import_module(name)
    assert constants == {key: getattr(module, key, None) for key in constants}


def test_the_table_has_its_constants_in_c() -> None:
    assert len(_constants(SOURCE / "flaremq/core/table.pxd")) >= 50


def test_each_declared_module_is_compiled_unless_it_is_a_header() -> None:
    declared = {_name(path): path for path in DECLARED}
    assert set(MODULES) <= declared.keys()
    needs = {
        name
        for name, path in declared.items()
        if any(line.startswith(("cdef", "cpdef")) and not INLINED.match(line) for line in path.read_text().splitlines())
    }
    assert needs <= set(MODULES)
    assert sorted(MODULES) == MODULES
