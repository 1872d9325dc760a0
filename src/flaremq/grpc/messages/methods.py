"""The calls of `MessagingService`: their names, what they take and give, and how many of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flaremq.grpc.messages import classes
from flaremq.grpc.messages.table import PACKAGE

SERVICE: Final = f"{PACKAGE}.MessagingService"


class Shape(Enum):
    """How many messages go either way."""

    UNARY = "unary"  # one request, one reply
    SERVER_STREAM = "server stream"  # one request, many replies
    BIDI = "bidi"  # many of both, in any order

    @property
    def is_stream(self) -> bool:
        """Whether a call may stay open for long."""
        return self is not Shape.UNARY


@dataclass(frozen=True, slots=True)
class Method:
    """One call of the service."""

    name: str
    request: Any  # a message class
    reply: Any
    shape: Shape

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"

    def failure(self, code: int, message: str) -> Any:
        """A reply that says only why there is no other; every reply of the protocol has a status."""
        reply = self.reply()
        reply.status.code = code
        reply.status.message = message
        return reply


def _method(name: str, shape: Shape = Shape.UNARY) -> Method:
    return Method(name, getattr(classes, f"{name}Request"), getattr(classes, f"{name}Response"), shape)


METHODS: Final = {
    method.name: method
    for method in (
        _method("QueryRoute"),
        _method("Heartbeat"),
        _method("SendMessage"),
        _method("QueryAssignment"),
        _method("ReceiveMessage", Shape.SERVER_STREAM),
        _method("AckMessage"),
        _method("ForwardMessageToDeadLetterQueue"),
        _method("PullMessage", Shape.SERVER_STREAM),
        _method("UpdateOffset"),
        _method("GetOffset"),
        _method("QueryOffset"),
        _method("EndTransaction"),
        Method("Telemetry", classes.TelemetryCommand, classes.TelemetryCommand, Shape.BIDI),
        _method("NotifyClientTermination"),
        _method("ChangeInvisibleDuration"),
        _method("RecallMessage"),
        _method("SyncLiteSubscription"),
    )
}
