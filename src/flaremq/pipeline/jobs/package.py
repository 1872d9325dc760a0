"""The package as one zip for ``--py-files``: what a cluster needs whose machines have Python and the third-party
packages (NumPy, PyArrow, ...) but not FlareMQ.

Python can import from a zip, but no machine code: the system loads shared libraries from files alone. So the zip holds
the real packages one folder deeper, the compiled core among them, and at the top only stubs that unpack it, once for
each machine and each state of the sources, and load the real thing from there. The core is compiled for the Python
version and kind of processor that packed; elsewhere the same sources run interpreted.

``ship`` does it all for a session that runs: packs, sends the zip to the executors, makes the source known.

Executors unpack to ``$FLAREMQ_CACHE_DIR`` or below the temporary folder, into a directory that only their user can
write.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.connect import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("flaremq", "pyspark_flaremq")
_INNER = "flaremq_unpacked"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the same sources give the same zip

# Runs instead of a package's own __init__ when that is imported from the zip. Standard library only.
_STUB = '''"""Unpacks the zip this lies in, once for each machine, and becomes the real package."""

import os as _os
import shutil as _shutil
import stat as _stat
import tempfile as _tempfile
import zipfile as _zipfile

_DIGEST = "{digest}"
_INNER = "{inner}/"


def _home():
    named = _os.environ.get("FLAREMQ_CACHE_DIR")
    folder = named or _os.path.join(_tempfile.gettempdir(), "flaremq-packages-%d" % _os.getuid())
    _os.makedirs(folder, mode=0o700, exist_ok=True)
    status = _os.lstat(folder)
    if not named and (status.st_uid != _os.getuid() or status.st_mode & 0o022 or not _stat.S_ISDIR(status.st_mode)):
        raise ImportError(folder + " is not a folder of this user alone; set FLAREMQ_CACHE_DIR to one that is")
    return folder


def _unpacked():
    home = _home()
    target = _os.path.join(home, _DIGEST)
    if not _os.path.isdir(target):
        scratch = _tempfile.mkdtemp(prefix=".unpack-", dir=home)
        try:
            with _zipfile.ZipFile(__loader__.archive) as package:
                for name in package.namelist():
                    if name.startswith(_INNER):
                        package.extract(name, scratch)
            _os.rename(_os.path.join(scratch, _INNER.rstrip("/")), target)
        except OSError:
            if not _os.path.isdir(target):  # else another worker was faster
                raise
        finally:
            _shutil.rmtree(scratch, ignore_errors=True)
    return target


__shipped__ = __loader__.archive
__path__[:] = [_os.path.join(_unpacked(), __name__)]
__file__ = _os.path.join(__path__[0], "__init__.py")
__spec__.origin = __file__
with open(__file__, "rb") as _source:
    exec(compile(_source.read(), __file__, "exec"))
'''


@dataclass(frozen=True, slots=True)
class PackageResult:
    """What was packed."""

    path: str
    files: int
    compiled: int  # files with machine code among them
    size_bytes: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "files": self.files,
            "compiled": self.compiled,
            "sizeBytes": self.size_bytes,
            "digest": self.digest,
        }


def package(out: str | Path) -> PackageResult:
    """Write the zip for ``spark-submit --py-files`` to ``out``; replaces a file of that name whole."""
    target = Path(out)
    if target.suffix != ".zip":
        raise InvalidArgumentError(f"{target}: Spark imports Python packages from a file that ends in .zip")
    content = {name: path.read_bytes() for name, path in _files()}
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    name = f"{digest.hexdigest()[:24]}-py{sys.version_info.major}{sys.version_info.minor}"
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for package_name in _PACKAGES:
                stub = _STUB.format(digest=name, inner=_INNER)
                archive.writestr(zipfile.ZipInfo(f"{package_name}/__init__.py", _FIXED_TIME), stub)
            for path, data in content.items():
                archive.writestr(zipfile.ZipInfo(f"{_INNER}/{path}", _FIXED_TIME), data, zipfile.ZIP_DEFLATED)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    machine_code = sum(path.endswith(_COMPILED) for path in content)
    return PackageResult(str(target), len(content), machine_code, target.stat().st_size, name)


def ship(spark: SparkSession, zip_path: str | Path | None = None) -> None:
    """Make FlareMQ known to all of this session: to executors that have it not installed, and to the driver's helpers.

    The zip is ``zip_path``, or the one this package was imported from, or is made now. Spark's own search for
    ``format("flaremq")`` and the process that plans a stream look neither into ``--py-files`` nor into what was added
    later; so the source is registered here, and the driver's Python processes get the zip on their path. Asked again
    it ships nothing a second time.
    """
    from flaremq.pipeline.spark.datasource import FlareMQDataSource

    if is_remote(spark):
        _ship_to_server(spark, zip_path)
        return
    context: Any = spark.sparkContext
    if not getattr(context, "_flaremq_shipped", False):
        running_from = _running_from()
        chosen = os.path.abspath(zip_path or running_from or _packed_for_now())
        if running_from is None or zip_path is not None:
            context.addPyFile(chosen)
        before = context.environment.get("PYTHONPATH")
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (chosen, before)))
        context._flaremq_shipped = True  # a note to ourselves
    spark.dataSource.register(FlareMQDataSource)


def _ship_to_server(spark: Any, zip_path: str | Path | None) -> None:
    """To a server of Spark Connect: the zip is an artifact of the session, for its planners and workers alike."""
    from flaremq.pipeline.spark.datasource import FlareMQDataSource

    if not getattr(spark, "_flaremq_shipped", False):
        spark.addArtifacts(os.path.abspath(zip_path or _running_from() or _packed_for_now()), pyfile=True)
        spark._flaremq_shipped = True
    spark.dataSource.register(FlareMQDataSource)


def _running_from() -> str | None:
    """The zip that this package was imported from: its stub notes it."""
    return getattr(sys.modules["flaremq"], "__shipped__", None)


def _packed_for_now() -> str:
    folder = tempfile.mkdtemp(prefix="flaremq-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return package(Path(folder) / "flaremq.zip").path


def write_package(target: str | Path) -> str:
    """``package`` for the command line: the path that was written."""
    return package(target).path


_COMPILED = EXTENSION_SUFFIXES[0]  # of the core only what this Python loads


def _files() -> Iterator[tuple[str, Path]]:
    for package_name in _PACKAGES:
        spec = importlib.util.find_spec(package_name)
        if spec is None or not spec.submodule_search_locations:
            raise InvalidArgumentError(f"the package {package_name} cannot be found on this Python's path")
        root = Path(spec.submodule_search_locations[0])
        if not root.is_dir():
            raise InvalidArgumentError(f"{root} is not a folder: pack from an installed package or from its sources")
        for path in sorted(root.rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            if path.suffix != ".so" or path.name.endswith(_COMPILED):
                yield f"{package_name}/{path.relative_to(root).as_posix()}", path
