"""Recall handles: what the sender of a timed message may show to take it back. Brokers make and read them."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Final

from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.status import Refused

_CHARACTERS_MAX: Final = 4096


def broker_of(handle: str) -> str:
    """The broker that made a handle."""
    try:
        words = urlsafe_b64decode(handle[:_CHARACTERS_MAX]).decode().split(" ")
    except ValueError:
        words = []
    if len(words) != 5 or words[0] != "v1" or not words[2]:
        raise Refused(Code.INTERNAL_SERVER_ERROR, "the recall handle cannot be read")
    return words[2]
