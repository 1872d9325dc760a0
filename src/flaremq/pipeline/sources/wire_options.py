"""Options of reading over the wire: those of any client, and how much is fetched ahead and for how long it is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError
from flaremq.options import find_unknown_names, rows_by_key, values_from_properties

_OWN: Final = {"consumerGroup": "", "fetchRetryMs": "30000", "fetchBytesInFlight": str(32 << 20)}
_BYTES_MIN: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class WireOptions:
    """``group`` is named in pulls, where it has to be; nothing is consumed for it."""

    client: ClientOptions
    group: str
    retry_seconds: float
    bytes_in_flight: int

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Self:
        """From camelCase names; an unknown one is refused."""
        for unknown in find_unknown_names(values, [*rows_by_key(ClientOptions), *_OWN]):
            raise InvalidArgumentError(str(unknown))
        own = {name: values.get(name, default) for name, default in _OWN.items()}
        client: dict[str, Any] = dict(values_from_properties(ClientOptions, values))
        return cls(
            ClientOptions(**client),
            own["consumerGroup"],
            _number("fetchRetryMs", own["fetchRetryMs"], minimum=0) / 1000,
            _number("fetchBytesInFlight", own["fetchBytesInFlight"], minimum=_BYTES_MIN),
        )


def _number(name: str, text: str, *, minimum: int) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or int(text) < minimum:
        raise InvalidArgumentError(f"{name} must be a whole number of at least {minimum}, not {text!r}")
    return int(text)
