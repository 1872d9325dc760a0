"""Values as a person reads them, and text that is safe to put into a page.

Names of topics, tags and keys come from whoever sent the messages: they are escaped, and characters that do not show or
turn the line around (controls, direction marks) are spelled out, so that no name can look like another or break a page.
"""

from __future__ import annotations

import html
from datetime import UTC, datetime

from flaremq.visible import visible

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def escaped(text: str) -> str:
    """For element content and quoted attributes."""
    return html.escape(visible(text), quote=True)


def shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def compact(value: float) -> str:
    """A count in few characters, for axes and headlines: 950, 12.3k, 4.56M."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.3g}{unit}" if scaled < 999.5 else f"{scaled:.0f}{unit}"
    return f"{value:.3g}" if value != int(value) else f"{int(value)}"


def byte_size(value: float | None) -> str:
    if value is None:
        return "–"
    unit = 0
    while value >= 1024 and unit < len(_BYTE_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.0f} {_BYTE_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.3g} {_BYTE_UNITS[unit]}"


def duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "–"
    for size, unit in _TIME_UNITS:
        if milliseconds >= size:
            return f"{_short(milliseconds / size)} {unit}"
    return f"{milliseconds:.3g} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def _short(value: float) -> str:
    """Three digits, and never an exponent."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def moment(timestamp_ms: int | None, *, seconds: bool = True) -> str:
    if timestamp_ms is None:
        return "–"
    try:
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"  # a record may claim any time
    return when.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def percent(ratio: float) -> str:
    return f"{ratio:.1%}" if ratio < 0.1 else f"{ratio:.0%}"
