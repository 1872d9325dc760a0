"""The source as a tree of modules and what each imports; for the tests that keep the architecture true."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "flaremq"


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: Path

    @property
    def file_name(self) -> str:
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @functools.cached_property
    def name(self) -> str:
        """Dotted, from ``flaremq`` on."""
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        return ".".join(["flaremq", *(parts[:-1] if self.is_package else parts)])

    @property
    def layer(self) -> str:
        """The part of ``flaremq`` it belongs to, such as ``storage`` or ``errors``."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @functools.cached_property
    def imports(self) -> list[str]:
        """Dotted names that its import statements may load, in functions too; for ``from a import b``, ``a.b``."""
        return [name for node in ast.walk(self.tree) for name in imported_names(node)]

    def imports_when_imported(self) -> Iterator[str]:
        """The same for what runs when it is imported: nothing in functions or under TYPE_CHECKING."""
        pending: list[ast.stmt] = list(self.tree.body)
        while pending:
            node = pending.pop()
            yield from imported_names(node)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                pending += node.orelse
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
                pending += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]


def imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute here"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    found = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    return {module.name: module for module in found}


def target(imported: str) -> Module | None:
    """The module of ours that an imported name lies in, or is; None for everybody else's."""
    known = modules()
    while imported:
        if imported in known:
            return known[imported]
        imported = imported.rpartition(".")[0]
    return None
