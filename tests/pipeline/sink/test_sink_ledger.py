"""The broker's side of the sink: who may write a stream, and what of it is stored twice (nothing)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.broker.streams.ledger import STAMP, SinkLedger, Stamp
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.message.batch import encode_batch_item
from flaremq.message.write_stream import chain_text, link, stem_of, unique_key
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.testing import EphemeralBroker, ephemeral_broker

STREAM, STEM = stem_of("stream"), stem_of("batch")
OLD, NEW = "0" * 16, "1" * 16


class Wire:
    """Raw requests to a broker."""

    def __init__(self, broker: EphemeralBroker) -> None:
        self._broker = broker
        self._client = ClientInstance(broker.name_server, ProducerOptions())

    async def __aenter__(self) -> Wire:
        await self._client.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.stop()

    async def ask(self, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
        connection = await self._client.transport.connect(self._broker.address)
        return await connection.request(RemotingCommand.request(code, ext, body), 10)

    async def open(self, token: str, **more: str) -> RemotingCommand:
        ext = {"topic": "T", "stream": STREAM, "stem": STEM, "token": token} | more
        return await self.ask(RequestCode.OPEN_WRITE_STREAM, ext)

    async def send(self, token: str, first: int, count: int, *, stamp: str | None = None) -> RemotingCommand:
        ext = {
            "a": "g",
            "b": "T",
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1",
            "h": "0",
            "i": "",
            "m": "true",
        }
        ext[STAMP] = stamp or f"{STREAM}:{token}:{first}:{count}"
        return await self.ask(RequestCode.SEND_BATCH_MESSAGE, ext, b"".join(map(item, range(first, first + count))))


def item(number: int) -> bytes:
    chain = 0
    for passed in range(number + 1):
        chain = link(chain, passed)
    properties = f"UNIQ_KEY\x01{unique_key(STEM, number)}\x02FMQ_CHAIN\x01{chain_text(chain)}\x02"
    return encode_batch_item(0, b"row %d" % number, properties.encode())


def ext_of(reply: RemotingCommand) -> dict[str, Any]:
    return dict(reply.ext or {})


def bodies(broker: EphemeralBroker) -> list[bytes]:
    store = broker.broker.store_loop.store
    broker.broker.store_loop.dispatching.catch_up()
    found: list[bytes] = []
    while messages := store.get("T", 0, len(found), 32).messages:
        found += [bytes(message.body) for message in messages]
    return found


def rows(count: int) -> list[bytes]:
    return [b"row %d" % number for number in range(count)]


def test_a_send_that_comes_again_is_acknowledged_and_not_stored_again() -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker, Wire(broker) as wire:
            opened = await wire.open(OLD)
            assert (opened.code, ext_of(opened)["count"]) == (0, "0")
            assert (await wire.send(OLD, 0, 5)).code == ResponseCode.SUCCESS
            assert (await wire.send(OLD, 0, 5)).code == ResponseCode.SUCCESS
            assert (await wire.send(OLD, 3, 5)).code == ResponseCode.SUCCESS  # two of them are stored already
            assert bodies(broker) == rows(8)
            again = await wire.open(OLD)
            assert ext_of(again)["count"] == "8"

    asyncio.run(story())


def test_many_sends_at_once_are_stored_in_order() -> None:
    async def story() -> None:
        async with ephemeral_broker(flushDiskType="SYNC_FLUSH") as broker, Wire(broker) as wire:
            await wire.open(OLD)
            replies = await asyncio.gather(*(wire.send(OLD, 4 * at, 4) for at in range(30)))
            assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
            assert bodies(broker) == rows(120)

    asyncio.run(story())


def test_a_gap_an_old_writer_and_an_unopened_stream_are_refused() -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker, Wire(broker) as wire:
            closed = await wire.send(OLD, 0, 1)
            assert (closed.code, ext_of(closed)["sinkState"]) == (ResponseCode.ILLEGAL_OPERATION, "closed")
            await wire.open(OLD)
            await wire.send(OLD, 0, 2)
            gap = await wire.send(OLD, 3, 2)
            assert ext_of(gap)["sinkState"] == "gap" and "expects message 2" in str(gap.remark)
            assert ext_of(await wire.open(NEW))["count"] == "2"
            assert ext_of(await wire.send(OLD, 2, 1))["sinkState"] == "fenced"
            assert (await wire.send(NEW, 2, 1)).code == ResponseCode.SUCCESS
            assert bodies(broker) == rows(3)

    asyncio.run(story())


def test_rows_on_another_broker_count_where_the_rest_goes() -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker, Wire(broker) as wire:
            await wire.open(OLD, atLeast="7")
            assert (await wire.send(OLD, 7, 1)).code == ResponseCode.SUCCESS
            assert bodies(broker) == [b"row 7"]

    asyncio.run(story())


@pytest.mark.parametrize("stamp", ["", "x", f"{STREAM}:{OLD}:0", f"{STREAM}:{OLD}:-1:1", f"{STREAM}:{OLD}:0:1:2"])
def test_a_malformed_stamp_is_refused(stamp: str) -> None:
    with pytest.raises(RequestError, match="not understood"):
        Stamp.parse(stamp)


@pytest.mark.parametrize("field", ["stream", "stem", "token", "topic"])
def test_a_malformed_opening_is_refused(field: str) -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker, Wire(broker) as wire:
            ext = {"topic": "T", "stream": STREAM, "stem": STEM, "token": OLD}
            del ext[field]
            assert (await wire.ask(RequestCode.OPEN_WRITE_STREAM, ext)).code != ResponseCode.SUCCESS
            reply = await wire.ask(RequestCode.OPEN_WRITE_STREAM, ext | {field: "short"})
            assert (reply.code == ResponseCode.SUCCESS) == (field == "topic")

    asyncio.run(story())


def test_a_batch_of_fewer_messages_than_its_stamp_says_is_refused_when_part_of_it_is_stored() -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker, Wire(broker) as wire:
            await wire.open(OLD)
            await wire.send(OLD, 0, 3)
            reply = await wire.send(OLD, 1, 2, stamp=f"{STREAM}:{OLD}:1:9")
            assert reply.code == ResponseCode.INVALID_PARAMETER
            assert bodies(broker) == rows(3)

    asyncio.run(story())


def test_streams_that_were_not_used_for_long_must_be_opened_again() -> None:
    async def story() -> None:
        async with ephemeral_broker() as broker:
            ledger = SinkLedger(broker.broker.store_loop, streams_max=2)
            await ledger.open("T", STREAM, OLD, STEM, is_delayed=False)
            stamp = Stamp(STREAM, OLD, 0, 1)
            entry = ledger.find("T", stamp)
            for other in ("A" * 16, "B" * 16):
                await ledger.open("T", other, OLD, STEM, is_delayed=False)
            assert len(ledger) == 2
            with pytest.raises(RequestError, match="not open"):
                entry.stored_of(stamp)
            with pytest.raises(RequestError, match="not open"):
                ledger.find("T", stamp)

    asyncio.run(story())


def test_without_an_index_no_stream_can_be_opened() -> None:
    async def story() -> None:
        async with ephemeral_broker(messageIndexEnable=False) as broker, Wire(broker) as wire:
            reply = await wire.open(OLD)
            assert reply.code == ResponseCode.NO_PERMISSION and "messageIndexEnable" in str(reply.remark)

    asyncio.run(story())
