"""What the parts of the admin client share: the wire, and finding the brokers that an order is meant for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from flaremq.client.arguments import check_queue, check_text
from flaremq.client.credentials import Credentials
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ClientOptions
from flaremq.clock import Clock
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.options import parse_properties
from flaremq.protocol.bodies.bean import Bean
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import ClusterInfo
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand

ADMIN_TIMEOUT: Final = 5.0  # seconds; some orders walk over all topics of a broker
_B = TypeVar("_B", bound=Bean)


class AdminBase:
    """Connection and address book. Event loop thread only."""

    _entered_by = "async with"

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        options: ClientOptions | None = None,
        credentials: Credentials | None = None,
        timeout: float = ADMIN_TIMEOUT,
        clock: Clock | None = None,
    ) -> None:
        self.options = (options or ClientOptions()).signed_by(credentials)
        self._timeout = timeout
        self._instance = ClientInstance(name_servers, self.options, clock=clock, entered_by=self._entered_by)
        self._transport = self._instance.transport

    @property
    def name_servers(self) -> list[str]:
        return list(self._transport.name_servers)

    async def start(self) -> None:
        """Begin; the first order finds out whether a name server can be reached."""
        await self._instance.start()

    async def close(self) -> None:
        await self._instance.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def cluster_info(self) -> ClusterInfo:
        """All brokers, by cluster and name."""
        reply = await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, what="the list of clusters")
        return ClusterInfo.from_json(reply.body_bytes)

    async def masters(self, *, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Addresses of masters by broker name: of one cluster, of one broker (by name or address), or all.

        An address is taken as it is, so a broker that no name server knows can be given orders too.
        """
        for name, what in ((cluster, "a cluster"), (broker, "a broker")):
            if name is not None:
                check_text(name, what)
        if broker is not None and ":" in broker:
            return {broker: broker}
        info = await self.cluster_info()
        names = set(info.broker_addr_table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                known = ", ".join(sorted(info.cluster_addr_table)) or "none"
                raise NotFoundError(f"cluster {cluster!r} does not exist; there is: {known}")
            names &= set(info.cluster_addr_table[cluster])
        if broker is not None:
            if broker not in names:
                raise NotFoundError(f"broker {broker!r} does not exist; there is: {', '.join(sorted(names)) or 'none'}")
            names = {broker}
        found = {name: info.broker_addr_table[name].broker_addrs for name in sorted(names)}
        masters = {name: addresses[0] for name, addresses in found.items() if 0 in addresses}
        if not masters:
            raise NotFoundError(f"no broker with a master in {cluster or broker or 'any cluster'}")
        return masters

    async def _address_of(self, broker: str) -> str:
        """The address of a master, by its broker's name or as it is."""
        return next(iter((await self.masters(broker=broker)).values()))

    async def _brokers_of(self, topic: str) -> dict[str, str]:
        """Addresses of those that hold a topic, by broker name; masters where there is one."""
        route = await self._instance.routes.find(topic)
        return {name: addresses[min(addresses)] for name, addresses in route.addresses.items() if addresses}

    async def _keeper_of(self, queue: MessageQueue) -> str:
        """Address of whoever holds a queue and its offsets: its master, a slave while there is none."""
        check_queue(queue)
        await self._instance.routes.find(queue.topic)
        return self._instance.routes.keeper(queue.broker_name)

    async def _call(
        self,
        address: str,
        code: RequestCode,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: Collection[int] = (),
        what: str = "",
        timeout: float | None = None,
    ) -> RemotingCommand:
        self._instance.check_running()
        return await self._transport.call(
            address, code, ext, body, accept=accept, what=what, timeout=timeout or self._timeout
        )

    async def _ask(
        self,
        bean: type[_B],
        broker: str,
        code: RequestCode,
        ext: Mapping[str, str] | None = None,
        *,
        what: str = "",
        timeout: float | None = None,
    ) -> _B:
        """The body of the reply of one broker (name or address)."""
        reply = await self._call(await self._address_of(broker), code, ext, what=what, timeout=timeout)
        return bean.from_json(reply.body_bytes)

    async def _ask_each(
        self,
        bean: type[_B],
        addresses: Iterable[str],
        code: RequestCode,
        ext: Mapping[str, str] | None = None,
        *,
        what: str = "",
    ) -> list[_B]:
        """The bodies of the replies of several servers, asked at once."""
        return [bean.from_json(reply.body_bytes) for reply in await self._call_each(addresses, code, ext, what=what)]

    async def _ask_name_server(
        self, code: RequestCode, ext: Mapping[str, str] | None = None, *, accept: Collection[int] = (), what: str = ""
    ) -> RemotingCommand:
        self._instance.check_running()
        return await self._transport.ask_name_server(code, ext, accept=accept, what=what)

    async def _call_each(
        self,
        addresses: Iterable[str],
        code: RequestCode,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: Collection[int] = (),
        what: str = "",
        timeout: float | None = None,
    ) -> list[RemotingCommand]:
        """The same to several servers at once; their replies in order, or the first failure when all are through."""
        calls = [self._call(each, code, ext, body, accept=accept, what=what, timeout=timeout) for each in addresses]
        replies = []
        for reply in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply
            replies.append(reply)
        return replies

    async def _tell_name_servers(
        self, code: RequestCode, ext: Mapping[str, str] | None = None, body: bytes = b"", *, what: str = ""
    ) -> list[RemotingCommand]:
        """The same order to every name server: they do not talk to each other."""
        return await self._call_each(self.name_servers, code, ext, body, what=what)


def java_flag(value: bool) -> str:
    return "true" if value else "false"


def properties_text(values: Mapping[str, str]) -> bytes:
    """Options as lines; a value that would be read as something else is refused."""
    if not values or not isinstance(values, Mapping):
        raise InvalidArgumentError(f"there is no option to change in {values!r}")
    for name, value in values.items():
        line = f"{name}={value}"
        if parse_properties(line) != {name: value} or line != line.encode(errors="replace").decode():
            raise InvalidArgumentError(f"option {name!r} cannot have the value {value!r}: it would not be read as such")
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()
