"""Run the core interpreted although it is compiled: FLAREMQ_INTERPRETED=1 in the environment.

Python takes an extension module before a source file of the same name. This finder, asked first, names the source.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path


class _SourceFinder:
    """Finds the source of modules of this package that have an extension module beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("flaremq.") or path is None:
            return None
        last = name.rpartition(".")[2]
        for folder in path:
            source = Path(folder, f"{last}.py")
            if source.exists() and any(source.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES):
                return importlib.util.spec_from_file_location(name, source)
        return None


def install() -> None:
    if _SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFinder)
