"""Sends under access control: the compiled way verifies them, and what it does not let in plain code refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions
from flaremq.broker.service import BrokerService
from flaremq.grpc.options import OFF, GrpcOptions
from flaremq.protocol.command import BINARY_HEADER, JSON_HEADER, RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import signed
from flaremq.remoting.connection import Connection
from tests.support.ports import free_ports
from tests.support.wire import sends_compiled

_ACCOUNTS = """
accounts:
- {accessKey: account-app, secretKey: app-secret-1, topicPerms: [orders=PUB, readable=SUB]}
- {accessKey: account-root, secretKey: root-secret-1, admin: true}
"""
_SECRETS = {"account-app": "app-secret-1", "account-root": "root-secret-1"}
_KEY = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD{:04d}\x02"


def _send(
    number: int,
    kind: int,
    *,
    account: str = "account-app",
    secret: str | None = None,
    topic: str = "orders",
    body: bytes = b"body",
    sent_body: bytes | None = None,
    properties: str = "",
) -> bytes:
    ext = {"a": "group", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123", "h": "0"}
    ext |= {"i": _KEY.format(number) + properties, "j": "0", "k": "false", "m": "false", "n": "broker-a"}
    ext = signed(ext, body, access_key=account, secret_key=secret or _SECRETS.get(account, "unknown-secret"))
    command = RemotingCommand(
        310, ext=ext, body=body if sent_body is None else sent_body, opaque=number, serialize_type=kind, language="JAVA"
    )
    return encode_frame(command)


async def _replies(folder: Path, reads: list[bytes], count: int, *, compiled: bool) -> tuple[dict[int, int], int]:
    """Codes by opaque, and how many bytes of frames the compiled way took."""
    path = folder / "home" / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(_ACCOUNTS)
    path.chmod(0o600)
    access = AccessOptions(acl_enable=True, acl_home=str(folder / "home"))
    taken = 0
    async with sends_compiled(compiled):
        broker = BrokerService(
            folder / "store",
            BrokerOptions(listen_port=free_ports(), access=access, grpc=GrpcOptions(grpc_server_port=OFF)),
        )
        await broker.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            found: dict[int, int] = {}
            decoder = FrameDecoder()

            async def receive(wanted: int) -> None:
                while len(found) < wanted:
                    data = await reader.read(65536)
                    assert data, "the broker closed the connection"
                    found.update({reply.opaque: reply.code for reply in decoder.receive(data)})

            # The first send to a topic makes it, and then no topic is known to be plain until it was sent to again.
            for number, topic in enumerate(("orders", "readable", "orders", "readable")):
                writer.write(_send(9000 + number, JSON_HEADER, account="account-root", topic=topic))
                await receive(number + 1)
            found.clear()
            take = broker.handlers.table.fast_path
            if take is not None:

                def counting(connection: Connection, data: bytes) -> int:
                    nonlocal taken
                    size = take(connection, data)
                    taken += size
                    return size

                broker.handlers.table.fast_path = counting
            for read in reads:
                writer.write(read)
                await writer.drain()
            await receive(count)
            writer.close()
        finally:
            await broker.stop()
    return found, taken


@pytest.mark.parametrize("kind", [JSON_HEADER, BINARY_HEADER])
def test_signed_sends_take_the_compiled_way(kind: int, tmp_path: Path) -> None:
    read = b"".join(_send(number, kind) for number in range(40))
    codes, taken = asyncio.run(_replies(tmp_path, [read], 40, compiled=True))
    assert codes == dict.fromkeys(range(40), 0)
    assert taken == len(read)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", [JSON_HEADER, BINARY_HEADER])
def test_one_that_may_not_is_refused_alone(kind: int, compiled: bool, tmp_path: Path) -> None:
    frames = [
        _send(0, kind),
        _send(1, kind, secret="another-secret"),
        _send(2, kind),
        _send(3, kind, account="account-nobody"),
        _send(4, kind, topic="readable"),
        _send(5, kind, sent_body=b"BODY"),
        _send(6, kind, account="account-root", topic="readable"),
        _send(7, kind, properties="TAGS\x01t\x02"),
    ]
    codes, _ = asyncio.run(_replies(tmp_path, [b"".join(frames)], len(frames), compiled=compiled))
    assert codes == {0: 0, 1: 16, 2: 0, 3: 16, 4: 16, 5: 16, 6: 0, 7: 0}


def test_unsigned_sends_never_take_the_compiled_way(tmp_path: Path) -> None:
    ext = {"a": "group", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "j": "0"}
    ext |= {"i": _KEY.format(1), "k": "false", "m": "false"}
    frame = encode_frame(RemotingCommand(310, ext=ext, body=b"x", opaque=1, language="JAVA"))
    codes, taken = asyncio.run(_replies(tmp_path, [frame], 1, compiled=True))
    assert (codes, taken) == ({1: 16}, 0)
