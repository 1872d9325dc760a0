"""The packages of the extra ``lakehouse`` need not be there: one line says what is missing and what brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Final

from flaremq.errors import UnavailableError

_INSTALLED_BY: Final = {"pyiceberg": "'pyiceberg[pyarrow,sql-sqlite]'"}  # others have no extras that are needed

# Of these names are used that are their own, which another version may lack.
_BY_THEIR_INSIDE: Final = frozenset({"pyiceberg"})


@contextmanager
def lakehouse_needed(what: str) -> Iterator[None]:
    """Within, a package that is not installed, or not in a version that fits, is an error of ours."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("flaremq", "pyarrow"):
            raise
        raise UnavailableError(
            f"{what} needs the package {package}, which is not installed: pip install "
            f"{_INSTALLED_BY.get(package, package)} (the extra [lakehouse] of flaremq has it)"
        ) from None
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _BY_THEIR_INSIDE:
            raise
        raise UnavailableError(
            f"{what} does not work with {package} {metadata.version(package)} ({error}): pip install --upgrade "
            f"{_INSTALLED_BY[package]}, or an older one if there is no newer"
        ) from error
