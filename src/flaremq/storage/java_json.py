"""Reading the JSON of ``config/*.json``: strict JSON plus keys that are bare integers.

RocketMQ's writer leaves integer map keys unquoted (``{0:5,1:7}``), in every version. Nothing else of its
dialect departs from JSON, so the keys are quoted and the standard parser does the rest.
"""

from __future__ import annotations

import json
import re
from typing import Any

# A string is matched first and kept, so digits inside of one are never touched.
_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=[{,\s])(-?\d+)(?=\s*:)')


def parse_java_json(text: str) -> Any:
    """The value; raises ValueError if it is not this dialect either."""
    return json.loads(_STRING_OR_KEY.sub(_quote, text))


def _quote(match: re.Match[str]) -> str:
    return f'"{match.group(1)}"' if match.group(1) else match.group()
