"""What comes with the messages of a put: the fields that all of them share, the properties of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flaremq.message.message import Message


class PutFields(NamedTuple):
    """What a put says about all its messages."""

    queue_id: int
    sys_flag: int = 0
    born_timestamp: int | None = None  # None: now
    born_host: str | bytes | None = None  # None: this store's
    reconsume_times: int = 0
    prepared_offset: int = 0


def encode_columns(keys: Sequence[str | None] | None, tags: Sequence[str | None] | None, count: int) -> list[bytes]:
    """Stored properties of messages that have at most keys and a tag."""
    return [
        Message("", b"", keys=key, tags=tag).encoded_properties()
        for key, tag in zip(keys or [None] * count, tags or [None] * count, strict=True)
    ]
