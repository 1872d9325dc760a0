"""Sizes that are looked at: what is longer or wider than a screen is split, or says why it is not.

The reason stands right above the function, or in the module's docstring, and has the words "on purpose". Compiled
kernels are exempt: there a call costs what it saves.
"""

from __future__ import annotations

import ast

import pytest

from tests.support.source_tree import Module, modules

pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads all sources, once

FUNCTION_LINES_MAX = 60
CONSTRUCTOR_PARAMETERS_MAX = 7
MODULE_LINES_MAX = 500
REASON = "on purpose"

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_what_is_long_or_wide_says_why() -> None:
    wrong = []
    for module in modules().values():
        if "kernels" in module.name.split("."):
            continue
        lines = module.path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MODULE_LINES_MAX and REASON not in (ast.get_docstring(module.tree) or ""):
            wrong.append(f"{module.file_name}: {len(lines)} lines")
        wrong += _unexplained(module, lines)
    assert wrong == []


def _unexplained(module: Module, lines: list[str]) -> list[str]:
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, _Function) or _has_reason(node, lines):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES_MAX:
            found.append(f"{module.file_name}: {node.name} has {length} lines")
        count = len(node.args.args) - 1 + len(node.args.kwonlyargs)
        if node.name == "__init__" and count > CONSTRUCTOR_PARAMETERS_MAX:
            found.append(f"{module.file_name}:{node.lineno}: a constructor with {count} parameters")
    return found


def _has_reason(node: _Function, lines: list[str]) -> bool:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    above = lines[max(0, first - 4) : node.lineno - 1]
    return any(line.strip().startswith("#") and REASON in line for line in above)
