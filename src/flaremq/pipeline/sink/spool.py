"""Rows that wait on disk until it is known whether they may be sent."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, Generic, TypeVar

import pyarrow as pa

from flaremq.errors import StoreIOError
from flaremq.pipeline.sink.byte_column import Integers

_L = TypeVar("_L")


class Spool(Generic[_L]):
    """Arrow batches of one schema, each with the rows of it that each lane waits to send. Use inside ``with``."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._work: list[list[tuple[_L, Integers]]] = []

    def __enter__(self) -> Spool[_L]:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def add(self, batch: pa.RecordBatch, work: Sequence[tuple[_L, Integers]]) -> None:
        """Keep a batch if somebody waits to send rows of it."""
        kept = [(lane, places) for lane, places in work if len(places)]
        if not kept:
            return
        with _translated():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="flaremq-sink-")  # noqa: SIM115  # closed by __exit__
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            self._writer.write_batch(batch)
        self._work.append(kept)

    def drain(self) -> Iterator[tuple[pa.RecordBatch, list[tuple[_L, Integers]]]]:
        """Everything in the order it came; it is empty then."""
        work, self._work = self._work, []
        if self._file is None:
            return
        with _translated():
            self._writer.close()
            self._file.seek(0)
            batches = pa.ipc.open_stream(self._file)
        for kept in work:
            with _translated():
                batch = batches.read_next_batch()
            yield batch, kept
        self._close()

    def _close(self) -> None:
        file, self._file, self._writer = self._file, None, None
        if file is not None:
            file.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreIOError("spooling", tempfile.gettempdir(), error) from error
