"""Dates and times of bodies: texts that Spark's casts read, read the same, for single values and for whole columns."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from flaremq.errors import InvalidArgumentError

_EPOCH: Final = date(1970, 1, 1).toordinal()
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# As much of a date as there is: the year, the month, the day.
_DATE: Final = r"([+-]?\d{4,%d})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_TEXT: Final = re.compile(_DATE % 7 + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME_TEXT: Final = re.compile(
    _DATE % 6 + r"(?:[ T](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*(\D.*|[+-].*)?)?)?)?)?", re.ASCII
)
# The calendar repeats after so many years, with as many days: years that Python's own does not have.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_OFFSET_MAX: Final = timedelta(hours=18)
# What Arrow's own parser reads exactly as Spark does; a whole column of it is read at once.
_PLAIN_DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
_PLAIN_ZONED: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"


def zone_of(name: str) -> tzinfo:
    """The zone of times that name none."""
    zone = _zone(name)
    if zone is None:
        raise InvalidArgumentError(f"bodyTimeZone {name!r} is no time zone; write UTC, +02:00 or Europe/Paris")
    return zone


def days_of(text: str) -> int | None:
    """Days since 1970 of a date; None if the text is none."""
    match = _DATE_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    year, cycles = _usual_year(year)
    try:
        return date(year, month, day).toordinal() - _EPOCH + cycles * _CYCLE_DAYS
    except ValueError:
        return None


def microseconds_of(text: str, zone: tzinfo | None) -> int | None:
    """Microseconds since 1970 of a time; None if the text is none. Without ``zone`` it is a time of no zone, and must
    not name one."""
    match = _TIME_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (
        int(part or default) for part, default in zip(match.groups(), (1, 1, 1, 0, 0, 0), strict=False)
    )
    fraction, named = match.group(7) or "", match.group(8)
    year, cycles = _usual_year(year)
    try:
        local = datetime(year, month, day, hour, minute, second, int((fraction + "000000")[:6]))
    except ValueError:
        return None
    found = zone or UTC
    if named:
        other = None if zone is None else _zone(named.strip())
        if other is None:
            return None
        found = other
    return (local.replace(tzinfo=found) - _EPOCH_UTC + cycles * timedelta(_CYCLE_DAYS)) // _MICROSECOND


def _usual_year(year: int) -> tuple[int, int]:
    """A year of Python's calendar with the same days, and how many cycles before it the year is."""
    if 1 <= year <= 9999:
        return year, 0
    cycles = year // _CYCLE_YEARS - 5
    return year - cycles * _CYCLE_YEARS, cycles


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("Z", "UTC", "GMT", "UT"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > _OFFSET_MAX or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            return None
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def date_column(texts: pa.Array) -> pa.Array:
    """All of these texts as dates, null where a text is none."""
    if _all_match(texts, _PLAIN_DATE):
        try:
            return texts.cast(pa.date32())
        except pa.ArrowInvalid:
            pass  # the 30th of February
    days = [None if text is None else days_of(text) for text in texts.to_pylist()]
    return pa.array(days, pa.int32()).cast(pa.date32())


def time_column(texts: pa.Array, kind: pa.TimestampType, zone: tzinfo) -> pa.Array:
    """All of these texts as times, null where a text is none."""
    if kind.tz and _all_match(texts, _PLAIN_ZONED):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    own = zone if kind.tz else None
    times = [None if text is None else microseconds_of(text, own) for text in texts.to_pylist()]
    return pa.array(times, pa.int64()).cast(kind)


def _all_match(texts: pa.Array, pattern: str) -> bool:
    import pyarrow.compute as pc  # takes long, and few scans come here

    matches = pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py()
    return bool(matches)
