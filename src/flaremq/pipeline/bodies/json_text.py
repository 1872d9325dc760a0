"""A body of JSON read leniently, for one that a strict reader refuses, or whose numbers need their text.

Like ``from_json`` this reads the first value and leaves what follows it alone, takes ' for quotes, ``NaN`` and
``Infinity`` for numbers, and half a surrogate pair for a question mark.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from flaremq.pipeline.bodies.json_values import NumberText

_DECODER: Final = json.JSONDecoder(parse_float=NumberText)
_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_HALF_PAIR: Final = re.compile(rf"{_PAIR}|({_HALF})|\\.", re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)


def first_value(text: str) -> Any:
    """The first value of a text; ValueError if there is none."""
    if "'" in text:
        try:
            return _value(text)
        except ValueError:
            text = _QUOTED.sub(_requoted, text)
    return _value(text)


def _value(text: str) -> Any:
    if "\\u" in text:
        text = _HALF_PAIR.sub(lambda match: "?" if match.group(1) else match.group(), text)
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def _requoted(match: re.Match[str]) -> str:
    inside = match.group(1)
    if inside is None:
        return match.group()
    return '"' + inside.replace('"', '\\"').replace("\\'", "'") + '"'
