"""EndTransaction, and where the half messages are that it speaks of.

A client knows its transaction by an id, a broker by the place of the half message. The place is remembered from the
send, and anew from each check, which moves it. It is not forgotten with the outcome: a client that did not hear of it
says the same once more and is answered the same.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.backends.requests import end_transaction_request
from flaremq.grpc.call import Call
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, TransactionResolution, TransactionSource
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import topic_of
from flaremq.grpc.rules.status import OK, Refused, of_reply
from flaremq.message.sys_flag import TransactionType

_OUTCOMES: Final = {
    TransactionResolution.COMMIT: TransactionType.COMMIT,
    TransactionResolution.ROLLBACK: TransactionType.ROLLBACK,
}
_KEPT_MAX: Final = 100_000


@dataclass(slots=True, eq=False)
class _Place:
    """A half message, by its last copy."""

    broker: str
    queue_offset: int
    physical_offset: int
    ended_as: int = 0  # a resolution, once there is one


class Transactions:
    """The transactions of a door that clients may still speak of."""

    def __init__(self, backend: Backend, limits: CallLimits) -> None:
        self._backend = backend
        self._seconds = limits.request_timeout_ms / 1000
        self._places: OrderedDict[tuple[str, str], _Place] = OrderedDict()

    def note(self, topic: str, transaction_id: str, *, broker: str, queue_offset: int, physical_offset: int) -> None:
        """The half message of a transaction is here."""
        key = topic, transaction_id
        self._places[key] = _Place(broker, queue_offset, physical_offset)
        self._places.move_to_end(key)
        if len(self._places) > _KEPT_MAX:
            self._places.popitem(last=False)

    async def end_transaction(self, request: Any, call: Call) -> Any:
        topic = topic_of(request.topic)
        transaction_id: str = request.transaction_id
        if not transaction_id.strip():
            raise Refused(Code.INVALID_TRANSACTION_ID, "the transaction id is blank")
        outcome = _OUTCOMES.get(request.resolution)
        if outcome is None:  # the client does not know yet and is asked again
            return classes.EndTransactionResponse(status=OK)
        place = self._places.get((topic, transaction_id))
        if place is None:
            raise Refused(
                Code.INTERNAL_SERVER_ERROR,
                f"transaction {transaction_id[:128]} of topic {topic} is not known here: the broker will ask about it",
            )
        if place.ended_as:
            if place.ended_as == request.resolution:
                return classes.EndTransactionResponse(status=OK)
            raise Refused(Code.INTERNAL_SERVER_ERROR, f"transaction {transaction_id[:128]} has ended the other way")
        reply = await self._backend.ask(
            place.broker,
            end_transaction_request(
                place.broker,
                topic=topic,
                message_id=request.message_id,
                transaction_id=transaction_id,
                queue_offset=place.queue_offset,
                physical_offset=place.physical_offset,
                outcome=outcome,
                is_answer=request.source == TransactionSource.SOURCE_SERVER_CHECK,
            ),
            call,
            seconds=self._seconds,
        )
        if reply.code:
            raise of_reply(reply)
        place.ended_as = request.resolution
        return classes.EndTransactionResponse(status=OK)
