"""Errors of ours within what Spark says: found wherever Spark put them, as the class they were."""

from __future__ import annotations

import pytest

from flaremq.errors import (
    CorruptionError,
    FlareMQError,
    InvalidArgumentError,
    NotFoundError,
    StoreIOError,
    UnavailableReplyError,
)
from flaremq.pipeline.jobs.tasks import error_in_text, translated_errors

STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_ERROR]
Failed when Python streaming data source perform initialOffset: Traceback (most recent call last):
  File "stream_reader.py", line 270, in initialOffset
    raise self._error
flaremq.errors.InvalidArgumentError: keys is for batches
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Logical Plan:
WriteToMicroBatchDataSource noop-table
"""


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (STREAM, InvalidArgumentError, "keys is for batches"),
        ("x: flaremq.errors.CorruptionError: bad in /a at 5 SQLSTATE: 38000", CorruptionError, "bad in /a at 5"),
        ("flaremq.errors.StoreIOError: read failed on /a: EIO", StoreIOError, "read failed on /a: EIO"),
        (
            "flaremq.client.errors.UnavailableReplyError: pull failed: h:1 answered SYSTEM_BUSY (2)",
            UnavailableReplyError,
            "pull failed: h:1 answered SYSTEM_BUSY (2)",
        ),
        (
            "flaremq.errors.NotFoundError: first\n\nDuring handling:\nflaremq.errors.FlareMQError: last",
            FlareMQError,
            "last",
        ),
    ],
)
def test_an_error_of_ours_is_found_as_itself(text: str, kind: type[FlareMQError], sentence: str) -> None:
    found = error_in_text(text)
    assert (type(found), str(found)) == (kind, sentence)


@pytest.mark.parametrize(
    "text", ["", "ValueError: x", "flaremq.errors.NoSuchError: x", "flaremq.nowhere.OddError: x", "flaremq.errors: x"]
)
def test_what_is_not_ours_is_left_alone(text: str) -> None:
    assert error_in_text(text) is None
    with pytest.raises(RuntimeError), translated_errors():
        raise RuntimeError(text)


def test_an_error_of_ours_passes_as_it_is() -> None:
    error = NotFoundError("flaremq.errors.CorruptionError: quoted")
    with pytest.raises(NotFoundError) as told, translated_errors():
        raise error
    assert told.value is error
