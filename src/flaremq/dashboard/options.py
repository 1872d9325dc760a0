"""DashboardOptions: where it listens, what it looks at, who may change things."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from flaremq.client.options import ClientOptions
from flaremq.dashboard.security.hosts import HostCheck
from flaremq.errors import InvalidArgumentError
from flaremq.remoting.address import format_address, parse_address

DEFAULT_LISTEN: Final = "127.0.0.1:8082"  # the port of RocketMQ's dashboard
_AUDIT_FILE: Final = "dashboard-audit.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """Immutable."""

    name_servers: str
    listen: str = DEFAULT_LISTEN
    token_file: str | None = None  # None: nothing can be changed
    allowed_hosts: tuple[str, ...] = ()  # names besides the loopback's and the listening address's, as of a proxy
    audit_folder: str = "."  # where the audit log is written
    archives: tuple[str, ...] = ()  # folders of archives to tell of
    tables: tuple[str, ...] = ()  # of the lakehouse to tell of, as `pipeline table` names them
    warehouse: str | None = None  # of the embedded Iceberg catalog
    is_download_allowed: bool = True
    is_insecure: bool = False  # another machine may come in without signing in
    client: ClientOptions = field(default_factory=ClientOptions)

    def __post_init__(self) -> None:
        if self.tables:
            from flaremq.pipeline.tables.model.target import parse_target

            for table in self.tables:
                parse_target(table)
        host, _ = parse_address(self.listen)
        is_guarded = self.token_file is not None or bool(self.client.access_key) or self.is_insecure
        if not HostCheck(host).is_local and not is_guarded:
            raise InvalidArgumentError(
                f"the dashboard would be open to other machines at {self.listen}: give --token-file, so that they have "
                "to sign in, or listen at 127.0.0.1"
            )

    @property
    def host(self) -> str:
        return parse_address(self.listen)[0]

    @property
    def port(self) -> int:
        return parse_address(self.listen)[1]

    @property
    def audit_path(self) -> str:
        return os.path.join(os.path.abspath(self.audit_folder), _AUDIT_FILE)

    def url(self, port: int) -> str:
        """What a person opens."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host
        return f"http://{format_address(host, port)}/"
