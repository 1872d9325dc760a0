"""Recorded conversations with real name servers, and a name server without a network to repeat them to."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from flaremq.clock import ManualClock
from flaremq.errors import FlareMQError
from flaremq.java_json import parse_java_json
from flaremq.namesrv.kv_config import KVConfig
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.requests.broker import BrokerHandlers
from flaremq.namesrv.requests.config import ConfigHandlers
from flaremq.namesrv.requests.route import RouteHandlers
from flaremq.namesrv.route_info import RouteInfo
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, error_response
from tests.support.golden_frames import FRAMES, decode_one, raw_cases

# The last steps of a recording, whatever the order of connections says; the one of ha-55 is left over from before.
LAST_STEPS = ("broker-stop-unregister", "master-stop", "end")


@dataclass(frozen=True)
class Event:
    """A frame, or the end of a connection (``command`` is None)."""

    step: str
    connection: str
    from_client: bool
    command: RemotingCommand | None


@cache
def events(recording: str) -> tuple[Event, ...]:
    """All that happened at the name server, in order, the frames sent by hand before the broker stops."""
    with gzip.open(FRAMES / f"{recording}.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    result: list[Event] = []
    for step in _steps_in_order(rows):
        if step == "broker-stop-unregister":
            result += _sent_by_hand(recording)
        for row in rows:
            if row["step"] == step and row["to"] == "namesrv" and (recording, step) != ("ha-55", "end"):
                command = decode_one(bytes.fromhex(row["hex"])) if "hex" in row else None
                result.append(Event(step, str(row["conn"]), row["dir"] == ">", command))
    return tuple(result)


def _steps_in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Steps were recorded one after the other but are stored by name. Connections are numbered as they were opened,
    and each numbers its requests: that gives the order back."""
    requests: dict[int, dict[str, int]] = {}  # by connection: the lowest request number of each step
    before: dict[str, set[str]] = {row["step"]: set() for row in rows}
    for row in rows:
        head = row.get("head")
        if head is not None and row["dir"] == ">" and not head["flag"] & 1:
            numbers = requests.setdefault(int(str(row["conn"]).lstrip("c")), {})
            numbers[row["step"]] = min(head["opaque"], numbers.get(row["step"], head["opaque"]))
    previous = None
    for _, numbers in sorted(requests.items()):
        ordered = [step for step in sorted(numbers, key=numbers.__getitem__) if step not in LAST_STEPS]
        for earlier, later in pairwise(ordered):
            before[later].add(earlier)
        if ordered and previous is not None and ordered[0] != previous:
            before[ordered[0]].add(previous)
        previous = ordered[0] if ordered else previous
    middle = [step for step in TopologicalSorter(before).static_order() if step not in LAST_STEPS]
    return [*middle, *(step for step in LAST_STEPS if step in before)]


def _sent_by_hand(recording: str) -> Iterator[Event]:
    for case in raw_cases():
        if (case.recording, case.to) == (recording, "namesrv"):
            for data, from_client in ((case.sent, True), (case.got, False)):
                if data:
                    yield Event(f"raw-{case.name}", f"raw-{case.name}", from_client, decode_one(data))


class FakeConnection:
    """As much of a connection as the handlers see."""

    def __init__(self, name: str = "fake") -> None:
        self.name = self.peer = name
        self.on_close: list[Callable[[Connection], None]] = []
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            for callback in self.on_close:
                callback(cast(Connection, self))


class SilentNamesrv:
    """All handlers of a name server; requests go in and replies come out, with no network and a manual clock."""

    def __init__(self, folder: Path, options: NamesrvOptions | None = None) -> None:
        self.options = options or NamesrvOptions()
        self.clock = ManualClock()
        self.routes = RouteInfo()
        self.table = HandlerTable()
        kv_config = KVConfig.load(str(folder / "kvConfig.json"))
        BrokerHandlers(self.routes, kv_config, self.options, self.clock).register(self.table)
        RouteHandlers(self.routes, kv_config, self.options, self.clock).register(self.table)
        ConfigHandlers(kv_config, self.options).register(self.table)
        self.connections: dict[str, FakeConnection] = {}

    def connection(self, name: str) -> FakeConnection:
        return self.connections.setdefault(name, FakeConnection(name))

    def ask(self, request: RemotingCommand, connection: FakeConnection | None = None) -> RemotingCommand:
        """The reply, as a connection would send it."""
        entry = self.table.entries.get(request.code)
        if entry is None:
            return RemotingCommand.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        try:
            outcome = entry[0](cast(Connection, connection or self.connection("anybody")), request)
            if isinstance(outcome, Awaitable):
                outcome = asyncio.run(_result(outcome))
        except FlareMQError as error:  # anything else is a bug, and the test fails
            outcome = error_response(error, request)
        assert outcome is not None
        return outcome

    def expire(self) -> None:
        self.routes.expire(int(self.clock.monotonic() * 1000))


async def _result(outcome: Awaitable[RemotingCommand | None]) -> RemotingCommand | None:
    return await outcome


def meaning(body: bytes) -> Any:
    """A JSON body without what means nothing: the order of lists and keys, and defaults that 4.9 does not write."""
    return _plain(parse_java_json(body)) if body else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if (key, item) != ("enableActingMaster", False)}
    if isinstance(value, list):
        return sorted(map(_plain, value), key=repr)
    return value
