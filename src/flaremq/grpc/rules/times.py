"""Points in time and durations of protobuf as milliseconds. Any pair of numbers may come, so none of it is trusted."""

from __future__ import annotations

from typing import Any, Final

from flaremq.grpc.messages import classes

_FAR_MS: Final = 2**62  # beyond what anybody means, within what a record can hold


def to_ms(value: Any) -> int:
    """Milliseconds of a Timestamp or a Duration, within 62 bits."""
    milliseconds: int = value.seconds * 1000 + value.nanos // 1_000_000
    return max(-_FAR_MS, min(milliseconds, _FAR_MS))


def timestamp(milliseconds: int) -> Any:
    seconds, rest = divmod(milliseconds, 1000)
    return classes.Timestamp(seconds=seconds, nanos=rest * 1_000_000)


def duration(milliseconds: int) -> Any:
    seconds, rest = divmod(milliseconds, 1000)
    return classes.Duration(seconds=seconds, nanos=rest * 1_000_000)
