"""Compile the core ahead of time: `python compile_core.py` puts the extension modules beside their sources.

Each module in [tool.flaremq.core] of pyproject.toml is ordinary Python with a .pxd beside it that gives it C types.
Cython turns it into C, the compiler at hand turns that into an extension module, which Python prefers over the .py of
the same name.

    python compile_core.py               build what is out of date
    python compile_core.py --checked     every load and store is compared with the size of its buffer; aborts
    python compile_core.py --sanitized   the same under AddressSanitizer; prints how to run it
    python compile_core.py --profiled    as fast, with frame pointers and symbols for perf
    python compile_core.py --remove      back to interpreted modules

What was built is kept in ~/.cache/flaremq/core by a digest of everything it is made of (source, the .pxd and headers it
reaches, flags, Cython, Python, compiler), so another clone of the same sources compiles nothing. Modules call each
other as C: either all of them are compiled or none.

The compiler is $CC, or what the system has, or the one in the `ziglang` package. Exit codes: 0 compiled, 1 the compiler
refused a module, 3 no Python headers, 4 no C compiler, 5 no Cython; after 3 to 5 everything runs interpreted.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
WORK = ROOT / "build" / "core"
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
UNUSED_AFTER_DAYS = 30

DIRECTIVES = {
    "language_level": "3",
    "infer_types": "True",
    "boundscheck": "False",
    "wraparound": "False",
    "cdivision": "True",
    "nonecheck": "True",
    "initializedcheck": "False",
    "annotation_typing": "False",  # types come from the .pxd: in a .py, int means what it says
    "embedsignature": "False",
    "auto_pickle": "False",
}
# -fwrapv: offsets that come from damaged bytes may overflow, and must do so as they do on the machine.
COMMON = ["-fPIC", "-fwrapv", "-fno-strict-aliasing", "-w"]
FAST = ["-O3", "-fvisibility=hidden", "-DNDEBUG"]
WITH_CHECKS = ["-O1", "-g", "-fno-omit-frame-pointer", "-DFLAREMQ_CHECKED"]


@dataclass(frozen=True)
class Variety:
    """One way to build the core."""

    flags: list[str]
    directives: dict[str, str] = field(default_factory=dict)


VARIETIES = {
    "fast": Variety([*FAST, "-g0"]),
    "profiled": Variety([*FAST, "-g", "-fno-omit-frame-pointer"]),
    "checked": Variety(WITH_CHECKS, {"boundscheck": "True", "nonecheck": "True"}),
    "sanitized": Variety([*WITH_CHECKS, "-fsanitize=address"], {"boundscheck": "True", "nonecheck": "True"}),
}


class CannotCompile(Exception):
    """The compiler refused a module."""

    code = 1


class NoHeaders(CannotCompile):
    """Python is installed without its headers."""

    code = 3


class NoCompiler(CannotCompile):
    """There is no C compiler that works."""

    code = 4


class NoCython(CannotCompile):
    """Cython is not installed, or too old."""

    code = 5


def modules() -> list[str]:
    """Dotted names of what is compiled."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        names: list[str] = tomllib.load(file)["tool"]["flaremq"]["core"]["modules"]
    return names


def source_of(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def target_of(module: str) -> Path:
    return source_of(module).with_suffix(SUFFIX)


# Building in place


def build(variety: str = "fast") -> list[str]:
    """Put what is out of date beside its source; the names of the modules that were.

    After a failure none is left: old machine code beside new sources would be worse than slow.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    with _alone():
        stale = []
        for module in modules():
            key, stamp = _digest(module, variety), _stamp(module)
            if target_of(module).exists() and stamp.exists() and stamp.read_text() == key:
                os.utime(target_of(module))  # newer than its source, which a checkout may have touched
            else:
                stale.append(module)
        if not stale:
            return []
        try:
            built = compile_modules(variety)
        except CannotCompile:
            _remove()
            raise
        for module in stale:
            partial = target_of(module).with_suffix(".partial")
            shutil.copyfile(built[module], partial)
            os.replace(partial, target_of(module))
            _stamp(module).write_text(_digest(module, variety))
        return stale


def remove() -> None:
    """Delete the extension modules."""
    WORK.mkdir(parents=True, exist_ok=True)
    with _alone():
        _remove()


def _remove() -> None:
    for path in SOURCE.glob(f"flaremq/**/*{SUFFIX}"):
        path.unlink(missing_ok=True)


@contextmanager
def _alone() -> Iterator[None]:
    with open(WORK / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stamp(module: str) -> Path:
    return WORK / f"{module}{SUFFIX}.key"


# What a module is made of


def _digest(module: str, variety: str) -> str:
    """Of everything a module is made of but the compiler."""
    digest = hashlib.sha256()
    for path in [*_parts(module), Path(__file__)]:
        digest.update(path.read_bytes())
    tools = (variety, os.environ.get("CC"), _cython_version(), sys.version, sysconfig.get_platform(), SUFFIX)
    digest.update(repr(tools).encode())
    return digest.hexdigest()


_CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))", re.MULTILINE)
_HEADER = re.compile(r'^\s*(?:cdef extern from|#\s*include)\s+"([^"]+)"', re.MULTILINE)


def _parts(module: str) -> list[Path]:
    """Its source, and the .pxd and headers that are reached from there."""
    parts = [source_of(module)]
    waiting = [source_of(module).with_suffix(".pxd")]
    while waiting:
        path = waiting.pop()
        if path in parts or not path.exists():  # what is Cython's or C's own
            continue
        parts.append(path)
        text = path.read_text()
        waiting += [SOURCE / ("/".join((a or b).split(".")) + ".pxd") for a, b in _CIMPORT.findall(text)]
        waiting += [SOURCE / name for name in _HEADER.findall(text)]
    return [parts[0], *sorted(parts[1:])]


def _cython_version() -> str | None:
    try:
        return importlib.metadata.version("cython")
    except importlib.metadata.PackageNotFoundError:
        return None


# Tools


def find_compiler() -> list[str]:
    """The command of the first C compiler that can compile something with Python's headers."""
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise NoHeaders(f"Python's headers are not in {include}; on Debian: apt-get install python3-dev")
    commands = [shlex.split(os.environ["CC"])] if os.environ.get("CC") else []
    commands += [[found] for name in ("cc", "gcc", "clang") if (found := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append(zig_command())
    for command in commands:
        if _works(command):
            return command
        print(f"core: {shlex.join(command)} does not compile a program with Python.h", file=sys.stderr)
    raise NoCompiler("there is no C compiler; install gcc or clang, or: pip install ziglang")


def zig_command() -> list[str]:
    """zig as a C compiler for any machine of this kind with a C library of the last ten years."""
    machine = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    glibc = ".2.17" if machine.endswith("-gnu") else ""
    # Without a target it would take this machine's processor for granted; in debug builds it would trap on overflow.
    return [sys.executable, "-m", "ziglang", "cc", "-target", machine + glibc, "-fno-sanitize=undefined"]


def _includes() -> list[str]:
    paths = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    include = Path(sysconfig.get_path("include"))
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    if (include.parent / machine / include.name).is_dir():
        # Debian's pyconfig.h includes <MULTIARCH/python3.x/pyconfig.h>. Compilers with headers of their own must see
        # that one folder, and nothing else of /usr/include.
        link = WORK / "include" / machine / include.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(include.parent / machine / include.name)
        paths.add(str(WORK / "include"))
    return [f"-I{path}" for path in sorted(paths)]


def _works(command: list[str]) -> bool:
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        probe = Path(folder, "probe.c")
        probe.write_text("#include <Python.h>\nint answer(void) { return PY_MAJOR_VERSION; }\n")
        arguments = [*command, *COMMON, "-shared", *_includes(), str(probe), "-o", str(probe.with_suffix(".so"))]
        try:
            return subprocess.run(arguments, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


# Compiling


def compile_modules(variety: str = "fast", command: list[str] | None = None) -> dict[str, Path]:
    """Every module with a file that holds it, compiled now or before; in place nothing changes."""
    if _cython_version() is None:
        raise NoCython("Cython is not installed; pip install 'cython>=3.1'")
    WORK.mkdir(parents=True, exist_ok=True)
    command = command or find_compiler()
    answer = subprocess.run([*command, "--version"], capture_output=True, check=False).stdout
    tool = hashlib.sha256(answer + repr(command[1:]).encode()).hexdigest()
    store = _store()
    found = {}
    for module in modules():
        key = hashlib.sha256((_digest(module, variety) + tool).encode()).hexdigest()[:32]
        found[module] = store / f"{module}-{key}{SUFFIX}"
    missing = [module for module, path in found.items() if not path.exists()]
    missing.sort(key=lambda module: source_of(module).stat().st_size, reverse=True)  # the longest first
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda module: _compile(module, found[module], variety, command), missing))
    for path in found.values():
        os.utime(path)
    _prune(store)
    return found


def _store() -> Path:
    """Where machine code is kept: this user's cache, or the clone if there is none."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home, "flaremq", "core")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return WORK


def _prune(store: Path) -> None:
    oldest = time.time() - UNUSED_AFTER_DAYS * 86400
    for path in store.glob(f"flaremq.*-*{SUFFIX}"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            pass  # somebody else did


def _compile(module: str, built: Path, variety: str, command: list[str]) -> None:
    chosen = VARIETIES[variety]
    options = [part for pair in (DIRECTIVES | chosen.directives).items() for part in ("-X", "{}={}".format(*pair))]
    relative = source_of(module).relative_to(SOURCE)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        # The name of the C file is in the machine code: a short one, the same in every clone.
        _run([sys.executable, "-m", "cython", *options, "-w", str(SOURCE), str(relative), "-o", f"{folder}/{module}.c"])
        compilation = [*command, *COMMON, *chosen.flags, "-shared", *_includes(), f"-I{SOURCE}"]
        _run([*compilation, f"{module}.c", "-o", f"{module}.so"], folder)
        handle, partial = tempfile.mkstemp(dir=built.parent)
        os.close(handle)
        shutil.copyfile(f"{folder}/{module}.so", partial)
        os.replace(partial, built)


def _run(command: list[str], folder: str | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotCompile(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    for name in [*VARIETIES, "remove"]:
        choice.add_argument(f"--{name}", dest="choice", action="store_const", const=name)
    chosen = parser.parse_args(arguments).choice or "fast"
    if chosen == "remove":
        remove()
        print("core: removed; everything runs interpreted")
        return 0
    started = time.monotonic()
    try:
        built = build(chosen)
    except CannotCompile as error:
        print(f"core: not compiled: {error}", file=sys.stderr)
        return error.code
    seconds = f", {time.monotonic() - started:.0f} s" if built else ""
    print(f"core: {len(built)} of {len(modules())} modules built ({chosen}{seconds})")
    if chosen == "sanitized":
        library = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
        print(f"core: run with LD_PRELOAD={library.stdout.strip()} ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc")
    return 0


if __name__ == "__main__":
    sys.exit(main())
