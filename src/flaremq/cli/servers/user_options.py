"""UserOptions: what the user of ``flaremq up`` set, and what of it counts for which of its servers.

A server's address comes from ``--set``, then from the flag of that server, then from the file, like every option of
the commands that start one server. ``bindAddress`` counts for all servers, ``listenPort`` is the broker's.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from flaremq.access.options import AccessOptions
from flaremq.cli.servers.serve import split_listen
from flaremq.errors import InvalidArgumentError
from flaremq.grpc.options import DEFAULT_PORT, OFF
from flaremq.options import load_properties, parse_assignments, rows_by_key
from flaremq.remoting.address import format_address, parse_address
from flaremq.remoting.options import RemotingOptions

# Of a broker's options those that the other servers understand: their connections, and who may do what.
_SHARED: Final = frozenset({*rows_by_key(RemotingOptions), *rows_by_key(AccessOptions), "insecureBindEnable"})


@dataclass(frozen=True, slots=True)
class UserOptions:
    """A file of options and those of the command line. Immutable."""

    data: str
    config_file: str | None
    settings: Mapping[str, str]  # of the command line
    of_file: Mapping[str, str]

    @classmethod
    def read(cls, data: str, config_file: str | None, assignments: tuple[str, ...]) -> UserOptions:
        of_file = load_properties(config_file) if config_file is not None else {}
        return cls(os.path.abspath(data), config_file, parse_assignments(assignments), of_file)

    def with_options(self, options: Mapping[str, str]) -> UserOptions:
        """The same with options that were not set."""
        return replace(self, settings={**options, **self.settings})

    @property
    def given(self) -> dict[str, str]:
        """Every option that was set, by the command line or else by the file."""
        return {**self.of_file, **self.settings}

    def address(self, flag: str | None, default: str) -> str:
        """Where a name server or controller listens."""
        host, port = parse_address(flag or default)
        of_file = {} if flag is not None else self.of_file
        return format_address(self.settings.get("bindAddress") or of_file.get("bindAddress") or host, port)

    def broker_options(self, flag: str | None, default: str, namesrv: str) -> dict[str, str]:
        """What a broker is given on top of the file."""
        place = split_listen(flag or default)
        if flag is None:
            place = {name: self.of_file.get(name, text) for name, text in place.items()}
        return {**place, "namesrvAddr": reachable(namesrv), **self._places, **self.settings}

    def with_grpc(self, flag: str | None, bind_address: str) -> UserOptions:
        """The same with the port of gRPC that the flag asks for; empty: the one of the file, or the default one."""
        if flag is None:
            return self
        _, port = parse_address(flag) if flag else ("", DEFAULT_PORT)
        if flag and flag != format_address(bind_address, port):
            raise InvalidArgumentError(
                f"--grpc {flag}: the port of gRPC is at the broker's own address, {bind_address} (--broker-listen)"
            )
        of_file = self.of_file.get("grpcServerPort", "")
        return self.with_options({"grpcServerPort": str(port) if flag or of_file in ("", str(OFF)) else of_file})

    @property
    def shared(self) -> dict[str, str]:
        """What counts for name server and controller too."""
        return {**self._places, **{name: text for name, text in self.given.items() if name in _SHARED}}

    @property
    def _places(self) -> dict[str, str]:
        """Where all servers of one command find accounts, unless given otherwise."""
        places = {"aclHome": self.data, "authConfigPath": os.path.join(self.data, "config")}
        return {name: self.of_file.get(name, path) for name, path in places.items()}


def with_port(address: str) -> str:
    """The address, or that of a free port instead of port 0: others get the address of a server before it listens."""
    host, port = parse_address(address)
    if port:
        return address
    from flaremq.cli.servers.child import free_broker_ports

    return format_address(host, free_broker_ports(1)[0])


def reachable(address: str) -> str:
    """The address at which servers of this machine find one that may listen at every address."""
    host, port = parse_address(address)
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return address
    if not found.is_unspecified:
        return address
    return format_address("127.0.0.1" if found.version == 4 else "::1", port)
