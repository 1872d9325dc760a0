"""A name server and brokers whose answers the test writes: for what real ones do rarely.

::

    async with fake_cluster({"broker-a": 4, "broker-b": 4}) as cluster:
        cluster.broker("broker-a").answer_sends(ResponseCode.SYSTEM_BUSY)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from flaremq.message.batch import decode_batch
from flaremq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer

Answer = Callable[[RemotingCommand], RemotingCommand | None]


class FakeServer:
    """One port. Requests are kept in ``requests``; codes without an answer succeed with nothing to say."""

    def __init__(self) -> None:
        self.requests: list[RemotingCommand] = []
        self.answers: dict[int, Answer] = {}
        self.connections: list[Connection] = []
        table = HandlerTable()
        for code in RequestCode:
            table.register(code, self._handle)
        self._table = table
        self._server = RemotingServer(table)
        self.address = ""

    async def start(self, port: int = 0) -> None:
        await self._server.start("127.0.0.1", port)
        self.address = f"127.0.0.1:{self._server.port}"

    async def stop(self) -> None:
        await self._server.stop()

    async def restart(self, port: int) -> None:
        """Be there again, where it was."""
        self._server = RemotingServer(self._table)
        await self.start(port)

    def of(self, *codes: int) -> list[RemotingCommand]:
        """The requests of these codes, in the order they came."""
        return [request for request in self.requests if request.code in codes]

    async def until(self, count: int, *codes: int) -> list[RemotingCommand]:
        """Wait until so many requests of these codes have come."""
        async with asyncio.timeout(20):
            while len(self.of(*codes)) < count:
                await asyncio.sleep(0.01)
        return self.of(*codes)

    def _handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.requests.append(request)
        if connection not in self.connections:
            self.connections.append(connection)
        answer = self.answers.get(request.code)
        return RemotingCommand.response() if answer is None else answer(request)


class FakeNameServer(FakeServer):
    """Knows the routes it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[str, TopicRouteData] = {}
        self.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route

    def _route(self, request: RemotingCommand) -> RemotingCommand:
        route = self.routes.get(request.field("topic"))
        if route is None:
            return RemotingCommand.response(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        return RemotingCommand.response(body=route.to_json())


class FakeBroker(FakeServer):
    """Stores nothing, but counts offsets of what is sent."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._offsets: dict[str, int] = {}
        self.bodies: list[bytes] = []
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.answers[code] = self.store

    @property
    def sends(self) -> list[RemotingCommand]:
        return self.of(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)

    def store(self, request: RemotingCommand) -> RemotingCommand:
        """The answer of a broker that is fine."""
        bodies = [request.body_bytes]
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            bodies = [bytes(item.body) for item in decode_batch(request.body_bytes)]
        queue_id = request.field("e")
        offset = self._offsets.get(queue_id, 0)
        self._offsets[queue_id] = offset + len(bodies)
        self.bodies += bodies
        ids = ",".join(f"7F00000100002A9F{offset + number:016X}" for number in range(len(bodies)))
        return RemotingCommand.response(ext={"msgId": ids, "queueId": queue_id, "queueOffset": str(offset)})

    def answer_sends(self, *codes: int) -> None:
        """Refuse sends with these codes, one after the other; then all is well again."""
        pending = list(codes)

        def answer(request: RemotingCommand) -> RemotingCommand:
            if pending:
                return RemotingCommand.response(pending.pop(0), "as the test wants it")
            return self.store(request)

        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.answers[code] = answer

    def ignore_sends(self) -> None:
        """Answer no send at all."""
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.answers[code] = lambda request: None


class FakeCluster:
    """One name server, some brokers, one topic ``T`` on all of them."""

    def __init__(self, queues: dict[str, int]) -> None:
        self.name_server = FakeNameServer()
        self.brokers = {name: FakeBroker(name) for name in queues}
        self._queues = queues

    @property
    def address(self) -> str:
        return self.name_server.address

    def broker(self, name: str = "broker-a") -> FakeBroker:
        return self.brokers[name]

    def route(self, *names: str) -> TopicRouteData:
        """The route of a topic that is on these brokers, or on all."""
        chosen = names or tuple(self.brokers)
        return TopicRouteData(
            broker_datas=tuple(
                BrokerData(cluster="C", broker_name=name, broker_addrs={0: self.brokers[name].address})
                for name in chosen
            ),
            queue_datas=tuple(
                QueueData(broker_name=name, read_queue_nums=self._queues[name], write_queue_nums=self._queues[name])
                for name in chosen
            ),
        )

    async def start(self) -> None:
        await self.name_server.start()
        for broker in self.brokers.values():
            await broker.start()
        self.name_server.routes["T"] = self.route()

    async def stop(self) -> None:
        for server in (self.name_server, *self.brokers.values()):
            await server.stop()


@asynccontextmanager
async def fake_cluster(queues: dict[str, int] | None = None) -> AsyncIterator[FakeCluster]:
    cluster = FakeCluster(queues or {"broker-a": 4})
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()
