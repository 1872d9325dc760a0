"""Points in time as people write them, and as the tools show them."""

from __future__ import annotations

import re
from datetime import datetime

import click

from flaremq.times import UNITS_MS, parse_moment

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)")
EARLIEST_MS = 0
LATEST_MS = -1


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, ``-1`` for ``latest``. ``ValueError`` if it cannot be read.

    ``earliest``, ``latest``, milliseconds since 1970, ``10m`` (so long ago), or an ISO date and time, which is local
    unless it names a zone.
    """
    text = text.strip()
    if text in ("latest", "now"):
        return LATEST_MS
    if text == "earliest":
        return EARLIEST_MS
    return parse_moment(text, now_ms)


def parse_mqadmin_time(text: str, now_ms: int) -> int:
    """``now``, milliseconds, or ``2026-11-16#09:30:00:000`` in local time. ``ValueError`` if none of them."""
    text = text.strip()
    if text == "now":
        return now_ms
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    seconds, _, milliseconds = text.rpartition(":")
    return int(datetime.strptime(seconds, "%Y-%m-%d#%H:%M:%S").timestamp()) * 1000 + int(milliseconds)


def local_text(milliseconds: int | None) -> str | None:
    """``2026-11-16 09:30:00`` in local time; None for no time."""
    if milliseconds is None or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")


def exact_text(milliseconds: int) -> str:
    """``2026-11-16 09:30:00,123`` in local time."""
    when = datetime.fromtimestamp(milliseconds // 1000)
    return f"{when:%Y-%m-%d %H:%M:%S},{milliseconds % 1000:03d}"


def compact_text(milliseconds: int) -> str:
    """``20261116093000123`` in local time."""
    when = datetime.fromtimestamp(milliseconds // 1000)
    return f"{when:%Y%m%d%H%M%S}{milliseconds % 1000:03d}"


def time_value(_: click.Context, __: click.Parameter, value: str | int | None) -> int | None:
    """Callback of an option that takes a point in time."""
    if value is None or isinstance(value, int):
        return value
    import time

    try:
        return parse_time(value, int(time.time() * 1000))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no time: give earliest, latest, 10m (ago), 2026-11-16T09:30 or milliseconds since 1970"
        ) from None


def moment_value(context: click.Context, parameter: click.Parameter, value: str | int | None) -> int | None:
    """The same where ``latest`` is a time like any other: now."""
    found = time_value(context, parameter, value)
    if found != LATEST_MS or isinstance(value, int):
        return found
    import time

    return int(time.time() * 1000)


def duration_value(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Callback of an option that takes a length of time: ``1.5s``, ``10m``. In seconds."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no duration: give a number and its unit, as in 500ms, 10s, 5m, 2h")
    return float(match[1]) * UNITS_MS[match[2]] / 1000
