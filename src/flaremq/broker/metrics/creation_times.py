"""CreationTimes: what it took to create or change topics and groups; measured around their handlers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from flaremq.broker.metrics import catalogue as told
from flaremq.metrics.histogram import Histogram
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand

if TYPE_CHECKING:
    from flaremq.metrics.samples import Samples
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import Handler, HandlerTable, Outcome

_TOPICS: Final = (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
_GROUPS: Final = (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,)


class CreationTimes:
    """Histograms by outcome. Event loop only."""

    def __init__(self, is_system: Callable[[str], bool]) -> None:
        self._is_system = is_system
        self._topics: dict[tuple[str, str], Histogram] = {}
        self._groups: dict[str, Histogram] = {}

    def measure(self, table: HandlerTable) -> None:
        """From now on measure the handlers of this table."""
        for code in _TOPICS:
            self._wrap(table, code, self._note_topic)
        for code in _GROUPS:
            self._wrap(table, code, self._note_group)

    def tell(self, samples: Samples) -> None:
        for key, histogram in self._topics.items():
            samples.add(told.TOPIC_CREATE_TIME, histogram, *key)
        for status, histogram in self._groups.items():
            samples.add(told.GROUP_CREATE_TIME, histogram, status)

    def _wrap(self, table: HandlerTable, code: int, note: Callable[[RemotingCommand, str, float], None]) -> None:
        if int(code) not in table.entries:
            return
        handler, lane = table.entries[int(code)]

        def measured(connection: Connection, request: RemotingCommand) -> Outcome:
            return _timed(handler, connection, request, note)

        table.entries[int(code)] = (measured, lane)

    def _note_topic(self, request: RemotingCommand, status: str, ms: float) -> None:
        is_system = "true" if self._is_system(str((request.ext or {}).get("topic", ""))) else "false"
        self._topics.setdefault((status, is_system), Histogram(told.CREATE_BOUNDS)).observe(ms)

    def _note_group(self, request: RemotingCommand, status: str, ms: float) -> None:
        self._groups.setdefault(status, Histogram(told.CREATE_BOUNDS)).observe(ms)


async def _timed(
    handler: Handler,
    connection: Connection,
    request: RemotingCommand,
    note: Callable[[RemotingCommand, str, float], None],
) -> RemotingCommand | None:
    began, status = monotonic(), "failure"
    try:
        outcome = handler(connection, request)
        response = await _finished(outcome)
        if response is not None and response.code == ResponseCode.SUCCESS:
            status = "success"
        return response
    finally:
        note(request, status, (monotonic() - began) * 1000)


async def _finished(outcome: Outcome) -> RemotingCommand | None:
    if inspect.isawaitable(outcome):
        awaited: Awaitable[RemotingCommand | None] = outcome
        return await awaited
    return outcome
