"""A home of Spark in which PySpark is a folder: its Python processes load it compiled, not from a zip.

The first on the path of every Python process that Spark starts is ``python/lib/pyspark.zip`` of Spark's home, and what
Python imports from a zip it compiles anew each time: half a second of processor time for each of the five processes of
a session's first query, and 0.6 s for each stream. Nothing can be put before it on the path. But where PySpark was
installed by pip the same package lies beside the zip, compiled. So a session on this machine gets a home made of links
to all that Spark's own has, but with a folder in place of the zip.

The home outlives the session, as a JVM may load from it until its end; links are all it consists of, and each session
sees that they are there. It is not below the temporary folder, where others clean up.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_VARIABLE: Final = "SPARK_HOME"
_ZIP: Final = "pyspark.zip"
_PARTS: Final = ("bin", "conf", "data", "examples", "jars", "licenses", "sbin")  # all of Spark's that is not Python
_OTHER_DISTRIBUTION: Final = "spark-distribution"  # one that PySpark downloaded, which it prefers to itself
_PREFIX: Final = "spark-"
_NAME: Final = re.compile(_PREFIX + r"[0-9a-f]{24}")


@contextlib.contextmanager
def compiled_pyspark() -> Iterator[None]:
    """Within, a JVM that PySpark starts has such a home, if there is none of the user's and one can be made."""
    home = None if _VARIABLE in os.environ else _linked_home()
    if home is None:
        yield
        return
    os.environ[_VARIABLE] = str(home)
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)  # a session that another thread started may have been faster


def _linked_home() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    installed = Path(spec.origin).resolve().parent
    if (installed / _OTHER_DISTRIBUTION).exists() or not (installed / "python" / "lib" / _ZIP).is_file():
        return None
    try:
        return _made(installed, _cache_folder() / f"{_PREFIX}{_digest(installed)}")
    except (OSError, RuntimeError):  # no place to write to, no home of this user
        return None


def _made(installed: Path, home: Path) -> Path:
    if not home.exists():
        _remove_forsaken(home.parent)
    home.parent.mkdir(parents=True, exist_ok=True)
    home.mkdir(mode=0o700, exist_ok=True)
    status = home.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{home} is not a folder of this user alone")
    package = home / "python" / "lib" / _ZIP
    package.mkdir(parents=True, exist_ok=True)
    _link(installed, package / "pyspark")
    for part in _PARTS:
        if (installed / part).exists():
            _link(installed / part, home / part)
    for folder in ("python", "python/lib"):
        for each in (installed / folder).iterdir():
            if each.name not in ("lib", _ZIP):
                _link(each, home / folder / each.name)
    return home


def _link(target: Path, link: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    aside = link.with_name(f"{link.name}.{uuid.uuid4().hex}")
    aside.symlink_to(target)
    try:
        aside.replace(link)  # at once: another session may load from here
    except OSError:
        aside.unlink()
        raise


def _remove_forsaken(folder: Path) -> None:
    """Homes whose installation was removed."""
    for home in folder.glob(f"{_PREFIX}*"):
        jars = home / "jars"
        if _NAME.fullmatch(home.name) and jars.is_symlink() and not jars.exists():
            shutil.rmtree(home, ignore_errors=True)


def _digest(installed: Path) -> str:
    """One home for each place and state of an installation: its list of files names the versions of its parts."""
    names = sorted(each.name for folder in ("jars", "python/lib") for each in (installed / folder).iterdir())
    return hashlib.sha256("\0".join([str(installed), *names]).encode()).hexdigest()[:24]


def _cache_folder() -> Path:
    named = os.environ.get("FLAREMQ_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flaremq"
