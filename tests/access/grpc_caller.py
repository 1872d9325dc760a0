"""Who calls over gRPC, as the guard sees it."""

from __future__ import annotations

import hmac
from typing import Any

from flaremq.access.callers.caller_guard import CallerGuard
from flaremq.access.guard import Guard
from flaremq.grpc.call import Call
from flaremq.grpc.guard import CallGuard

_TIME = "20260101T000000Z"


class Place:
    """A connection."""

    visitor: Any = None

    def close(self) -> None: ...


def guard_of_calls(own: Guard) -> CallGuard:
    """The guard of calls with the accounts, the rules and the log of one of requests."""
    return CallGuard(
        CallerGuard(
            own._judge,
            own._voice,
            own._around,
            attempts=own._attempts,
            audit=own._audit,
            authorizes=True,
            without_tls=False,
        )
    )


def proof_of(name: str, secret: bytes) -> dict[str, str]:
    """The headers by which a call is signed; an empty name: it is not."""
    signature = hmac.digest(secret, _TIME.encode(), "sha1").hex()
    proof = f"MQv2-HMAC-SHA1 Credential={name}/x, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": proof, "x-mq-date-time": _TIME} if name else {}


def call_of(method: str, name: str, secret: bytes, **more: Any) -> Call:
    return Call(method, proof_of(name, secret), **more)
