"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what becomes of a message that was given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from flaremq.errors import FlareMQError, NotFoundError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.backends.requests import ack_request, change_request, dead_letter_request
from flaremq.grpc.call import Call
from flaremq.grpc.calls.renewal import Renewal, changed_receipt
from flaremq.grpc.framing import PREFIX_SIZE
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.plain.acks import PlainAck, acknowledged_reply, read_plain_ack
from flaremq.grpc.plain.wire import varint
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import group_of, topic_of
from flaremq.grpc.rules.receipts import NORMAL, ORDER_REVIVE_QUEUE, Receipt, ReceiptSeal
from flaremq.grpc.rules.status import OK, Refused, of_error, of_many, of_reply
from flaremq.grpc.rules.times import to_ms
from flaremq.protocol.command import RemotingCommand

_NAMES_MAX: Final = 65_536  # topics and groups that are remembered
_NORMAL: Final = NORMAL.encode()
_STATUS: Final = OK.SerializeToString()
_OK: Final = varint(len(_STATUS)) + _STATUS


class Settling:
    """Settles messages by their handles."""

    def __init__(self, backend: Backend, renewal: Renewal, seal: ReceiptSeal, limits: CallLimits) -> None:
        self._backend = backend
        self._renewal = renewal
        self._seal = seal
        self._limits = limits
        self._seconds = limits.request_timeout_ms / 1000
        self._names: dict[tuple[bytes, bytes], tuple[str, str]] = {}  # of topics and groups, that were looked at

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

    def ack_at_once(self, request: bytes, client_id: str, peer: str) -> bytes | None:
        """The reply, as it goes out, to an acknowledgement that need not wait for anything; both with their length
        before them. None: nothing was done, it takes the ordinary way, which also says why something is refused."""
        ack = read_plain_ack(request, PREFIX_SIZE) if self._backend.can_settle() else None
        if (
            ack is None
            or ack.revive_queue_id == ORDER_REVIVE_QUEUE
            or not self._seal.is_own(ack.words, ack.seal, ack.topic, ack.group)
            or ack.pop_time + ack.invisible_time <= self._backend.now_ms()
        ):
            return None
        try:
            is_settled = self._settle(ack, client_id)
        except FlareMQError:  # once more is as good as once
            return None
        return acknowledged_reply(_OK, ack.message_id, ack.handle) if is_settled else None

    def _settle(self, ack: PlainAck, client_id: str) -> bool:
        topic, group = self._names.get((ack.topic, ack.group)) or self._learned(ack.topic, ack.group)
        renewal = self._renewal
        if ack.kind == _NORMAL and not renewal:
            is_settled = self._backend.settle(topic, group, ack)
        else:
            client, message_id, receipt = ("", client_id), ack.message_id.decode(), _receipt_of(ack)
            is_settled = (
                renewal.present(client, group, message_id, receipt) == receipt  # not renewed, nor about to be
                and self._backend.settle(receipt.real_topic(topic, group), group, ack)
            )
            if is_settled:
                renewal.end_now(client, group, message_id, receipt)
        return is_settled

    def _learned(self, topic: bytes, group: bytes) -> tuple[str, str]:
        """Names that may be acknowledged for; Refused if they may not."""
        names = topic_of(classes.Resource(name=topic.decode())), group_of(classes.Resource(name=group.decode()))
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names[topic, group] = names
        return names

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


def _receipt_of(ack: PlainAck) -> Receipt:
    return Receipt(
        ack.start_offset,
        ack.pop_time,
        ack.invisible_time,
        ack.revive_queue_id,
        ack.kind.decode(),
        ack.broker.decode(),
        ack.queue_id,
        ack.offset,
        ack.physical_offset,
    )


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
