"""The options of a scan of several topics, for one of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from flaremq.pipeline.options import ScanOptions

# These speak of topics by name.
_BY_TOPIC: Final = (
    "assign",
    "starting_offsets",
    "ending_offsets",
    "starting_offsets_by_timestamp",
    "ending_offsets_by_timestamp",
)


def for_topic(options: ScanOptions, topic: str) -> ScanOptions:
    """What they say of this topic."""
    said: dict[str, Any] = {name: _of_topic(getattr(options, name), topic) for name in _BY_TOPIC}
    return replace(options, topic="" if options.assign else topic, subscribe_pattern="", **said)


def _of_topic(text: str, topic: str) -> str:
    """Nothing, if others only are spoken of. ``latest`` and kin stay."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if not isinstance(value, dict):
        return text
    return json.dumps({topic: value[topic]}) if topic in value else ""
