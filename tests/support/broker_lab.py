"""A whole broker on a bench: in the test's own event loop, spoken to frame by frame over real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from flaremq.broker.service import BrokerService
from flaremq.clock import Clock
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.send import SendMessageRequestHeader
from flaremq.remoting.client import RemotingClient
from flaremq.testing import ephemeral_broker

BORN = 1_699_999_999_000
UNIQUE = "UNIQ_KEY\x01C0A8000100002A9F0000000000000001\x02"


def run(scenario: Callable[[BrokerLab], Awaitable[None]], **options: Any) -> None:
    """Run a scenario against a broker of its own."""

    async def main() -> None:
        async with BrokerLab(**options) as lab:
            await asyncio.wait_for(scenario(lab), 60)

    asyncio.run(main())


async def until(condition: Callable[[], bool], what: str = "") -> None:
    """Wait for something that will happen on its own."""
    try:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain: {what or condition}") from None


class BrokerLab:
    """A broker, a name server and a client without manners."""

    def __init__(self, *, clock: Clock | None = None, path: str | None = None, **options: Any) -> None:
        self.ephemeral = ephemeral_broker(clock=clock, path=path, **options)
        self.client = RemotingClient()

    async def __aenter__(self) -> Self:
        await self.ephemeral.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.client.close()
        await self.ephemeral.__aexit__(kind, error, traceback)

    @property
    def broker(self) -> BrokerService:
        return self.ephemeral.broker

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    async def ask(
        self,
        code: int,
        ext: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        serialize_type: int = 0,
        version: int | None = None,
        language: str = "PYTHON",
        client: RemotingClient | None = None,
        timeout: float = 20.0,
    ) -> RemotingCommand:
        """The reply to a request, whatever its code."""
        request = RemotingCommand.request(code, texts(ext), body)
        request.serialize_type = serialize_type
        request.language = language
        if version is not None:
            request.version = version
        return await (client or self.client).request(self.address, request, timeout)

    # Sending

    async def send(self, topic: str, body: bytes = b"body", **fields: Any) -> RemotingCommand:
        """A send with letters; ``fields`` are those of the header, and ``code``, ``serialize_type``, ``version``."""
        outer = {name: fields.pop(name) for name in ("serialize_type", "version", "client") if name in fields}
        code = fields.pop("code", RequestCode.SEND_MESSAGE_V2)
        header = send_header(topic, **fields)
        ext = header.encode() if code == RequestCode.SEND_MESSAGE else header.encode_letters()
        return await self.ask(code, ext, body, **outer)

    async def sent(self, topic: str, body: bytes = b"body", **fields: Any) -> MessageExt:
        """The record of a message that must be taken."""
        reply = await self.send(topic, body, **fields)
        assert reply.code == 0, (reply.code, reply.remark)
        return self.record(reply)

    def record(self, reply: RemotingCommand) -> MessageExt:
        """The record that a send's reply names."""
        physical_offset = int(reply.field("msgId")[16:32], 16)
        message = self.broker.store.read(physical_offset)
        assert message is not None, f"no readable record at {physical_offset}"
        return message

    # Pulling

    async def pull(
        self, topic: str, offset: int = 0, *, group: str = "readers", queue_id: int = 0, **fields: Any
    ) -> RemotingCommand:
        """A pull that brings its subscription along, unless ``sysFlag`` says otherwise."""
        outer = {n: fields.pop(n) for n in ("serialize_type", "language", "client", "timeout", "code") if n in fields}
        code = outer.pop("code", RequestCode.PULL_MESSAGE)
        return await self.ask(code, pull_fields(topic, offset, group=group, queue_id=queue_id, **fields), **outer)

    def topic(self, name: str, queues: int = 4, **changes: Any) -> None:
        from flaremq.protocol.bodies.topic import TopicConfig

        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        from dataclasses import replace

        self.broker.state.topics.update(replace(config, **changes))

    @contextmanager
    def slow_disk(self) -> Iterator[threading.Event]:
        """Inside, no sync ends before the event is set (or this is left)."""
        driver = self.broker.store_loop.driver
        released = threading.Event()
        usual = driver.sync

        def sync() -> int:
            released.wait(60)
            return usual()

        driver.sync = sync  # type: ignore[method-assign]
        try:
            yield released
        finally:
            released.set()
            del driver.sync


def texts(ext: dict[str, Any] | None) -> dict[str, str] | None:
    if ext is None:
        return None
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in ext.items()}


def send_header(topic: str, **fields: Any) -> SendMessageRequestHeader:
    values: dict[str, Any] = {
        "producer_group": "writers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": BORN,
        "flag": 0,
        "properties": UNIQUE,
        "unit_mode": False,
    }
    return SendMessageRequestHeader(**(values | fields))


def pull_fields(topic: str, offset: int, *, group: str, queue_id: int, **fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }
    return {name: value for name, value in (values | fields).items() if value is not None}


def messages(reply: RemotingCommand) -> list[MessageExt]:
    """The messages in the body of a pull's reply."""
    data = memoryview(reply.body_bytes)
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(MessageExt(data[:size]))
        data = data[size:]
    return found


def bodies(reply: RemotingCommand) -> list[bytes]:
    return [message.body for message in messages(reply)]
