"""Compiled ingest against the plain way: the same frames give the same log bytes and the same replies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flaremq.broker.ingest import columns
from flaremq.broker.store_loop.durability import Durability, DurableCallback
from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.message.batch import encode_batch_item
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.remoting.connection import Connection
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.status import PutMessageStatus
from flaremq.testing import ephemeral_broker
from tests.support.ports import free_ports
from tests.support.wire import Wire, sends_compiled

_KEY = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD0000\x02"


def send(number: int, properties: str, body: bytes, kind: int, **changes: str) -> bytes:
    ext = {"a": "group", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000123", "h": "0"}
    ext |= {"i": properties, "j": "0", "k": "false", "m": "false", "n": "broker-a"} | changes
    flag = int(ext.pop("flag", "0"))
    return encode_frame(
        RemotingCommand(310, ext=ext, body=body, opaque=number, serialize_type=kind, language="JAVA", flag=flag)
    )


def send_batch(
    number: int, messages: list[tuple[int, bytes, bytes]], kind: int, code: int = 320, **changes: str
) -> bytes:
    ext = {"a": "group", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000123", "h": "0"}
    ext |= {"i": "WAIT\x01true\x02", "j": "0", "k": "false", "m": "true", "n": "broker-a"} | changes
    body = b"".join(encode_batch_item(*message) for message in messages)
    flag = int(ext.pop("flag", "0"))
    return encode_frame(
        RemotingCommand(code, ext=ext, body=body, opaque=number, serialize_type=kind, language="JAVA", flag=flag)
    )


async def run(
    path: Path, reads: list[bytes], *, compiled: bool, flush: str, port: int, region: str = "DefaultRegion"
) -> tuple[dict[int, Any], bytes, int]:
    """Replies by opaque, the log's bytes, and how many frames the kernels took."""
    clock = ManualClock()
    async with (
        sends_compiled(compiled),
        ephemeral_broker(clock=clock, path=str(path), flushDiskType=flush, listenPort=port, regionId=region) as lab,
    ):
        broker = lab.broker
        wire = Wire()
        connection = Connection(broker.handlers.table, RemotingOptions())
        connection.connection_made(wire)  # type: ignore[arg-type]
        connection.data_received(send(9999, _KEY, b"first", 0))  # makes the topic
        while b'"opaque":9999' not in wire.written:
            await asyncio.sleep(0.001)
        wire.written = b""
        taken = 0
        assert (broker.handlers.table.fast_path is not None) == compiled
        if compiled:
            take = broker.handlers.table.fast_path
            assert take is not None

            def counting(connection: Connection, data: bytes) -> int:
                nonlocal taken
                size = take(connection, data)
                taken += size
                return size

            broker.handlers.table.fast_path = counting
        for read in reads:
            connection.data_received(read)
            for _ in range(200):
                await asyncio.sleep(0)
        async with asyncio.timeout(20):
            while broker.store_loop.durability.unacknowledged or any(
                lane.running for lane in broker.handlers.table.lanes.values()
            ):
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        decoder = FrameDecoder()
        replies = {reply.opaque: reply for reply in decoder.receive(wire.written)}
        assert decoder.buffered == 0
        end = broker.store.max_physical_offset
    log = next((path / "commitlog").iterdir()).read_bytes()[:end]
    return (
        {number: (r.code, dict(r.ext or {}), r.serialize_type, r.version) for number, r in replies.items()},
        log,
        taken,
    )


def compare(tmp_path: Path, reads: list[bytes], flush: str = "ASYNC_FLUSH") -> tuple[dict[int, Any], int]:
    for attempt in range(5):
        port = free_ports()  # records carry it, so both need the same
        try:
            plain, plain_log, _ = asyncio.run(
                run(tmp_path / f"plain{attempt}", reads, compiled=False, flush=flush, port=port)
            )
            fast, fast_log, taken = asyncio.run(
                run(tmp_path / f"fast{attempt}", reads, compiled=True, flush=flush, port=port)
            )
            break
        except UnavailableError:  # somebody else took the port meanwhile
            if attempt == 4:
                raise
    assert _without_long_way(fast) == _without_long_way(plain)
    assert fast_log == plain_log
    return fast, taken


def _without_long_way(replies: dict[int, Any]) -> dict[int, Any]:
    return {
        number: (code, {key: value for key, value in ext.items() if key != "transactionId"}, kind, version)
        for number, (code, ext, kind, version) in replies.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("kind", [0, 1])
def test_plain_sends_are_taken_and_answered_alike(tmp_path: Path, kind: int, flush: str) -> None:
    frames = [
        send(
            number,
            f'KEYS\x01k{number}\x02{_KEY}WAIT\x01true\x02TAGS\x01a\\b"c/d',
            b"x" * number,
            kind,
            e=str(number % 4),
        )
        for number in range(1, 40)
    ]
    replies, taken = compare(tmp_path, [b"".join(frames[:20]), b"".join(frames[20:])], flush)
    assert len(replies) == 39 and {code for code, *_ in replies.values()} == {0}
    assert taken == sum(map(len, frames))


@pytest.mark.parametrize("kind", [0, 1])
def test_reads_that_end_inside_a_frame_do_not_switch_the_compiled_sends_off(tmp_path: Path, kind: int) -> None:
    frames = [send(number, _KEY, b"x" * 500, kind) for number in range(1, 41)]
    stream = b"".join(frames)
    reads = [stream[at : at + 5000] for at in range(0, len(stream), 5000)]
    assert not any(stream[:at].endswith(tuple(frames)) for at in range(5000, len(stream), 5000))
    replies, taken = compare(tmp_path, reads)
    assert len(replies) == len(frames)
    assert taken == len(stream)


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("kind", [0, 1])
def test_batches_are_taken_and_answered_alike(tmp_path: Path, kind: int, flush: str) -> None:
    frames = [
        send_batch(
            number,
            [(place, b"x" * (number + place), b"KEYS\x01k%d" % place) for place in range(number)],
            kind,
            code=320 if number % 3 else 310,
            e=str(number % 4),
            i="" if number % 2 else "WAIT\x01true\x02TAGS\x01t",
        )
        for number in range(1, 40)
    ]
    replies, taken = compare(tmp_path, [b"".join(frames[:20]), b"".join(frames[20:])], flush)
    assert {code for code, *_ in replies.values()} == {0}
    assert [ext["msgId"].count(",") for _, (_, ext, *_) in sorted(replies.items())] == list(range(39))
    assert taken == sum(map(len, frames))


@pytest.mark.parametrize("kind", [0, 1])
def test_batches_among_plain_sends_are_stored_in_their_order(tmp_path: Path, kind: int) -> None:
    batch = [(0, b"one", b""), (7, b"", b"TAGS\x01t\x02")]
    frames = [
        send(1, _KEY, b"x", kind),
        send_batch(2, batch, kind),
        send_batch(3, batch, kind, flag="2"),
        send(4, _KEY, b"y", kind),
        send_batch(5, batch, 1 - kind, e="2"),
    ]
    replies, taken = compare(tmp_path, [b"".join(frames)])
    assert [replies[number][1]["queueOffset"] for number in (1, 2, 4)] == ["1", "2", "6"] and 3 not in replies
    assert taken == sum(map(len, frames))


@pytest.mark.parametrize("kind", [0, 1])
def test_a_batch_with_a_key_of_its_own_as_java_sends_it_is_answered_with_it(tmp_path: Path, kind: int) -> None:
    batch = [(0, b"one", b""), (7, b"", b"TAGS\x01t\x02")]
    frames = [
        send_batch(number, batch, kind, i=text)
        for number, text in enumerate(["WAIT\x01true\x02" + _KEY, "UNIQ_KEY\x01last", "TAGS\x01t\x02"])
    ]
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        (tmp_path / flush).mkdir()
        replies, taken = compare(tmp_path / flush, [b"".join(frames)], flush)
        assert taken == sum(map(len, frames))
        ids = [replies[number][1].get("transactionId") for number in range(3)]
        assert ids == [_KEY[9:-1], "last", None]


@pytest.mark.parametrize("kind", [0, 1])
def test_a_batch_with_two_keys_is_answered_with_the_last_as_it_is_by_plain_code(tmp_path: Path, kind: int) -> None:
    frames = [
        send_batch(number, [(0, b"one", b"")], kind, i=text)
        for number, text in enumerate(
            ["UNIQ_KEY\x01first\x02UNIQ_KEY\x01last\x02", "UNIQ_KEY\x01" + 65 * "a" + "\x02" + _KEY]
        )
    ]
    for compiled in (False, True):
        path = tmp_path / str(compiled)
        replies, _, taken = asyncio.run(
            run(path, [b"".join(frames)], compiled=compiled, flush="ASYNC_FLUSH", port=free_ports())
        )
        assert [replies[number][1].get("transactionId") for number in range(2)] == ["last", _KEY[9:-1]]
        assert taken == (sum(map(len, frames)) if compiled else 0)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("status", [PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.SLAVE_NOT_AVAILABLE])
def test_what_is_stored_but_not_as_safe_as_asked_is_answered_alike(
    tmp_path: Path, kind: int, status: PutMessageStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_badly(_: Durability, end: int, callback: DurableCallback, count: int = 1) -> None:
        asyncio.get_running_loop().call_soon(callback, status)

    monkeypatch.setattr(Durability, "when_durable", end_badly)
    batch = [(0, b"one", b""), (7, b"", b"TAGS\x01t\x02")]
    frames = [
        send_batch(0, batch, kind, flag="2"),
        send_batch(1, batch, kind, i=_KEY),
        send_batch(2, batch, kind),
        send_batch(3, batch, 1 - kind, i="UNIQ_KEY\x01last"),
        send(4, _KEY, b"x", kind),
    ]
    found = []
    port = free_ports()
    for compiled in (False, True):
        path = tmp_path / str(compiled)
        replies, _, taken = asyncio.run(run(path, [b"".join(frames)], compiled=compiled, flush="SYNC_FLUSH", port=port))
        found.append(replies)
        assert taken == (sum(map(len, frames)) if compiled else 0)
    assert found[0] == found[1]
    assert [found[1][number][1].get("transactionId") for number in (1, 2, 3, 4)] == [_KEY[9:-1], None, "last", None]
    assert 0 not in found[1] and all(code for code, *_ in found[1].values())


@pytest.mark.parametrize("kind", [0, 1])
def test_a_run_of_as_many_batches_and_messages_as_there_can_be_is_answered(tmp_path: Path, kind: int) -> None:
    messages = [(0, b"", b"")] * (columns.RUN_MESSAGES_MAX // 512)
    frames = [send_batch(number, messages, kind, i=_KEY) for number in range(1, 513)]
    replies, _, taken = asyncio.run(
        run(tmp_path, [b"".join(frames)], compiled=True, flush="ASYNC_FLUSH", port=free_ports(), region=127 * '"')
    )
    assert [replies[number][0] for number in range(1, 513)] == [0] * 512
    assert taken == sum(map(len, frames))


@pytest.mark.parametrize("kind", [0, 1])
def test_more_messages_in_batches_than_one_run_takes_are_several_runs(tmp_path: Path, kind: int) -> None:
    sizes = [3000, 3000, columns.RUN_MESSAGES_MAX, columns.RUN_MESSAGES_MAX + 1, 2]
    frames = [send_batch(number, [(0, b"", b"")] * size, kind) for number, size in enumerate(sizes, start=1)]
    replies, taken = compare(tmp_path, [b"".join(frames)])
    assert [replies[number][1]["msgId"].count(",") + 1 for number in range(1, 6)] == sizes
    assert taken == sum(map(len, frames[:3]))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (b"", {}),
        (encode_batch_item(0, b"x", b"")[:-1], {}),
        (encode_batch_item(0, b"x", b"A\x01\0\x02"), {}),
        (encode_batch_item(0, b"x", b"__CRC32#\x010123456789"), {}),
        (encode_batch_item(0, b"x", b""), {"i": "DELAY\x011\x02"}),
        (encode_batch_item(0, b"x", b""), {"i": 'UNIQ_KEY\x01a"b\x02'}),
        (encode_batch_item(0, b"x", b""), {"i": "UNIQ_KEY\x01" + 65 * "a"}),
        (encode_batch_item(0, b"x", b""), {"i": "__SHARDINGKEY\x01k\x02"}),
        (encode_batch_item(0, b"x", b""), {"e": "4"}),
    ],
)
def test_batches_that_need_a_decision_are_left_to_plain_code(
    tmp_path: Path, body: bytes, changes: dict[str, str], kind: int
) -> None:
    good = [(0, b"good", b"")]
    head = send_batch(2, [], kind, **changes)[4:]
    odd = (len(head) + len(body)).to_bytes(4, "big") + head + body
    frames = [send_batch(1, good, kind), odd, send_batch(3, good, kind)]
    replies, taken = compare(tmp_path, [b"".join(frames)])
    assert {1, 2, 3} == set(replies) and taken in (0, len(frames[0]))


def test_oneway_sends_are_stored_and_not_answered(tmp_path: Path) -> None:
    frames = [send(number, _KEY, b"x", number % 2, flag="2") for number in range(6)]
    replies, taken = compare(tmp_path, [b"".join(frames)])
    assert replies == {} and taken == sum(map(len, frames))


@pytest.mark.parametrize(
    "properties",
    [
        _KEY + "DELAY\x011\x02",
        _KEY + "TRAN_MSG\x01true\x02",
        _KEY + "CLUSTER\x01x\x02",
        _KEY + "MSG_REGION\x01x\x02",
        _KEY + "TRACE_ON\x01false\x02",
        _KEY + "POP_CK\x01x\x02",
        _KEY + "WAIT\x01false\x02",
        _KEY + "TIMER_DELAY_MS\x01100000\x02",
        _KEY + "INNER_NUM\x011\x02",
        _KEY + "__CRC32#\x010123456789",
        _KEY + "\u540d\x01\u503c\x02",
        _KEY + "broken",
        _KEY + "\x01\x02",
    ],
)
@pytest.mark.parametrize("kind", [0, 1])
def test_what_is_not_plain_is_left_to_plain_code(tmp_path: Path, properties: str, kind: int) -> None:
    odd = send(5, properties, b"odd", kind)
    frames = [send(1, _KEY, b"one", kind), odd, send(2, _KEY, b"two", kind), send(3, _KEY, b"three", kind)]
    replies, taken = compare(tmp_path, [b"".join(frames)])
    assert 1 in replies and taken <= sum(map(len, frames)) - len(odd)


_texts = st.text(st.characters(min_codepoint=1, max_codepoint=300), min_size=0, max_size=12)
_properties = st.one_of(
    st.lists(st.tuples(_texts, _texts), max_size=4).map(
        lambda pairs: _KEY + "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    ),
    st.lists(st.sampled_from(["KEYS\x01a b\x02", "TAGS\x01t\x02", "WAIT\x01true\x02", "x\x01y", _KEY, "\x02"])).map(
        lambda parts: _KEY + "".join(parts)
    ),
)
_fields = st.fixed_dictionaries(
    {},
    optional={
        "e": st.sampled_from(["0", "3", "4", "99", "x", "99999999999999999999"]),
        "f": st.sampled_from(["0", "1", "769", "2", "64", "x"]),
        "g": st.sampled_from(["0", "1700000000000", "x", str(2**62)]),
        "h": st.sampled_from(["0", "7", str(2**31 - 1), "x"]),
        "j": st.sampled_from(["0", "1"]),
        "m": st.sampled_from(["false", "False"]),
        "b": st.sampled_from(["orders", "other", "\u4e0d"]),
        "flag": st.sampled_from(["0", "2"]),
    },
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sends=st.lists(st.tuples(_properties, st.binary(max_size=40), _fields, st.sampled_from([0, 1])), max_size=8),
    cut=st.integers(0, 3000),
)
@example(sends=[], cut=0)
def test_any_sends_cut_anywhere_give_the_same_log_and_replies(
    tmp_path_factory: pytest.TempPathFactory, sends: list[tuple[str, bytes, dict[str, str], int]], cut: int
) -> None:
    stream = b"".join(
        send(number, properties, body, kind, **fields)
        for number, (properties, body, fields, kind) in enumerate(sends, start=1)
    )
    compare(tmp_path_factory.mktemp("ingest"), [stream[:cut], stream[cut:]])
