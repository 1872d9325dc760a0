"""Asking a catalog over a network: what may pass is asked again, and failures are told as errors of ours.

Only for questions that may be asked twice. A commit whose answer is lost may have been carried out, so who sends one
looks first whether it is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from pyiceberg.exceptions import (
    CommitStateUnknownException,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from requests.exceptions import ChunkedEncodingError, ConnectionError, Timeout

from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.1  # twice as long each time

# Nobody knows whether what was asked for has been done.
UNSURE: Final = (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    ChunkedEncodingError,
    ConnectionError,
    Timeout,
)


def asked(catalog: str, question: Callable[[], T]) -> T:
    """The answer; ``UnavailableError`` if there is none, or the catalog refuses to give it."""
    for attempt in range(_TRIES):
        try:
            return question()
        except UNSURE as error:
            if attempt + 1 == _TRIES:
                raise UnavailableError(f"catalog {catalog!r} does not answer: {error}") from error
        except RESTError as error:
            raise refusal(catalog, error) from error
        time.sleep(_PAUSE_SECONDS * 2**attempt)
    raise AssertionError("unreachable")


def refusal(catalog: str, error: RESTError) -> UnavailableError:
    return UnavailableError(f"catalog {catalog!r} refuses: {error}")


def refresh(table: Table) -> None:
    asked(table.catalog.name, table.refresh)
