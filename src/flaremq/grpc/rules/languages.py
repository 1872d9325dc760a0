"""Languages of clients: as they name themselves, and as RocketMQ's tools show them."""

from __future__ import annotations

from typing import Final

from flaremq.protocol.codes import LANGUAGES

_OTHER_NAMES: Final = {"GOLANG": "GO", "DOT_NET": "DOTNET", "C++": "CPP", "C#": "DOTNET", "HTTP": "NODE_JS"}


def language_of(text: str) -> str:
    """The language a client tells in its metadata; OTHER for one that nobody has heard of.

    The Node client calls itself HTTP, and nobody else does.
    """
    name = text.upper()
    name = _OTHER_NAMES.get(name, name)
    return name if name in LANGUAGES else "OTHER"
