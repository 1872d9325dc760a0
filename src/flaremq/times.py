"""Points in time as people write them: for command lines, options of a reader and arguments alike."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-?(\d{1,9})(ms|s|m|h|d)(?: ago)?")
_MILLISECONDS = re.compile(r"\d{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; ``ValueError`` if it cannot be read.

    ``now``, milliseconds since 1970, ``10m`` (so long ago), or an ISO date and time, which is local unless it names a
    zone.
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if ago := _AGO.fullmatch(text):
        return max(now_ms - int(ago[1]) * UNITS_MS[ago[2]], 0)
    return milliseconds_of(datetime.fromisoformat(text))


def milliseconds_of(when: date) -> int:
    """Milliseconds since 1970 of a date or a date and time; local unless it has a zone."""
    if not isinstance(when, datetime):
        when = datetime.combine(when, time())
    try:
        return (when.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from error
