"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what becomes of a message that was given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from flaremq.errors import FlareMQError, NotFoundError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.backends.requests import ack_request, change_request, dead_letter_request
from flaremq.grpc.call import Call
from flaremq.grpc.calls.renewal import Renewal, changed_receipt
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import group_of, topic_of
from flaremq.grpc.rules.receipts import Receipt, ReceiptSeal
from flaremq.grpc.rules.status import OK, Refused, of_error, of_many, of_reply
from flaremq.grpc.rules.times import to_ms
from flaremq.protocol.command import RemotingCommand


class Settling:
    """Settles messages by their handles."""

    def __init__(self, backend: Backend, renewal: Renewal, seal: ReceiptSeal, limits: CallLimits) -> None:
        self._backend = backend
        self._renewal = renewal
        self._seal = seal
        self._limits = limits
        self._seconds = limits.request_timeout_ms / 1000

    def ack_message(self, request: Any, call: Call) -> Any:
        """A reply or an awaitable of one: it takes no task where a single message is settled at once."""
        topic, group = topic_of(request.topic), group_of(request.group)
        entries = request.entries
        if not entries:
            raise Refused(Code.INTERNAL_SERVER_ERROR, "there is nothing to acknowledge")
        if len(entries) > self._limits.acks_per_call_max:
            raise Refused(
                Code.BAD_REQUEST,
                f"{len(entries)} acknowledgements in one call, at most {self._limits.acks_per_call_max} are taken",
            )
        if len(entries) == 1:
            return self._ack_one(entries[0], topic, group, call)
        return self._ack_many(entries, topic, group, call)

    def _ack_one(self, entry: Any, topic: str, group: str, call: Call) -> Any:
        try:
            given = self._seal.parse(entry.receipt_handle, topic, group)
            receipt = self._renewal.end_now((call.account, call.client_id), group, entry.message_id, given)
            if receipt is None:
                return self._ack_many([entry], topic, group, call)
            self._check_time(receipt)
            request = ack_request(receipt, topic, group)
            outcome = self._backend.ask_now(receipt.broker, request, call, seconds=self._seconds)
        except (Refused, FlareMQError) as error:
            return _acknowledged([_result(entry, _of_ask(error).status)])
        if isinstance(outcome, RemotingCommand):
            return _acknowledged([_result(entry, _said(outcome))])
        return self._ack_later(entry, outcome)

    async def _ack_later(self, entry: Any, outcome: Awaitable[RemotingCommand]) -> Any:
        try:
            status = _said(await outcome)
        except (FlareMQError, TimeoutError) as error:
            status = _of_ask(error).status
        return _acknowledged([_result(entry, status)])

    async def _ack_many(self, entries: Sequence[Any], topic: str, group: str, call: Call) -> Any:
        return _acknowledged(await asyncio.gather(*(self._ack(entry, topic, group, call) for entry in entries)))

    async def _ack(self, entry: Any, topic: str, group: str, call: Call) -> Any:
        result = OK
        try:
            receipt = await self._receipt(entry.receipt_handle, entry.message_id, topic, group, call)
            await self._ask(receipt, ack_request(receipt, topic, group), call)
        except (Refused, FlareMQError, TimeoutError) as error:
            result = of_error(error).status
        return _result(entry, result)

    async def change_invisible_duration(self, request: Any, call: Call) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        invisible_ms = to_ms(request.invisible_duration)
        if not 0 <= invisible_ms <= self._limits.max_invisible_time_ms:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"an invisible duration of {invisible_ms} ms is not 0 to {self._limits.max_invisible_time_ms} ms",
            )
        receipt = await self._receipt(request.receipt_handle, request.message_id, topic, group, call)
        wish = change_request(receipt, topic, group, invisible_ms, suspend=request.suspend)
        reply = await self._ask(receipt, wish, call)
        changed = changed_receipt(receipt, reply)
        if changed is None:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is no longer good")
        handle = self._seal.handle(changed, topic, group)
        return classes.ChangeInvisibleDurationResponse(status=OK, receipt_handle=handle)

    async def forward_to_dead_letters(self, request: Any, call: Call) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        receipt = await self._receipt(request.receipt_handle, request.message_id, topic, group, call)
        if receipt.physical_offset < 0:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle does not tell where the message is")
        await self._ask(receipt, dead_letter_request(receipt, topic, group, request.message_id), call)
        # The message is safe now; a failure from here on would only make it a dead letter twice.
        try:
            await self._ask(receipt, ack_request(receipt, topic, group), call)
        except (Refused, FlareMQError):
            pass
        reply = classes.ForwardMessageToDeadLetterQueueResponse(status=OK)
        reply.status.message = "0"  # the original tells the code of the other protocol
        return reply

    async def _receipt(self, handle: str, message_id: str, topic: str, group: str, call: Call) -> Receipt:
        """The present receipt of a message; renewing it is over."""
        given = self._seal.parse(handle, topic, group)
        receipt = await self._renewal.end((call.account, call.client_id), group, message_id, given)
        self._check_time(receipt)
        return receipt

    def _check_time(self, receipt: Receipt) -> None:
        if receipt.visible_at <= self._backend.now_ms():
            raise Refused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle has expired")

    async def _ask(self, receipt: Receipt, request: RemotingCommand, call: Call) -> RemotingCommand:
        try:
            reply = await self._backend.ask(receipt.broker, request, call, seconds=self._seconds)
        except NotFoundError as error:
            raise _of_ask(error) from None
        if reply.code:
            raise of_reply(reply)
        return reply


def _said(reply: RemotingCommand) -> Any:
    """The status of a broker's reply."""
    return of_reply(reply).status if reply.code else OK


def _of_ask(error: Exception) -> Refused:
    """What it says to a client that a broker could not be asked."""
    return Refused(Code.INVALID_RECEIPT_HANDLE, str(error)) if isinstance(error, NotFoundError) else of_error(error)


def _result(entry: Any, status: Any) -> Any:
    return classes.AckMessageResultEntry(
        message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
    )


def _acknowledged(results: list[Any]) -> Any:
    return classes.AckMessageResponse(status=of_many(results), entries=results)
