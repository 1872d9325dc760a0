"""How much may be said about a topic or a group by attributes: they are kept, saved and sent again and again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

_log = logging.getLogger(__name__)

ATTRIBUTES_MAX: Final = 64
ATTRIBUTE_BYTES_MAX: Final = 4096  # names and values together


def check_attribute_limits(attributes: Mapping[str, str]) -> None:
    """RequestError (29) if that is too much."""
    excess = _excess(attributes)
    if excess is not None:
        raise RequestError(ResponseCode.INVALID_PARAMETER, excess)


def loaded_attributes(owner: str, attributes: dict[str, str]) -> dict[str, str]:
    """Attributes out of a file: none if they are too much, as an older broker or a hand may have left them."""
    excess = _excess(attributes)
    if excess is None:
        return attributes
    _log.warning("the attributes of %s are ignored: %s", owner, excess)
    return {}


def _excess(attributes: Mapping[str, str]) -> str | None:
    if len(attributes) > ATTRIBUTES_MAX:
        return f"{len(attributes)} attributes, at most {ATTRIBUTES_MAX} are kept"
    size = sum(len(text.encode("utf-8", "surrogatepass")) for pair in attributes.items() for text in pair)
    if size > ATTRIBUTE_BYTES_MAX:
        return f"attributes of {size} bytes, at most {ATTRIBUTE_BYTES_MAX} are kept"
    return None
