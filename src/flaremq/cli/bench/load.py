"""What benchmarks are asked, and a store to measure: made in a folder of its own, filled, removed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flaremq import Message, MessageStore, StoreOptions

F = TypeVar("F", bound=Callable[..., Any])
TOPIC = "bench"
COUNT = click.IntRange(min=1)
_FILL_BATCH = 64

path_option = click.option(
    "--path", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Where to write."
)


def messages_option(default: int) -> Callable[[F], F]:
    return click.option("--messages", type=COUNT, default=default, show_default=True, help="How many messages.")


def body_size_option(least: int = 0) -> Callable[[F], F]:
    size = click.IntRange(min=least)
    return click.option("--body-size", type=size, default=1024, show_default=True, help="Bytes a body.")


@contextmanager
def bench_folder(path: str | None) -> Iterator[str]:
    """A new folder below ``path``, removed at the end."""
    folder = tempfile.mkdtemp(prefix="flaremq-bench-", dir=path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Load:
    """What every benchmark is asked: how much, of what size, where, with which options."""

    messages: int
    body_size: int
    path: str | None
    properties: dict[str, str]

    @property
    def settings(self) -> dict[str, Any]:
        """For the report."""
        return {"bodySize": self.body_size, "options": self.properties}

    def options(self, flush: str) -> StoreOptions:
        from flaremq import StoreOptions

        return StoreOptions.from_properties({"flushDiskType": flush, **self.properties})

    @contextmanager
    def store(self, flush: str) -> Iterator[MessageStore]:
        from flaremq import MessageStore

        with bench_folder(self.path) as folder, MessageStore.open(folder, self.options(flush)) as store:
            yield store

    def make(self, first: int, count: int, prefix: str = "") -> list[Message]:
        """Messages with one unique key each; they share one body."""
        from flaremq import Message

        body = (bytes(range(256)) * (self.body_size // 256 + 1))[: self.body_size]
        numbers = range(first, first + count)
        return [Message(TOPIC, body, tags="tag", keys=f"{prefix}key-{number}") for number in numbers]

    def fill(self, store: MessageStore) -> None:
        """Store all messages in queue 0 and wait until they can be read."""
        for first in range(0, self.messages, _FILL_BATCH):
            store.put_batch(self.make(first, min(_FILL_BATCH, self.messages - first)), 0)
        store.flush()
        store.wait_for_dispatch()
