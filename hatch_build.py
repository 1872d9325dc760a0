"""The compiled core in a wheel: what `pip install .` and `make wheel` do besides copying files.

Without Python's headers or a compiler the wheel has no machine code, runs on every machine, interpreted, and says so
when a server starts. FLAREMQ_WHEEL=portable makes one for all Linux machines of this kind with glibc 2.17 or newer; it
needs `ziglang`, and then a wheel without machine code is an error.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compile_core


class CompiledCore(BuildHookInterface):
    """Named by [tool.hatch.build.targets.wheel.hooks.custom]."""

    def dependencies(self) -> list[str]:
        """The compiler comes from PyPI where there is none, into the environment of the build alone."""
        try:
            compile_core.find_compiler()
        except compile_core.NoCompiler:
            return ["ziglang"]
        except compile_core.CannotCompile:
            pass
        return ["ziglang"] if _is_portable() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # its modules are those of the clone: `make core` compiles them there
            return
        try:
            command = compile_core.zig_command() if _is_portable() else None
            built = compile_core.compile_modules(command=command)
        except compile_core.CannotCompile as error:
            if _is_portable() or error.code == 1:
                raise
            self.app.display_warning(f"the core is not compiled, FlareMQ will run interpreted, slowly: {error}")
            return
        source = Path(compile_core.SOURCE)
        for module, path in built.items():
            target = compile_core.target_of(module).relative_to(source)
            build_data["force_include"][str(path)] = str(target)
        build_data["pure_python"] = False
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        machine = os.uname().machine
        platform = f"manylinux_2_17_{machine}" if _is_portable() else _this_platform()
        build_data["tag"] = f"{python}-{python}-{platform}"


def _is_portable() -> bool:
    return os.environ.get("FLAREMQ_WHEEL") == "portable"


def _this_platform() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
