"""Attempts: who tries in vain. Counted by address, said once a minute, and slowed down beyond this machine.

A late answer slows only who waits for it; who guesses does not, for the right guess is answered at once. So after some
wrong guesses of an account's secret no further one from there is looked at for a while, right or wrong, unless it comes
over a connection that has proven that account before. Other accounts of the address go on: behind one address there may
be many machines.

Who has many addresses does not fill the log either: past a hundred lines in a minute the others are said as a number.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from flaremq.access.addresses import is_loopback, neighbourhood

_log = logging.getLogger(__name__)
_ADDRESSES_MAX: Final = 10_000
_LINE_SECONDS: Final = 60.0
_LINES_MAX: Final = 100  # in that time, of all addresses
_BURST_SECONDS: Final = 10.0
_BURST: Final = 10  # failures in that time after which a connection is closed
_FREE: Final = 3  # failures that cost nothing: a mistyped secret
_DELAY_MAX: Final = 5.0
_NAMES: Final = 64  # of accounts are told apart at one address: who makes names up has no more guesses by that


@dataclass(slots=True)
class _Failures:
    count: int = 0  # since the last line about them
    recent: list[float] = field(default_factory=list)
    next_line: float = 0.0


class Attempts:
    """Failed proofs of identity by address. Event loop only."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._by_address: OrderedDict[str, _Failures] = OrderedDict()
        self._guesses: OrderedDict[tuple[str, int], list[float]] = OrderedDict()  # when the last ones were made
        self.total = 0
        self._lines = self._unsaid = 0  # since the minute began
        self._minute_ends = 0.0

    def failed(self, address: str, reason: str) -> float:
        """Note a failure; the seconds its answer should wait, negative: the connection should be closed."""
        now = self._monotonic()
        self.total += 1
        is_here, address = is_loopback(address), neighbourhood(address)
        failures = self._by_address.get(address)
        if failures is None:
            if len(self._by_address) >= _ADDRESSES_MAX:
                self._by_address.popitem(last=False)
            failures = self._by_address[address] = _Failures()
        self._by_address.move_to_end(address)
        failures.count += 1
        if now >= failures.next_line:
            self._say(address, failures.count, reason, now)
            failures.count, failures.next_line = 0, now + _LINE_SECONDS
        if is_here:
            return 0.0
        failures.recent = _last(failures.recent, now)[-_BURST:]
        failures.recent.append(now)
        number = len(failures.recent)
        if number > _BURST:
            return -1.0
        return 0.0 if number <= _FREE else min(_DELAY_MAX, 0.1 * 2 ** (number - _FREE))

    def guessed(self, address: str, name: str) -> None:
        """Note a wrong guess of an account's secret."""
        if is_loopback(address):
            return
        now, key = self._monotonic(), _guess(address, name)
        if key not in self._guesses and len(self._guesses) >= _ADDRESSES_MAX:
            self._guesses.popitem(last=False)
        self._guesses[key] = [*_last(self._guesses.get(key, ()), now)[1 - _BURST :], now]
        self._guesses.move_to_end(key)

    def guesses_too_often(self, address: str, name: str) -> bool:
        """Whether another guess of that secret, from there, is not to be looked at."""
        guesses = self._guesses.get(_guess(address, name)) if self._guesses else None
        return guesses is not None and len(_last(guesses, self._monotonic())) >= _BURST

    def _say(self, address: str, count: int, reason: str, now: float) -> None:
        if now >= self._minute_ends:
            if self._unsaid:
                _log.warning("%d other requests were refused meanwhile, from too many addresses", self._unsaid)
            self._lines = self._unsaid = 0
            self._minute_ends = now + _LINE_SECONDS
        if self._lines < _LINES_MAX:
            self._lines += 1
            _log.warning("%d requests from %s were refused, the last one: %s", count, address, reason)
        else:
            self._unsaid += count

    @property
    def addresses(self) -> int:
        return len(self._by_address)


def _guess(address: str, name: str) -> tuple[str, int]:
    return neighbourhood(address), hash(name) % _NAMES


def _last(times: Iterable[float], now: float) -> list[float]:
    return [at for at in times if now - at < _BURST_SECONDS]
