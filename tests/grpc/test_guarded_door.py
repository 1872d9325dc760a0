"""The port of a broker that asks who is there: signatures, rights, the audit log, and TLS beside plain text."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from flaremq.client.credentials import Credentials
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS, Shape
from tests.grpc.door_lab import consumer_settings, message, producer_settings, receive_request, resource
from tests.support.grpc_lab import METADATA, Client, client_of, grpc_port, run, sends
from tests.support.guarded_lab import ROOT, GuardedLab

TIME = "20260101T000000Z"
STRANGER = Credentials(access_key="nobody-here", secret_key="some secret")


def signed(who: Credentials, *, time: str = TIME, upper: bool = False, region: str = "") -> Any:
    signature = hmac.digest(who.secret_key.encode(), time.encode(), "sha1").hex()
    text = f"MQv2-HMAC-SHA1 Credential={who.access_key}{region}, SignedHeaders=x-mq-date-time, Signature="
    text += signature.upper() if upper else signature
    return (*METADATA, ("authorization", text), ("x-mq-date-time", time))


REQUESTS: dict[str, Any] = {
    "QueryRoute": classes.QueryRouteRequest(topic=resource("T")),
    "Heartbeat": classes.HeartbeatRequest(group=resource("G"), client_type=2),
    "SendMessage": classes.SendMessageRequest(messages=[message("T")]),
    "QueryAssignment": classes.QueryAssignmentRequest(topic=resource("T"), group=resource("G")),
    "ReceiveMessage": receive_request("T", "G"),
    "AckMessage": classes.AckMessageRequest(topic=resource("T"), group=resource("G")),
    "ForwardMessageToDeadLetterQueue": classes.ForwardMessageToDeadLetterQueueRequest(
        topic=resource("T"), group=resource("G")
    ),
    "PullMessage": classes.PullMessageRequest(
        group=resource("G"), message_queue=classes.MessageQueue(topic=resource("T"))
    ),
    "UpdateOffset": classes.UpdateOffsetRequest(
        group=resource("G"), message_queue=classes.MessageQueue(topic=resource("T"))
    ),
    "GetOffset": classes.GetOffsetRequest(
        group=resource("G"), message_queue=classes.MessageQueue(topic=resource("T"))
    ),
    "QueryOffset": classes.QueryOffsetRequest(message_queue=classes.MessageQueue(topic=resource("T"))),
    "EndTransaction": classes.EndTransactionRequest(topic=resource("T"), transaction_id="x", resolution=1),
    "Telemetry": classes.TelemetryCommand(settings=producer_settings("T")),
    "NotifyClientTermination": classes.NotifyClientTerminationRequest(group=resource("G")),
    "ChangeInvisibleDuration": classes.ChangeInvisibleDurationRequest(topic=resource("T"), group=resource("G")),
    "RecallMessage": classes.RecallMessageRequest(topic=resource("T"), recall_handle="x"),
    "SyncLiteSubscription": classes.SyncLiteSubscriptionRequest(topic=resource("T"), group=resource("G")),
}  # fmt: skip


async def code_of(client: Client, name: str, metadata: Any, request: Any = None) -> int:
    """The first status that comes back."""
    request = REQUESTS[name] if request is None else request
    shape = METHODS[name].shape
    if shape is Shape.UNARY:
        return int((await client.unary(name, request, metadata, timeout=10)).status.code)
    if shape is Shape.SERVER_STREAM:
        frames = [frame async for frame in client.stream(name, request, metadata, timeout=10)]
        return int(frames[0].status.code)
    call = client.bidi(name, metadata, timeout=10)
    await call.write(request)
    reply = await call.read()
    call.cancel()
    return int(reply.status.code)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLab]:
    with GuardedLab(tmp_path_factory.mktemp("guarded"), grpcServerPort="0", tlsClientAuth="none") as lab:
        yield lab


def ask(guarded: GuardedLab, work: Callable[[Client], Awaitable[None]], credentials: Any = None, **more: Any) -> None:
    async def scenario() -> None:
        assert guarded.broker.grpc_door is not None
        async with client_of(guarded.broker.grpc_door.port, credentials, **more) as client:
            await work(client)

    run(scenario, 60)


def test_no_call_is_answered_for_who_has_not_proved_who_he_is(guarded: GuardedLab) -> None:
    assert set(REQUESTS) == set(METHODS)

    async def scenario(client: Client) -> None:
        for name in REQUESTS:
            assert await code_of(client, name, METADATA) == Code.UNAUTHORIZED, name

    ask(guarded, scenario)


def test_every_call_is_answered_for_who_may_everything(guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        for name in REQUESTS:
            assert await code_of(client, name, signed(ROOT)) not in (Code.UNAUTHORIZED, 0), name

    ask(guarded, scenario)


def test_signatures_are_read_as_each_client_writes_them(guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        for metadata in (
            signed(ROOT, upper=True),
            signed(ROOT, region="//Rocketmq"),
            signed(ROOT, region="/region/RocketMQ"),
            signed(ROOT, time="2026-01-01T00:00:00+00:00"),
        ):
            assert await code_of(client, "QueryRoute", metadata) == Code.TOPIC_NOT_FOUND
        other_time = tuple((key, "x" if key == "x-mq-date-time" else value) for key, value in signed(ROOT))
        no_time = tuple((key, value) for key, value in signed(ROOT) if key != "x-mq-date-time")
        wrong = Credentials(access_key=ROOT.access_key, secret_key="another secret")
        for metadata in (other_time, no_time, signed(wrong), signed(STRANGER), signed(ROOT, time="")):
            assert await code_of(client, "QueryRoute", metadata) == Code.UNAUTHORIZED

    ask(guarded, scenario)


def test_what_claims_to_be_proved_by_headers_is_not(guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        claims = (*METADATA, ("x-mq-authorization-ak", ROOT.access_key), ("rpc-remote-address", "127.0.0.1:1"))
        for name in REQUESTS:
            assert await code_of(client, name, claims) == Code.UNAUTHORIZED, name

    ask(guarded, scenario)


def test_settings_are_judged_by_what_they_name(guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        for settings in (producer_settings("T"), consumer_settings("G", "T")):
            command = classes.TelemetryCommand(settings=settings)
            assert await code_of(client, "Telemetry", METADATA, command) == Code.UNAUTHORIZED
            assert await code_of(client, "Telemetry", signed(ROOT), command) == Code.OK

    ask(guarded, scenario)


def test_refusals_stand_in_the_audit_log(tmp_path: Path) -> None:
    async def scenario(client: Client) -> None:
        assert await code_of(client, "SendMessage", signed(guest)) == Code.UNAUTHORIZED

    guest = Credentials(access_key="a-guest", secret_key="whatever he says")
    with GuardedLab(tmp_path, grpcServerPort="0") as guarded:
        ask(guarded, scenario)
        (line,) = [line for line in guarded.audit() if line.get("user") == "a-guest"]
        assert (line["event"], line["address"], line["what"]) == ("refused", "127.0.0.1", "SendMessage")
        assert guest.secret_key not in str(guarded.audit())


def _trusted(guarded: GuardedLab) -> Any:
    return grpc.ssl_channel_credentials((guarded.folder / "tls" / "guarded-cert.pem").read_bytes())


def test_tls_and_plain_text_are_both_spoken_on_the_port(guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        assert await code_of(client, "QueryRoute", signed(ROOT)) == Code.TOPIC_NOT_FOUND

    ask(guarded, scenario)
    ask(guarded, scenario, _trusted(guarded), grpc__ssl_target_name_override="localhost")


def test_a_server_without_a_certificate_shows_one_for_this_machine() -> None:
    def handshake(port: int) -> tuple[str | None, str | None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as the Java client does it
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", port), 10) as plain, context.wrap_socket(plain) as encrypted:
            return encrypted.selected_alpn_protocol(), encrypted.version()

    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            assert await asyncio.to_thread(handshake, server.port) == ("h2", "TLSv1.3")
            assert await asyncio.to_thread(handshake, server.port) == ("h2", "TLSv1.3")
            assert (await client.unary("SendMessage", sends(b"plain"))).status.code == Code.OK

    run(scenario)


def test_a_server_that_insists_on_tls_hears_no_plain_text() -> None:
    async def scenario() -> None:
        async with grpc_port(grpc_tls_mode="enforcing") as server, client_of(server.port) as client:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.unary("SendMessage", sends(b"plain"), timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert server.calls_taken == 0

    run(scenario)


def test_large_messages_and_many_replies_go_through_tls(tmp_path: Path, guarded: GuardedLab) -> None:
    async def scenario(client: Client) -> None:
        for size in (1, 20_000, 900_000):
            request = classes.SendMessageRequest(messages=[message("T", bytes(size))])
            assert await code_of(client, "SendMessage", signed(ROOT), request) == Code.TOPIC_NOT_FOUND

    ask(guarded, scenario, _trusted(guarded), grpc__ssl_target_name_override="localhost")
