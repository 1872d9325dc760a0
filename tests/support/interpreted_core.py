"""The sources of the compiled core under another name, so that one process has both: ``interpreted_core.record`` is
what ``flaremq.core.record`` is, run by the interpreter, all it imports of the core included."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import flaremq.core

NAME = "interpreted_core"
_FOLDER = Path(flaremq.core.__file__).parent


class _Renaming(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:  # no cache: the bytecode of this text is not that of the file
        text = Path(self.path).read_text().replace("flaremq.core", NAME)
        return compile(text, self.path, "exec", dont_inherit=True)


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        last = name.removeprefix(NAME).removeprefix(".")
        source = _FOLDER / (f"{last.replace('.', '/')}.py" if last else "__init__.py")
        return importlib.util.spec_from_file_location(
            name,
            source,
            loader=_Renaming(name, str(source)),
            submodule_search_locations=None if last else [str(_FOLDER)],
        )


def interpreted(module: str) -> ModuleType:
    """``interpreted("record")``."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    return importlib.import_module(f"{NAME}.{module}")


def is_compiled(module: ModuleType) -> bool:
    return str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES))
