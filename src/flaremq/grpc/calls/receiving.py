"""ReceiveMessage: messages are taken by POP, made into what clients read, and given with a handle each.

What was taken and cannot be given (the client went away in the middle) is given back: others see it after a second, and
it does not count as an attempt. So taking goes on when its call is cancelled, and only then its result is looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from flaremq.errors import CorruptionError, FlareMQError, InvalidArgumentError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.backends.requests import ack_request, change_request, dead_letter_request, pop_request
from flaremq.grpc.call import Call, Send
from flaremq.grpc.calls.renewal import Renewal
from flaremq.grpc.calls.routes import find_topic
from flaremq.grpc.calls.sessions import Sessions
from flaremq.grpc.framing import prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import ClientType, Code, FilterType
from flaremq.grpc.plain.deliveries import Deliveries, PlainRecord, read_plain_record
from flaremq.grpc.plain.wire import IS_COMPILED
from flaremq.grpc.rules.delivered import delivered, message_id_of, records, stored_records
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import group_of, topic_of
from flaremq.grpc.rules.pop_reply import PopReply
from flaremq.grpc.rules.receipts import NORMAL, Receipt, ReceiptSeal
from flaremq.grpc.rules.settings import max_attempts
from flaremq.grpc.rules.status import OK, Refused, of_error, of_remoting, of_reply
from flaremq.grpc.rules.times import duration, timestamp, to_ms
from flaremq.message.message_ext import MessageExt
from flaremq.message.tags import SQL92, TAG, split_tags
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand

_log = logging.getLogger(__name__)

_BEFORE_DEADLINE_MS: Final = 200  # so long before its deadline a call is answered
_SPARE_SECONDS: Final = 5.0  # a broker may answer a poll that much after its time
_REQUEST_MS: Final = 3_000
_EXPRESSION_MAX: Final = 8_192

_TOGETHER_BYTES: Final = 65_536  # of messages that are sent together; more are only the rest of the last of them
_GOOD: Final = prefixed(classes.ReceiveMessageResponse(status=OK).SerializeToString())

# A message, its receipt, and how often it was given before. What is plain has no receipt until somebody wants it.
_Taken = tuple[MessageExt | PlainRecord, Receipt | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """What a call wants."""

    group: str
    topic: str
    broker: str
    count: int
    invisible_ms: int
    poll_ms: int
    expression_type: str
    expression: str
    tags: frozenset[str]  # to tell a tag from another one with the same hash; empty: any
    is_ordered: bool
    attempts_max: int
    attempt_id: str
    renews: bool
    topic_bytes: bytes
    group_bytes: bytes


class Receiving:
    """Gives messages to clients."""

    def __init__(
        self, backend: Backend, sessions: Sessions, renewal: Renewal, seal: ReceiptSeal, limits: CallLimits
    ) -> None:
        self._backend = backend
        self._sessions = sessions
        self._renewal = renewal
        self._seal = seal
        self._limits = limits
        self._tasks: set[asyncio.Future[Any]] = set()

    async def receive_message(self, request: Any, call: Call, send: Send) -> None:
        try:
            ask = await self._read(request, call)
            answer, taken = await self._take(ask, call)
        except (Refused, FlareMQError, TimeoutError) as error:
            await send(classes.ReceiveMessageResponse(status=of_error(error).status))
            await send(self._end())
            return
        await self._give(ask, answer, taken, call, send)

    async def stop(self) -> None:
        """What is under way comes to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SPARE_SECONDS)

    def _end(self) -> Any:
        return classes.ReceiveMessageResponse(delivery_timestamp=timestamp(self._backend.now_ms()))

    # What is asked for

    async def _read(self, request: Any, call: Call) -> _Ask:
        topic, group = topic_of(request.message_queue.topic), group_of(request.group)
        poll_ms = self._poll_ms(request, call)
        invisible_ms = self._invisible_ms(request)
        kind, expression, tags = _filter(request.filter_expression)
        config = await self._backend.find_group(group)
        if config is None:
            raise Refused(Code.CONSUMER_GROUP_NOT_FOUND, f"consumer group {group} does not exist")
        found = await find_topic(self._backend, topic)
        names = [queues.broker for queues in found.brokers if queues.is_readable]
        if not names:
            raise Refused(Code.FORBIDDEN, f"topic {topic} has no queue that may be read")
        wanted = request.message_queue.broker.name
        session = self._sessions.find(call)
        if session is None and request.auto_renew:  # it will send its settings later
            session = self._sessions.meet(call)
            session.client_type, session.group = ClientType.PUSH_CONSUMER, group
        return _Ask(
            group=group,
            topic=topic,
            broker=wanted if wanted in names else names[0],
            count=max(1, min(request.batch_size, self._limits.receive_batch_size)),
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
            expression_type=kind,
            expression=expression,
            tags=tags,
            is_ordered=config.consume_message_orderly,
            attempts_max=max_attempts(config),
            attempt_id=request.attempt_id[:128],
            renews=request.auto_renew and self._limits.enable_auto_renew,
            topic_bytes=topic.encode(),
            group_bytes=group.encode(),
        )

    def _poll_ms(self, request: Any, call: Call) -> int:
        """How long to wait for messages, and never so long that the client gives up first."""
        least, most = self._limits.min_long_polling_ms, self._limits.max_long_polling_ms
        left = call.remaining()
        left_ms = None if left is None else int(left * 1000)
        if request.HasField("long_polling_timeout"):
            wished = to_ms(request.long_polling_timeout)
        else:
            wished = most if left_ms is None else left_ms - _REQUEST_MS // 2
        poll_ms = max(least, min(wished, most))
        if left_ms is None:
            return poll_ms
        if poll_ms > left_ms and left_ms < least:
            raise Refused(
                Code.ILLEGAL_POLLING_TIME,
                f"the call has {left_ms} ms until its deadline, polling takes at least {least} ms",
            )
        return max(0, min(poll_ms, left_ms - _BEFORE_DEADLINE_MS))

    def _invisible_ms(self, request: Any) -> int:
        limits = self._limits
        if request.auto_renew and limits.enable_auto_renew:
            return limits.default_invisible_time_ms
        invisible_ms = to_ms(request.invisible_duration)
        if not limits.min_invisible_time_ms <= invisible_ms <= limits.max_invisible_time_ms:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"an invisible duration of {invisible_ms} ms is not {limits.min_invisible_time_ms} to "
                f"{limits.max_invisible_time_ms} ms",
            )
        return invisible_ms

    # Taking

    async def _take(self, ask: _Ask, call: Call) -> tuple[PopReply, list[_Taken]]:
        """Messages with their receipts and retries so far."""
        taking = asyncio.ensure_future(self._pop(ask, call))
        self._tasks.add(taking)
        taking.add_done_callback(self._tasks.discard)
        try:
            reply = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(lambda done: self._taken_in_vain(ask, done))
            raise
        return self._read_reply(ask, reply)

    async def _pop(self, ask: _Ask, call: Call) -> RemotingCommand:
        command = pop_request(
            ask.broker,
            group=ask.group,
            topic=ask.topic,
            count=ask.count,
            invisible_ms=ask.invisible_ms,
            poll_ms=ask.poll_ms,
            now_ms=self._backend.now_ms(),
            expression_type=ask.expression_type,
            expression=ask.expression,
            is_ordered=ask.is_ordered,
            attempt_id=ask.attempt_id,
        )
        return await self._backend.ask(ask.broker, command, call, seconds=ask.poll_ms / 1000 + _SPARE_SECONDS)

    def _read_reply(self, ask: _Ask, reply: RemotingCommand) -> tuple[PopReply, list[_Taken]]:
        if reply.code != ResponseCode.SUCCESS:
            if of_remoting(reply.code) is Code.MESSAGE_NOT_FOUND:
                raise Refused(Code.MESSAGE_NOT_FOUND, "no message came in time")
            raise of_reply(reply)
        answer = PopReply(reply.ext or {}, ask.broker)
        has_plain = IS_COMPILED and not (ask.is_ordered or answer.counts_deliveries)
        found: list[_Taken] = []
        for stored in stored_records(reply.body):
            plain = read_plain_record(stored) if has_plain else None
            if plain is not None and (not ask.tags or plain.tag.decode() in ask.tags):
                found.append((plain, None, plain.reconsume_times))
                continue
            record = MessageExt(stored)
            try:
                receipt = answer.receipt(record)
                times = answer.reconsume_times(record)
                refused = self._is_for_nobody(ask, record, receipt, times)
                if refused is not None:
                    self._spawn(refused(receipt, record))
                    continue
            except (CorruptionError, ValueError) as error:
                _log.error("a message of topic %s cannot be given to group %s: %s", ask.topic, ask.group, error)
                continue
            found.append((record, receipt, times))
        if not found:
            raise Refused(Code.MESSAGE_NOT_FOUND, "no message came in time")
        return answer, found

    def _is_for_nobody(self, ask: _Ask, record: MessageExt, receipt: Receipt, times: int) -> Any:
        """What to do with a message that this client is not to get; None for all others.

        In the topic itself a message may have the attempts of another group: a dead letter has all of them.
        """
        if ask.tags and (record.tags or "") not in ask.tags:
            return lambda receipt, record: self._settle(ask, receipt, ack_request(receipt, ask.topic, ask.group))
        if times >= ask.attempts_max and (ask.is_ordered or receipt.kind != NORMAL):
            return lambda receipt, record: self._give_up(ask, receipt, message_id_of(record))
        return None

    async def _give_up(self, ask: _Ask, receipt: Receipt, message_id: str) -> None:
        """Tried too often: a dead letter."""
        if await self._settle(ask, receipt, dead_letter_request(receipt, ask.topic, ask.group, message_id)):
            await self._settle(ask, receipt, ack_request(receipt, ask.topic, ask.group))

    # Giving

    async def _give(self, ask: _Ask, answer: PopReply, taken: list[_Taken], call: Call, send: Send) -> None:
        """A number of messages at a time: of bodies that are inflated there is never more than one that is large."""
        topic = classes.Resource(name=ask.topic).SerializeToString()
        out = Deliveries(topic, duration(ask.invisible_ms).SerializeToString())
        out.append(_GOOD)
        given = made = 0
        try:
            for one in taken:
                self._add(ask, answer, one, out, call)
                made += 1
                if out.size > _TOGETHER_BYTES:
                    await send(out.take())
                    given = made
            out.append(prefixed(self._end().SerializeToString()))
            await send(out.take())
            given = made
        finally:
            for record, receipt, _ in taken[given:]:
                self._spawn(self._give_back(ask, receipt or _receipt_of(answer, record), _id_of(record), call))

    def _add(self, ask: _Ask, answer: PopReply, taken: _Taken, out: Deliveries, call: Call) -> None:
        record, receipt, times = taken
        if isinstance(record, PlainRecord):
            words = answer.plain_words(record.queue_id, record.queue_offset, record.physical_offset)
            out.add(record, b"%b %b" % (words, self._seal.seal(words, ask.topic_bytes, ask.group_bytes)), times + 1)
        else:
            assert receipt is not None
            try:
                message = self._message(ask, record, receipt, times)
            except (CorruptionError, ValueError) as error:
                _log.error("a message of topic %s cannot be given to group %s: %s", ask.topic, ask.group, error)
                return
            out.append(prefixed(classes.ReceiveMessageResponse(message=message).SerializeToString()))
        if ask.renews:
            receipt = receipt or _receipt_of(answer, record)
            self._renewal.add((call.account, call.client_id), ask.group, ask.topic, _id_of(record), receipt, times)

    def _message(self, ask: _Ask, record: MessageExt, receipt: Receipt, times: int) -> Any:
        return delivered(
            record,
            topic=ask.topic,
            handle=self._seal.handle(receipt, ask.topic, ask.group),
            reconsume_times=times,
            invisible_ms=ask.invisible_ms,
        )

    def _taken_in_vain(self, ask: _Ask, taking: asyncio.Future[RemotingCommand]) -> None:
        """The client has gone before there was an answer."""
        if taking.cancelled() or taking.exception() is not None:
            return
        reply = taking.result()
        if reply.code != ResponseCode.SUCCESS:
            return
        answer = PopReply(reply.ext or {}, ask.broker)
        try:
            for record in records(reply.body):
                self._spawn(self._give_back(ask, answer.receipt(record), message_id_of(record), None))
        except (CorruptionError, ValueError) as error:
            _log.error("messages of topic %s cannot be given back: %s", ask.topic, error)

    async def _give_back(self, ask: _Ask, receipt: Receipt, message_id: str, call: Call | None) -> None:
        if call is not None and ask.renews:
            receipt = await self._renewal.end((call.account, call.client_id), ask.group, message_id, receipt)
        wish = change_request(receipt, ask.topic, ask.group, self._limits.invisible_time_when_clear_ms, suspend=True)
        await self._settle(ask, receipt, wish)

    async def _settle(self, ask: _Ask, receipt: Receipt, request: RemotingCommand) -> bool:
        try:
            reply = await self._backend.ask(receipt.broker, request, seconds=self._limits.request_timeout_ms / 1000)
        except (FlareMQError, TimeoutError) as error:
            _log.info("a message of topic %s comes back in its own time: %s", ask.topic, error)
            return False
        return not reply.code

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _receipt_of(answer: PopReply, record: MessageExt | PlainRecord) -> Receipt:
    return answer.plain_receipt(record.queue_id, record.queue_offset, record.physical_offset)


def _id_of(record: MessageExt | PlainRecord) -> str:
    return record.message_id.decode() if isinstance(record, PlainRecord) else message_id_of(record)


def _filter(expression: Any) -> tuple[str, str, frozenset[str]]:
    """Type and text of a filter, and its tags."""
    text: str = expression.expression
    if len(text.encode()) > _EXPRESSION_MAX:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, f"the filter expression has more than {_EXPRESSION_MAX} bytes")
    if expression.type == FilterType.SQL:
        if not text.strip():
            raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, "the SQL expression is blank")
        return SQL92, text, frozenset()
    try:
        tags = split_tags(text)
    except InvalidArgumentError as error:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
    return TAG, text or "*", frozenset(tags)
