"""Python environments of what we are compared with, each made once in ``.cache``."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

from benchmarks.child import PROJECT


def interpreter_of(variable: str, name: str, *installs: list[str]) -> str:
    """The interpreter of the environment that ``variable`` names, or of ``.cache/name``, made if it is not there;
    ``installs`` are the arguments of pip."""
    folder = Path(os.environ.get(variable) or PROJECT / ".cache" / name)
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        venv.create(partial, with_pip=True)
        pip = [str(partial / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for arguments in installs:
            subprocess.run([*pip, *arguments], check=True)
        partial.rename(folder)  # nothing in it is run by a path of its own but the interpreter
    return str(interpreter)
