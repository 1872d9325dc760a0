"""Our controller gives the answers that a real one of 5.5.0 gave to two real brokers, over start, sync and failover."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

from flaremq.clock import ManualClock
from flaremq.controller.office import Office
from flaremq.controller.options import ControllerOptions
from flaremq.controller.outcomes import Notice
from flaremq.controller.requests.admin import AdminHandlers
from flaremq.controller.requests.broker import BrokerHandlers
from flaremq.controller.stores.file_store import FileStore
from flaremq.controller.stores.store import Peer
from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.controller import EpochEntryCache
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from tests.support.fake_connection import FakeConnection, ask

RECORDING = Path(__file__).parents[1] / "golden" / "ha" / "55-controller-requests.jsonl.gz"
ADDRESS = "127.0.0.1:19878"  # of the recorded controller


def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDING, "rt") as lines:
        return [json.loads(line) for line in lines]


class Replay:
    """A controller without a network, and the connections of the recording."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.notices: list[Notice] = []
        options = ControllerOptions(advertised_address=ADDRESS)
        self.store = FileStore(str(folder))
        self.office = Office(self.store, options, self.clock, self.notices.append)
        self.table = HandlerTable()
        BrokerHandlers(self.office, lambda: None).register(self.table)
        AdminHandlers(self.office, options).register(self.table)
        self.connections: dict[int, FakeConnection] = {}

    def connection(self, number: int) -> FakeConnection:
        return self.connections.setdefault(number, FakeConnection(f"127.0.0.1:{40000 + number}"))

    async def step(self, row: dict[str, Any], pending: dict[tuple[int, int], RemotingCommand]) -> int:
        """Handle one recorded frame; how many replies were compared."""
        self.clock.advance(max(0, int(row["t"] - self.clock.monotonic() * 1000)))
        head, number = row["head"], row["conn"]
        if row["request"] == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            return await self._killed(row)
        connection = self.connection(number)
        if row["dir"] == ">":
            request = RemotingCommand.request(head["code"], head["extFields"], row["body"].encode())
            pending[number, head["opaque"]] = await ask(self.table, connection, request)
            return 0
        if row["request"] == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA:  # the question was not recorded
            question = RemotingCommand.request(row["request"], None, b'["broker-a"]')
            ours = await ask(self.table, connection, question)
        else:
            ours = pending.pop((number, head["opaque"]))
        assert ours.code == head["code"], row
        assert dict(ours.ext or {}) == (head["extFields"] or {}), row
        if row["request"] == RequestCode.CONTROLLER_ELECT_MASTER:  # bare keys there, quoted ones here
            assert parse_java_json(ours.body_bytes) == parse_java_json(row["body"])
        else:
            assert ours.body_bytes.decode() == row["body"], row
        return 1

    async def _killed(self, row: dict[str, Any]) -> int:
        """Broker 1 was killed right before: its connection closes, and the other one is told."""
        self.connection(25).close()
        await self.office.replace_lost_masters()
        (notice,) = self.notices
        assert notice.header.encode() == row["head"]["extFields"]
        assert notice.body.to_json().decode() == row["body"]
        assert notice.addresses == ("127.0.0.1:20921",)
        return 1


def test_every_recorded_reply_is_ours_too(tmp_path: Path) -> None:
    async def main() -> int:
        replay = Replay(tmp_path)
        await replay.store.start(Peer("n0", ADDRESS), replay.office.lead, replay.office.follow)
        pending: dict[tuple[int, int], RemotingCommand] = {}
        rows = [row for row in recorded() if row["to"] == "controller" or row["request"] == 1008]
        compared = sum([await replay.step(row, pending) for row in rows])
        assert all(reply.code == 0 for reply in pending.values()), "heartbeats"
        await replay.store.stop()
        return compared

    assert asyncio.run(main()) == 35


def test_recorded_epochs_of_a_broker_are_read_and_written() -> None:
    (row,) = [row for row in recorded() if row["request"] == RequestCode.GET_BROKER_EPOCH_CACHE and row["dir"] == "<"]
    body = EpochEntryCache.from_json(row["body"].encode())
    assert [entry.start_offset for entry in body.epoch_list] == [0, 1144516]
    assert body.to_json().decode() == row["body"]
