"""The packages of the extra ``lakehouse`` need not be there: one line says what is missing and what brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flaremq.errors import UnavailableError


@contextmanager
def lakehouse_needed(what: str) -> Iterator[None]:
    """Within, a package that is not installed is an error of ours."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("flaremq", "pyarrow"):
            raise
        raise UnavailableError(
            f"{what} needs the package {error.name}, which is not installed: pip install 'flaremq[lakehouse]'"
        ) from None
