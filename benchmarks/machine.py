"""What the figures were measured on, and whether it was quiet."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.timing import Row


def describe(folder: str) -> Row:
    """Taken before the first run: the load average then is somebody else's."""
    disk = shutil.disk_usage(folder)
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_GiB": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release(),
        "file_system": _file_system(folder),
        "disk_free_GB": round(disk.free / 1e9, 1),
        "python": platform.python_version(),
        "java": _java(),
        "packages": {name: _version(name) for name in ("flaremq", "numpy", "cython", "pyarrow")},
        "load_average_at_start": [round(value, 2) for value in os.getloadavg()],
    }


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), None)


def _file_system(folder: str) -> str | None:
    """The type of the longest mount point above the folder."""
    real, best, kind = os.path.realpath(folder), "", None
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _device, point, found, *_ = line.split(" ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def _java() -> str | None:
    if shutil.which("java") is None:
        return None
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return next(iter(done.stderr.splitlines()), None)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
