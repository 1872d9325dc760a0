"""Imports point down: the picture of the layers, kept true by reading the source.

Every import counts, inside functions too: a lazy import is still a dependency. Only the rule about heavy
packages looks at what runs when a module is imported.
"""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "flaremq"

BASE = {"errors", "options", "clock", "java_json", "times", "visible", "log_lines"}
STORE_SIDE = {"storage", "message"} | BASE
WIRE_SIDE = {"remoting", "protocol"} | BASE
SERVERS = {"broker", "namesrv", "client", "pipeline"}

# What each part may import; a part may always import itself.
MAY_IMPORT = {
    "errors": set(),
    "clock": set(),
    "options": {"errors"},
    "java_json": set(),
    "times": set(),
    "visible": set(),
    "log_lines": {"visible"},
    "message": BASE,
    "storage": STORE_SIDE,
    "protocol": BASE,
    "remoting": WIRE_SIDE,
    "namesrv": WIRE_SIDE,
    "client": WIRE_SIDE | {"message"},
    "broker": WIRE_SIDE | STORE_SIDE,
    "pipeline": STORE_SIDE | {"client"},
    "sync": WIRE_SIDE | {"message", "client"},
    "testing": WIRE_SIDE | STORE_SIDE | {"broker", "namesrv", "client"},
    "dashboard": WIRE_SIDE | STORE_SIDE | SERVERS,
    "cli": WIRE_SIDE | STORE_SIDE | SERVERS | {"sync", "testing"},
}

# Who may use the names of `flaremq` itself, as a user's program does. Below, that would be a circle.
FRONT_DOOR_USERS = {"cli", "dashboard"}

HEAVY = {"numpy", "numba", "pyarrow", "pyspark"}
# The modules that are heavy on purpose: compiled code and the bulk paths around it. Everybody else imports them, and
# what they import, inside functions, when a call is large enough to pay for it.
HEAVY_MODULES = (
    "pipeline/*.py",
    "pipeline/jobs/*.py",
    "storage/kernels*.py",
    "storage/bulk_*.py",
    "storage/scan*.py",
    "broker/kernels*.py",
    "broker/bulk_*.py",
)


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _is_heavy(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in HEAVY_MODULES)


def _imported_names(node: ast.AST, path: Path) -> Iterator[str]:
    """Dotted names that an import statement may load; for ``from a import b`` that is ``a.b``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = ["flaremq", *path.relative_to(PACKAGE).parts[:-1]]
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _all_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield from _imported_names(node, path)


def _imports_at_module_level(path: Path) -> Iterator[str]:
    pending: list[ast.stmt] = list(ast.parse(path.read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop()
        yield from _imported_names(node, path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            pending += [s for h in getattr(node, "handlers", []) for s in h.body]


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_imports_point_down(path: Path) -> None:
    part = _part(path)
    if part in ("__init__", "__main__"):
        return  # the front door may name anything; what it costs is tested below
    assert part in MAY_IMPORT, f"{part} is new: give it a place in the layers"
    for name in _all_imports(path):
        if name.split(".")[0] == "flaremq":
            target = [*name.split("."), ""][1]
            allowed = target == part or target in MAY_IMPORT[part]
            if target not in MAY_IMPORT:
                allowed = part in FRONT_DOOR_USERS
            assert allowed, f"{_name(path)} must not import {name}"


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_heavy_packages_wait_until_they_are_needed(path: Path) -> None:
    if _is_heavy(_name(path)):
        return
    heavy = []
    for name in _imports_at_module_level(path):
        as_path = name.removeprefix("flaremq.").replace(".", "/")
        # `from flaremq.storage.kernels import f` names a function: the module is then one step up.
        if name.split(".")[0] in HEAVY or _is_heavy(f"{as_path}.py") or _is_heavy(f"{as_path.rpartition('/')[0]}.py"):
            heavy.append(name)
    assert heavy == [], f"import these inside the functions of {_name(path)} that need them"


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_each_world_keeps_to_itself(path: Path) -> None:
    roots = {name.split(".")[0] for name in _all_imports(path)}
    if _part(path) != "pipeline":
        assert "pyspark" not in roots
    if _part(path) in ("storage", "message"):
        assert "asyncio" not in roots
    if _part(path) == "protocol":
        assert not roots & {"asyncio", "socket", "threading"}


LIGHT = ("flaremq", "flaremq.message", "flaremq.storage.message_store", "flaremq.cli.main")


@pytest.mark.parametrize("module", LIGHT)
def test_importing_stays_light(module: str) -> None:
    code = (
        f"import importlib, sys\nimportlib.import_module({module!r})\nprint(*sorted({HEAVY!r} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
