"""A broker with users, and connections over which anything can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from flaremq.access.options import AccessOptions
from flaremq.access.users.changes import create_user, put_acl
from flaremq.broker.options import BrokerOptions
from flaremq.broker.service import BrokerService
from flaremq.grpc.options import OFF, GrpcOptions
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import signed
from tests.support.ports import free_ports

ROOT = "root"
# Whom there is, and what each may do; the password is the name and "-secret-1".
USERS = {
    "victim": (("Topic:orders", "Pub,Sub"), ("Group:good", "Sub"), ("Topic:replies", "Pub")),
    "attacker": (("Topic:open", "Pub,Sub"), ("Group:own", "Sub,Get"), ("Topic:replies", "Pub")),
}


def secret_of(user: str) -> str:
    return f"{user}-secret-1"


class Raw:
    """One connection: frames go out, what comes back is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = FrameDecoder(header_limit=8 << 20)
        self.pushed: list[RemotingCommand] = []

    async def replies(self, count: int) -> dict[int, RemotingCommand]:
        """By opaque."""
        found: dict[int, RemotingCommand] = {}
        while len(found) < count:
            data = await asyncio.wait_for(self._reader.read(65536), 20)
            if not data:
                break
            for command in self._decoder.receive(data):
                if command.is_response:
                    found[command.opaque] = command
                else:
                    self.pushed.append(command)
        return found

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        self.writer.write(encode_frame(command))
        (reply,) = (await self.replies(1)).values()
        return reply


def asked(user: str | None, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> RemotingCommand:
    """A request as a client of RocketMQ signs it."""
    fields: Any = ext or {}
    if user is not None:
        fields = signed(fields, body, access_key=user, secret_key=secret_of(user))
    return RemotingCommand.request(code, fields, body)


def send_fields(topic: str, properties: str = "", **more: str) -> dict[str, str]:
    fields = {"a": "pg", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123", "h": "0"}
    return fields | {"i": properties, "j": "0", "k": "false", "m": "false"} | more


class Lab:
    def __init__(self, broker: BrokerService) -> None:
        self.broker = broker
        self._open: list[Raw] = []

    async def connect(self, port: int | None = None) -> Raw:
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.broker.port)
        self._open.append(Raw(reader, writer))
        return self._open[-1]

    async def code(self, user: str | None, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> int:
        """What a request on a connection of its own is answered."""
        raw = await self.connect()
        reply = await raw.ask(asked(user, code, ext, body))
        raw.writer.close()
        return reply.code

    def close(self) -> None:
        for raw in self._open:
            raw.writer.close()


def _allow(user: str, rights: Iterable[tuple[str, str]]) -> dict[str, Any]:
    entries = [{"resource": name, "actions": actions.split(","), "decision": "Allow"} for name, actions in rights]
    return {"subject": f"User:{user}", "policies": [{"policyType": "Custom", "entries": entries}]}


@asynccontextmanager
async def lab(folder: Path, *, grpc_port: int = OFF, **options: Any) -> AsyncIterator[Lab]:
    """A running broker with the topics ``orders``, ``open`` and ``replies`` and the groups ``good`` and ``own``."""
    access = AccessOptions(
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user=f'{{"username":"{ROOT}","password":"{secret_of(ROOT)}"}}',
    )
    broker = BrokerService(
        folder / "store",
        BrokerOptions(listen_port=free_ports(), access=access, grpc=GrpcOptions(grpc_server_port=grpc_port), **options),
    )
    await broker.start()
    assert broker.access is not None and broker.access.users is not None
    for user, rights in USERS.items():
        broker.access.users.change(lambda tables, user=user: create_user(tables, user, {"password": secret_of(user)}))
        broker.access.users.change(
            lambda tables, user=user, rights=rights: put_acl(tables, f"User:{user}", _allow(user, rights))
        )
    for topic in ("orders", "open", "replies"):
        broker.state.topics.update(TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4))
    for group in ("good", "own"):
        broker.state.groups.update(SubscriptionGroupConfig(group_name=group))
    found = Lab(broker)
    try:
        yield found
    finally:
        found.close()
        await broker.stop()
