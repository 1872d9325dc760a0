"""ServerOptions: what name servers and controllers do alike with their options.

A server's own rows stand in its class; those of its connections, its metrics and its access control are rows of their
own classes, loaded from the same file and told apart by their names.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from flaremq.access.options import AccessOptions, check_bind, load_private
from flaremq.errors import InvalidArgumentError
from flaremq.metrics.options import ControllerMetricsOptions, NamesrvMetricsOptions, check_reach
from flaremq.options import (
    IDENTITY,
    SECURITY,
    change_live,
    check_values,
    find_unknown_names,
    idle_warnings,
    option,
    properties_of,
    rows_by_key,
    values_from_properties,
)
from flaremq.remoting.options import RemotingOptions


def patient_remoting(properties: Mapping[str, str] | None = None) -> RemotingOptions:
    """RocketMQ's clients and brokers open connections to every such server they know and are silent on most of
    them, so here the first frame may take as long as a connection may be idle."""
    values: dict[str, Any] = dict(values_from_properties(RemotingOptions, properties or {}))
    idle = values.get("server_channel_max_idle_time_seconds", RemotingOptions().server_channel_max_idle_time_seconds)
    return RemotingOptions(**{"first_frame_seconds": idle, **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of one server. Nothing but :meth:`change` alters an instance."""

    SERVER: ClassVar[str]  # what RocketMQ calls it
    METRICS: ClassVar[type[NamesrvMetricsOptions] | type[ControllerMetricsOptions]]
    ONLY_IN_ROCKETMQ: ClassVar[frozenset[str]]  # names that its file may hold there, and that mean nothing here

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off
    bind_address: str = option(
        "127.0.0.1", rocketmq="bindAddress", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address to listen at. RocketMQ's default is every address of the machine.")
    insecure_bind_enable: bool = option(
        False, flaremq="insecureBindEnable", affects="behaviour", fixed=SECURITY,
        doc="Allow a `bindAddress` that other machines reach without access control: everybody who reaches it may do "
            "everything.")
    # fmt: on

    # Limits and timings of the connections: rows of their own class, loaded from the same file.
    remoting: RemotingOptions = field(default_factory=patient_remoting)
    # What it tells about itself, likewise.
    metrics: NamesrvMetricsOptions | ControllerMetricsOptions
    # Who may do what, likewise.
    access: AccessOptions = field(default_factory=AccessOptions)
    # Names that were loaded but change nothing; no option, only the memory that `warnings` needs.
    ignored_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)
        check_bind(str(self.address), self.access, insecure=self.insecure_bind_enable)
        check_reach(self.metrics.endpoint, insecure=self.insecure_bind_enable)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Options from the names and texts of a properties file; unknown names and bad values are refused."""
        kinds = (cls, RemotingOptions, AccessOptions, cls.METRICS)
        known = {key for kind in kinds for key in rows_by_key(kind)}
        unknown = find_unknown_names(properties, known | cls.ONLY_IN_ROCKETMQ)
        if unknown:
            raise InvalidArgumentError("; ".join(map(str, unknown)))
        values: dict[str, Any] = dict(values_from_properties(cls, properties))
        access: dict[str, Any] = dict(values_from_properties(AccessOptions, properties))
        metrics: dict[str, Any] = dict(values_from_properties(cls.METRICS, properties))
        ignored = tuple(name for name in properties if name in cls.ONLY_IN_ROCKETMQ)
        return cls(
            **values,
            remoting=patient_remoting(properties),
            metrics=cls.METRICS(**metrics),
            access=AccessOptions(**access),
            ignored_names=ignored,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> Self:
        """Options from a file, if one is given, with ``overrides`` (same names) on top."""
        return cls.from_properties(load_private(path, overrides))

    @property
    def layers(self) -> tuple[object, ...]:
        """Its own rows and those of its parts, each as an object of options."""
        return self, self.remoting, self.metrics, self.access

    def to_properties(self, *, changed_only: bool = False) -> dict[str, str]:
        """The names and texts that :meth:`from_properties` would read back."""
        texts = (properties_of(options, changed_only=changed_only) for options in self.layers)
        return {name: text for layer in texts for name, text in layer.items()}

    def change(self, properties: Mapping[str, str]) -> None:
        """Change options of a running server: all of them, or none and InvalidArgumentError."""
        change_live(properties, self.layers)

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """Where it listens."""
        try:
            return ipaddress.ip_address(self.bind_address)
        except ValueError:
            raise rows_by_key(type(self))["bindAddress"].refusal(self.bind_address) from None

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that was set and will not do what it says."""
        ignored = [
            f"{name} is ignored: it belongs to a part of RocketMQ's {self.SERVER} that does not exist here"
            for name in self.ignored_names
        ]
        return ignored + idle_warnings(self)
