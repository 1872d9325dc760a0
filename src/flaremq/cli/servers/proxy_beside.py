"""The port of gRPC of ``flaremq up --replicas N``: a proxy beside the name server, before whoever is master.

The brokers' own ports of gRPC stay shut: only one of them could have 8081, and it may be a slave, which takes nothing.
Clients keep one address, and a master that is killed is followed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from flaremq.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from flaremq.broker.options import BrokerOptions
    from flaremq.cli.servers.user_options import UserOptions
    from flaremq.proxy.options import ProxyOptions
    from flaremq.proxy.service import ProxyService

_log = logging.getLogger(__name__)


class ProxyBeside:
    """A proxy that may have to do without its port, if nobody has asked for it."""

    def __init__(self, proxy: ProxyService, *, is_asked_for: bool) -> None:
        self._proxy: Final = proxy
        self._is_asked_for = is_asked_for
        self._is_open = False

    @property
    def part(self) -> str:
        """What the line that all is ready says about it."""
        return f", gRPC {self._proxy.address}" if self._is_open else ""

    async def start(self) -> None:
        """UnavailableError if the port that was asked for is taken."""
        try:
            await self._proxy.start()
        except UnavailableError as error:
            if self._is_asked_for:
                raise
            _log.warning("no port for gRPC: %s; --grpc names another one, or grpcServerPort=-1 none", error)
            return
        self._is_open = True

    async def stop(self) -> None:
        if self._is_open:
            await self._proxy.stop()
            self._is_open = False


def proxy_beside(user: UserOptions, flag: str | None, options: BrokerOptions, name_server: str) -> list[ProxyBeside]:
    """None or one of them. ``options``: the brokers', which say whether there is a port where no flag does."""
    if flag is None and not options.grpc.is_served(options.listen_port):
        return []
    from flaremq.proxy.service import ProxyService

    is_asked_for = flag is not None or options.grpc.is_asked_for
    try:
        proxy = _proxy_options(user.with_grpc(flag, options.bind_address), options.bind_address, name_server)
    except InvalidArgumentError as error:  # a proxy refuses more than a broker does
        if is_asked_for:
            raise
        _log.warning("no port for gRPC: %s", error)
        return []
    return [ProxyBeside(ProxyService(proxy), is_asked_for=is_asked_for)]


def without_own_ports(settings: Mapping[str, str]) -> dict[str, str]:
    """What brokers are told where a proxy serves for them."""
    return {**settings, "grpcServerPort": "-1"}


def _proxy_options(user: UserOptions, bind_address: str, name_server: str) -> ProxyOptions:
    """The options that a proxy knows."""
    from flaremq.grpc.options import GrpcOptions
    from flaremq.options import rows_by_key
    from flaremq.proxy.options import ProxyOptions

    known = rows_by_key(GrpcOptions)
    place = {"bindAddress": bind_address, "namesrvAddr": name_server, "proxyHome": os.path.join(user.data, "proxy")}
    own = {name: text for name, text in user.given.items() if name in known}
    return ProxyOptions.from_properties({**user.shared, **own, **place})
