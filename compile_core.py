"""Compile the core ahead of time: `python compile_core.py` puts the extension modules beside their sources.

Each module in [tool.flaremq.core] of pyproject.toml is ordinary Python with a .pxd beside it that gives it C types.
Cython turns it into C, the compiler at hand turns that into an extension module, which Python prefers over the .py of
the same name. A module is built again only if something it is made of changed: sources, .pxd, headers, flags, tools.

    python compile_core.py             build what is out of date
    python compile_core.py --checked   a debug build: every load and store is compared with the size of its buffer
    python compile_core.py --remove    back to interpreted modules

The compiler is $CC, or what the system has, or the one in the `ziglang` package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
DIRECTIVES = {
    "language_level": "3",
    "infer_types": "True",
    "boundscheck": "False",
    "wraparound": "False",
    "cdivision": "True",
    "initializedcheck": "False",
    "annotation_typing": "False",  # types come from the .pxd: in a .py, int means what it says
    "embedsignature": "False",
    "auto_pickle": "False",
}
# -fwrapv: offsets that come from damaged bytes may overflow, and must do so as they do on the machine.
FLAGS = ["-O3", "-g0", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-fvisibility=hidden", "-DNDEBUG", "-w"]
CHECKED_FLAGS = ["-O1", "-g", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-DFLAREMQ_CHECKED", "-w"]


class CannotCompile(Exception):
    """No compiler, no headers, or the compiler said no."""


def modules() -> list[str]:
    """Dotted names of what is compiled."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        names: list[str] = tomllib.load(file)["tool"]["flaremq"]["core"]["modules"]
    return names


def source_of(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def target_of(module: str) -> Path:
    return source_of(module).with_suffix(SUFFIX)


def compiler() -> list[str]:
    """The C compiler's command."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CannotCompile("there is no C compiler: install gcc or clang, or `pip install ziglang`")


def build(*, checked: bool = False, jobs: int | None = None) -> list[str]:
    """Build what is out of date; the names of the modules that were."""
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        raise CannotCompile(f"Python's headers are not in {include}: on Debian, apt-get install python3-dev")
    if importlib.util.find_spec("Cython") is None:
        raise CannotCompile("Cython is not installed: pip install 'cython>=3.1'")
    command = compiler()
    work = ROOT / "build" / "core"
    work.mkdir(parents=True, exist_ok=True)
    shared = _shared_digest(command, checked)
    stale = []
    for module in modules():
        key = hashlib.sha256(shared + source_of(module).read_bytes()).hexdigest()
        stamp = work / f"{module}{SUFFIX}.key"
        if not (target_of(module).exists() and stamp.exists() and stamp.read_text() == key):
            stale.append((module, stamp, key))
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for _ in pool.map(lambda entry: _build_one(*entry, command, include, work, checked), stale):
            pass
    return [module for module, _, _ in stale]


def remove() -> None:
    """Delete the extension modules."""
    for module in modules():
        target_of(module).unlink(missing_ok=True)


def _shared_digest(command: list[str], checked: bool) -> bytes:
    """What every module depends on: any of the .pxd and headers, tools and flags."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCE.rglob("*.pxd"), *SOURCE.rglob("*.h"), Path(__file__)]):
        digest.update(path.read_bytes())
    from Cython import __version__

    version = subprocess.run([*command, "--version"], capture_output=True, check=False).stdout
    digest.update(repr((command, version, __version__, sys.version, checked)).encode())
    return digest.digest()


def _build_one(module: str, stamp: Path, key: str, command: list[str], include: str, work: Path, checked: bool) -> None:
    c_file = work / f"{module}.c"
    options = [part for name, value in DIRECTIVES.items() for part in ("-X", f"{name}={value}")]
    relative = source_of(module).relative_to(SOURCE)
    _run([sys.executable, "-m", "cython", *options, "-w", str(SOURCE), str(relative), "-o", str(c_file)], module)
    flags = CHECKED_FLAGS if checked else FLAGS
    built = work / f"{module}{SUFFIX}"
    _run([*command, *flags, "-shared", f"-I{include}", f"-I{SOURCE}", str(c_file), "-o", str(built)], module)
    os.replace(built, target_of(module))
    stamp.write_text(key)


def _run(command: list[str], module: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotCompile(f"{module}: {shlex.join(command)}\n{done.stdout}{done.stderr}")


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--remove"]:
        remove()
        return 0
    if arguments not in ([], ["--checked"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        built = build(checked="--checked" in arguments)
    except CannotCompile as error:
        print(f"core: not compiled, everything runs interpreted, and slowly: {error}", file=sys.stderr)
        return 1
    print(f"core: {len(built)} of {len(modules())} modules compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
