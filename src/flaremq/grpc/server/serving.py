"""Serving: what the connections of one port share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from flaremq.grpc.call import AtOnce, Call, Handlers
from flaremq.grpc.http2.limits import Limits
from flaremq.grpc.messages.methods import METHODS, Method
from flaremq.grpc.options import GrpcOptions
from flaremq.grpc.server.budget import Budget
from flaremq.remoting.options import RemotingOptions

if TYPE_CHECKING:
    from flaremq.grpc.server.deadlines import Deadlines
    from flaremq.grpc.server.exchange import Exchange

_MARGIN: Final = 1 << 20  # for what stands around a body in its request

Refusal = tuple[int, str]  # code and text of a status


class Place(Protocol):
    """Where calls come from: a connection."""

    visitor: Any  # what the guard keeps of it

    def close(self) -> None: ...


class Guard(Protocol):
    """Who stands before the handlers. Sets ``call.account``."""

    def identify(self, call: Call, place: Place) -> Refusal | Awaitable[Refusal] | None:
        """Who calls? Asked once a call, before anything of it is read. What is awaited is a refusal that comes late."""

    def allow(self, method: Method, request: Any, call: Call, place: Place) -> Refusal | None:
        """May it? Asked for every request of a call."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A method that is served."""

    method: Method
    handler: Any
    decode: Callable[[bytes], Any]
    reply: type
    at_once: AtOnce | None


def entries_of(handlers: Handlers, at_once: Mapping[str, AtOnce]) -> dict[str, Entry]:
    """By the path under which clients ask for them."""
    found = {}
    for name, handler in handlers.items():
        method = METHODS[name]
        found[method.path] = Entry(method, handler, method.request.FromString, method.reply, at_once.get(name))
    return found


@dataclass(slots=True, kw_only=True)
class Counts:
    """What has happened at the port."""

    calls: int = 0
    refused: int = 0  # connections
    reads: int = 0


@dataclass(slots=True, kw_only=True)
class Serving:
    """One for all connections of a port."""

    entries: Mapping[str, Entry]
    options: GrpcOptions
    remoting: RemotingOptions
    limits: Limits
    budget: Budget
    deadlines: Deadlines[Exchange]
    message_max: int
    guard: Guard | None = None
    counts: Counts = field(default_factory=Counts)


def message_max(options: GrpcOptions, body_max: int) -> int:
    """Bytes a request may have."""
    return max(options.grpc_max_inbound_message_size, body_max + _MARGIN)
