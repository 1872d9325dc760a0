"""The port for metrics and health, spoken to byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.metrics.endpoint import HEAD_BYTES_MAX, Endpoint, Request, Response
from flaremq.metrics.family import gauge
from flaremq.metrics.monitor import Monitor
from flaremq.metrics.options import (
    ControllerMetricsOptions,
    MetricsOptions,
    NamesrvMetricsOptions,
    check_reach,
    is_enabled,
)
from flaremq.metrics.samples import Samples

ONE = gauge("one", "One.")
Scenario = Callable[[Endpoint, int], Awaitable[None]]


async def _hello(request: Request) -> Response:
    return Response((b"hel", b"lo " + request.path.encode()))


async def _broken(request: Request) -> Response:
    raise ValueError("on purpose")


def run(scenario: Scenario, pages: dict[str, Any] | None = None, **options: Any) -> None:
    async def main() -> None:
        endpoint = Endpoint(pages or {"/": _hello, "/broken": _broken}, **options)
        await endpoint.start("127.0.0.1", 0)
        try:
            await asyncio.wait_for(scenario(endpoint, endpoint.port), 30)
        finally:
            await endpoint.stop()
        assert not endpoint.connections

    asyncio.run(main())


async def talk(port: int, *pieces: bytes) -> bytes:
    """Everything that comes back until the other end hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    found = await reader.read()
    writer.close()
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


_CLOSE = b"Host: x\r\nConnection: close\r\n\r\n"


def test_get_and_head_are_answered_and_head_without_a_body() -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        answer = await talk(port, b"GET / HTTP/1.1\r\n" + _CLOSE)
        assert (status(answer), answer.rpartition(b"\r\n\r\n")[2]) == (200, b"hello /")
        answer = await talk(port, b"HEAD / HTTP/1.1\r\n" + _CLOSE)
        assert (status(answer), answer.rpartition(b"\r\n\r\n")[2]) == (200, b"")
        assert b"content-length: 7" in answer.lower()

    run(scenario)


def test_a_connection_serves_one_request_after_the_other_also_when_they_come_together() -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = await talk(port, request + request, b"GET / HTTP/1.1\r\n" + _CLOSE)
        assert answer.count(b"hello /") == 3

    run(scenario)


@pytest.mark.parametrize("length", [1, 7, 30])
def test_a_request_may_come_in_any_pieces(length: int) -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        text = b"GET / HTTP/1.1\r\n" + _CLOSE
        answer = await talk(port, *(text[at : at + length] for at in range(0, len(text), length)))
        assert status(answer) == 200

    run(scenario)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n" + _CLOSE, 405),
        (b"DELETE / HTTP/1.1\r\n" + _CLOSE, 405),
        (b"GET /nothing HTTP/1.1\r\n" + _CLOSE, 404),
        (b"GET /broken HTTP/1.1\r\n" + _CLOSE, 500),
        (b"GET http://[/ HTTP/1.1\r\n" + _CLOSE, 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n" + _CLOSE + b"hello", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + _CLOSE, 413),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 2 * HEAD_BYTES_MAX, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_for_a_page_is_refused(request_text: bytes, expected: int) -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        assert status(await talk(port, request_text)) == expected
        assert status(await talk(port, b"GET / HTTP/1.1\r\n" + _CLOSE)) == 200

    run(scenario)


def test_more_connections_than_allowed_are_closed() -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        while len(endpoint.connections) < 2:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()
        assert endpoint.refused == 1
        for _, one in first:
            one.close()
        while endpoint.connections:
            await asyncio.sleep(0)
        assert status(await talk(port, b"GET / HTTP/1.1\r\n" + _CLOSE)) == 200

    run(scenario, connections_max=2)


def test_who_asks_nothing_is_hung_up_on() -> None:
    async def scenario(endpoint: Endpoint, port: int) -> None:
        assert await talk(port, b"GET / HT") == b""

    run(scenario, request_seconds=0.01)


def test_who_reads_nothing_does_not_keep_the_answer_in_memory_for_ever() -> None:
    async def large(request: Request) -> Response:
        return Response([bytes(1 << 20)] * 64)

    async def scenario(endpoint: Endpoint, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\n" + _CLOSE)
        while not endpoint.connections:
            await asyncio.sleep(0)
        while endpoint.connections:
            await asyncio.sleep(0.001)
        writer.close()

    run(scenario, {"/": large}, stall_seconds=0.01)


# The monitor behind it


def monitor(**options: Any) -> Monitor:
    return Monitor(MetricsOptions(metrics_exporter_type="PROM", **options).endpoint, {"node": "n"})


def test_those_who_ask_at_once_share_one_look() -> None:
    async def main() -> None:
        looks = 0
        begun, go_on = asyncio.Event(), asyncio.Event()
        pages = monitor()

        async def look(samples: Samples) -> None:
            nonlocal looks
            looks += 1
            samples.add(ONE, looks)
            begun.set()
            await go_on.wait()

        pages.look = look
        ask = Request("/metrics", {}, "")
        asking = [asyncio.create_task(pages.metrics(ask)) for _ in range(5)]
        await begun.wait()
        other = asyncio.create_task(pages.metrics(Request("/metrics", {"name[]": ["one"]}, "")))
        await asyncio.sleep(0)
        assert looks == 1, "another question waits for its turn"
        go_on.set()
        answers = [await task for task in asking]
        assert len({id(answer) for answer in answers}) == 1
        assert b"one" in b"".join((await other).body)
        assert looks == 2
        await pages.metrics(ask)
        assert looks == 3, "an answer is not kept"

    asyncio.run(main())


def test_who_gives_up_does_not_take_the_look_from_the_others() -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        pages = monitor()

        async def look(samples: Samples) -> None:
            await go_on.wait()
            samples.add(ONE, 1)

        pages.look = look
        asking = [asyncio.create_task(pages.metrics(Request("/metrics", {}, ""))) for _ in range(2)]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert b"one" in b"".join((await asking[1]).body)

    asyncio.run(main())


def test_health_is_told_at_once_and_readiness_with_its_reasons() -> None:
    async def main() -> None:
        pages = monitor()
        health, readiness = pages.endpoint.pages["/healthz"], pages.endpoint.pages["/readyz"]
        ask = Request("", {}, "")
        assert (await health(ask)).status == 200
        assert (await readiness(ask)).status == 503
        pages.reasons = lambda: ["the disk is full", "nobody knows us"]
        answer = await readiness(ask)
        assert (answer.status, b"".join(answer.body)) == (503, b"the disk is full\nnobody knows us\n")
        pages.reasons = list
        assert (await readiness(ask)).status == 200

    asyncio.run(main())


# Options


@pytest.mark.parametrize(
    ("text", "expected"), [("PROM", True), ("prom", True), ("2", True), ("DISABLE", False), ("0", False)]
)
def test_the_kind_of_exporter_is_a_name_or_a_number(text: str, expected: bool) -> None:
    assert is_enabled(MetricsOptions(metrics_exporter_type=text).endpoint) is expected


@pytest.mark.parametrize("text", ["OTLP_GRPC", "1", "LOG", "3", "4", "-1", "", "PROMETHEUS"])
def test_what_cannot_be_exported_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="metricsExporterType"):
        MetricsOptions(metrics_exporter_type=text)


@pytest.mark.parametrize("kind", [MetricsOptions, NamesrvMetricsOptions])
def test_other_machines_are_let_in_only_if_that_was_said(kind: Any) -> None:
    open_wide = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_host": "0.0.0.0"}
    with pytest.raises(InvalidArgumentError, match="metricsInsecureBindEnable"):
        check_reach(kind(**open_wide).endpoint, insecure=False)
    check_reach(kind(**open_wide).endpoint, insecure=True)
    check_reach(kind(**open_wide, metrics_insecure_bind_enable=True).endpoint, insecure=False)
    check_reach(kind(**{**open_wide, "metrics_exporter_type": "DISABLE"}).endpoint, insecure=False)
    check_reach(kind(metrics_exporter_type="PROM").endpoint, insecure=False)


def test_a_host_name_is_no_address() -> None:
    with pytest.raises(InvalidArgumentError, match="host name"):
        ControllerMetricsOptions(metric_prom_exporter_host="localhost")


@pytest.mark.parametrize("label", ["le:1", "__name__:x", "9a:x", "a b:x", ":x"])
def test_a_label_that_no_label_can_be_called_is_refused(label: str) -> None:
    with pytest.raises(InvalidArgumentError, match="label"):
        MetricsOptions(metrics_label=label)


def test_entries_that_are_no_pairs_are_dropped() -> None:
    async def main() -> bytes:
        pages = monitor(metrics_label="env:test,nonsense,a:b:c, zone : z1 ")

        async def look(samples: Samples) -> None:
            samples.add(ONE, 1)

        pages.look = look
        return b"".join((await pages.metrics(Request("/metrics", {}, ""))).body)

    assert b'one{env="test",node="n",zone="z1"} 1.0' in asyncio.run(main())
