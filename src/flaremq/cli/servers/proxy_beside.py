"""The port of gRPC of ``flaremq up --replicas N --grpc``: a proxy beside the name server, before whoever is master.

The brokers' own ports of gRPC stay shut: clients keep one address, and a master that is killed is followed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.cli.servers.user_options import UserOptions
    from flaremq.proxy.service import ProxyService


def proxy_beside(user: UserOptions, flag: str | None, bind_address: str, name_server: str) -> list[ProxyService]:
    """None or one of them. Reads the options that a proxy knows."""
    if flag is None:
        return []
    from flaremq.grpc.options import GrpcOptions
    from flaremq.options import rows_by_key
    from flaremq.proxy.options import ProxyOptions
    from flaremq.proxy.service import ProxyService

    user = user.with_grpc(flag, bind_address)
    known = rows_by_key(GrpcOptions)
    place = {"bindAddress": bind_address, "namesrvAddr": name_server, "proxyHome": os.path.join(user.data, "proxy")}
    own = {name: text for name, text in user.given.items() if name in known}
    return [ProxyService(ProxyOptions.from_properties({**user.shared, **own, **place}))]


def without_own_ports(settings: dict[str, str], flag: str | None) -> dict[str, str]:
    """What brokers are told where a proxy serves for them."""
    return settings if flag is None else {**settings, "grpcServerPort": "-1"}
