"""Is the core compiled, and if not, why; and FLAREMQ_INTERPRETED=1 in the environment, which runs it interpreted
although it is.

Python takes an extension module before a source file of the same name. The finder below, asked first, names the
source. Modules of the core call each other as C, so either all of them are compiled or none: one tells of all.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec

_WITNESS = "record"  # every use of a store loads it
_VARIABLE = "FLAREMQ_INTERPRETED"
_CORE = os.path.join(os.path.dirname(__file__), "core")


def reason(core: str | os.PathLike[str] | None = None) -> str | None:
    """Why the core runs interpreted; None if it is compiled."""
    if os.environ.get(_VARIABLE):
        return f"{_VARIABLE} is set"
    folder = core or _CORE
    if _compiled(folder) is not None:
        return None
    names = os.listdir(folder) if os.path.isdir(folder) else []
    others = sorted(name.split(".")[1] for name in names if name.startswith(f"{_WITNESS}.") and name.endswith(".so"))
    if others:
        return f"it was compiled for {', '.join(others)}, and this is {sys.implementation.cache_tag} on this machine"
    return "it was not compiled when FlareMQ was installed (make core; docs/compiled-core.md)"


def notice(core: str | os.PathLike[str] | None = None) -> str | None:
    """What a person who starts something should know of the core; None if all is well."""
    why = reason(core)
    if why is not None:
        return f"the core runs interpreted: everything works, many times slower; {why}"
    folder = core or _CORE
    compiled = _compiled(folder)
    source = os.path.join(folder, f"{_WITNESS}.py")
    if compiled is not None and os.path.getmtime(source) > os.path.getmtime(compiled) + 1:
        return f"{source} is newer than its machine code, which is what runs: make core"
    return None


def _compiled(folder: str | os.PathLike[str]) -> str | None:
    found = (os.path.join(folder, f"{_WITNESS}{suffix}") for suffix in EXTENSION_SUFFIXES)
    return next((path for path in found if os.path.exists(path)), None)


class _SourceFinder:
    """Finds the source of modules of this package that have an extension module beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("flaremq.") or path is None:
            return None
        last = name.rpartition(".")[2]
        for folder in path:
            stem = os.path.join(folder, last)
            if os.path.exists(f"{stem}.py") and any(os.path.exists(stem + suffix) for suffix in EXTENSION_SUFFIXES):
                return importlib.util.spec_from_file_location(name, f"{stem}.py")
        return None


def install() -> None:
    if _SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, _SourceFinder)
