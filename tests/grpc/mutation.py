"""Requests of every call, changed at random: some are no messages any more, others say what no client ever would."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import random
from collections import Counter
from typing import Any

from flaremq.grpc.call import GrpcError
from flaremq.grpc.framing import PREFIX_SIZE, prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS, Shape
from flaremq.grpc.rules.limits import CallLimits
from tests.grpc.door_lab import (
    PEER,
    DoorLab,
    consumer_settings,
    message,
    open_door,
    producer_settings,
    receive_request,
    replies_of,
    resource,
)

LIMITS = CallLimits(min_long_polling_ms=0, max_long_polling_ms=1, min_invisible_time_ms=0)
NUMBERS = (0, 1, -1, 2, 7, 999, 2**31 - 1, -(2**31), 10**6)
LARGE = (*NUMBERS, 2**63 - 1, -(2**63), 2**53, 1_700_000_000, 253_402_300_800)
TEXTS = ("", " ", "T", "G", "F", "X", "%RETRY%G", "%DLQ%G", "a b", "ä\u0085", "\0", "\x01\x02", "x" * 200, "x" * 20_000,
         "A || B", "||", "a > 1", "9 9 9 9 0 broker-a 0 0 0 x", "-1", "1e9", "nan", "\ud7ff", "🙂" * 40)  # fmt: skip


def corpus(handle: str, transaction_id: str) -> dict[str, list[Any]]:
    """Requests as clients make them."""
    group, topic = resource("G"), resource("T")
    queue = classes.MessageQueue(topic=topic, id=0, broker=classes.Broker(name="broker-a"))
    entry = classes.AckMessageEntry(message_id="ID", receipt_handle=handle)
    settled: dict[str, Any] = {"group": group, "topic": topic, "receipt_handle": handle, "message_id": "ID"}
    command = classes.TelemetryCommand
    return {
        "QueryRoute": [classes.QueryRouteRequest(topic=topic, endpoints=classes.Endpoints(
            scheme=1, addresses=[classes.Address(host="127.0.0.1", port=8081)]))],
        "Heartbeat": [classes.HeartbeatRequest(group=group, client_type=2), classes.HeartbeatRequest(client_type=1)],
        "SendMessage": [
            classes.SendMessageRequest(messages=[message("T", tag="A", keys=["k"], properties={"a": "1"})]),
            classes.SendMessageRequest(messages=[message("X", message_group="g"), message("X", trace_context="t")]),
            classes.SendMessageRequest(messages=[message("X", delivery_timestamp=1_700_000_100_000)]),
            classes.SendMessageRequest(messages=[message("X", message_type=4, recovery_seconds=30)]),
        ],
        "QueryAssignment": [classes.QueryAssignmentRequest(topic=topic, group=group)],
        "ReceiveMessage": [receive_request("T", "G", attempt="a"), receive_request("T", "G", sql="a > 0", renew=True)],
        "AckMessage": [classes.AckMessageRequest(group=group, topic=topic, entries=[entry, entry])],
        "ForwardMessageToDeadLetterQueue": [classes.ForwardMessageToDeadLetterQueueRequest(**settled)],
        "ChangeInvisibleDuration": [
            classes.ChangeInvisibleDurationRequest(**settled, invisible_duration=classes.Duration(seconds=30))
        ],
        "PullMessage": [classes.PullMessageRequest(group=group, message_queue=queue, batch_size=8)],
        "UpdateOffset": [classes.UpdateOffsetRequest(group=group, message_queue=queue, offset=1)],
        "GetOffset": [classes.GetOffsetRequest(group=group, message_queue=queue)],
        "QueryOffset": [classes.QueryOffsetRequest(
            message_queue=queue, query_offset_policy=2, timestamp=classes.Timestamp(seconds=1))],
        "EndTransaction": [
            classes.EndTransactionRequest(topic=resource("X"), transaction_id=transaction_id, resolution=1)
        ],
        "Telemetry": [
            command(settings=producer_settings("T", "X")), command(settings=consumer_settings("G", "T")),
            command(thread_stack_trace=classes.ThreadStackTrace(nonce="n", thread_stack_trace="t")),
            command(verify_message_result=classes.VerifyMessageResult(nonce="n")),
        ],
        "NotifyClientTermination": [classes.NotifyClientTerminationRequest(group=group)],
        "RecallMessage": [classes.RecallMessageRequest(topic=resource("X"), recall_handle="djEgWCBicm9rZXItYSAxIElE")],
        "SyncLiteSubscription": [classes.SyncLiteSubscriptionRequest(topic=topic, group=group, lite_topic_set=["l"])],
    }  # fmt: skip


class Mutations:
    """Changes requests; the same seed makes the same changes."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def of(self, request: Any) -> bytes:
        """Bytes a client might send instead."""
        if self.dice.random() < 0.2:
            return self._bytes(bytearray(request.SerializeToString()))
        changed = type(request)()
        changed.CopyFrom(request)
        for _ in range(self.dice.choice((1, 1, 1, 2, 4))):
            self._field(changed)
        data: bytes = changed.SerializeToString()
        return data

    def _bytes(self, data: bytearray) -> bytes:
        for _ in range(self.dice.randint(1, 4)):
            at = self.dice.randrange(len(data) + 1)
            how = self.dice.randrange(4)
            if how == 0:
                data[at : at + self.dice.randint(1, 8)] = b""
            elif how == 1:
                data[at:at] = self.dice.randbytes(self.dice.randint(1, 8))
            elif at < len(data):
                data[at] = self.dice.randrange(256) if how == 2 else data[at] ^ (1 << self.dice.randrange(8))
        return bytes(data)

    def _field(self, message: Any) -> None:
        fields = message.DESCRIPTOR.fields
        if not fields:
            return
        field = self.dice.choice(fields)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[self.dice.choice(TEXTS)] = self.dice.choice(TEXTS)
        elif self.dice.random() < 0.1:
            message.ClearField(field.name)
        elif field.is_repeated:
            self._repeated(message, field)
        elif field.message_type is not None:
            self._field(getattr(message, field.name))
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, self._value(field))

    def _repeated(self, message: Any, field: Any) -> None:
        values = getattr(message, field.name)
        if field.message_type is None:
            values.extend([self._value(field) for _ in range(self.dice.choice((1, 2, 40)))])
        elif values and self.dice.random() < 0.8:
            self._field(self.dice.choice(values))
        else:
            for _ in range(self.dice.choice((1, 3))):
                self._field(values.add())

    def _value(self, field: Any) -> Any:
        if field.type == field.TYPE_STRING:
            return self.dice.choice(TEXTS)
        if field.type == field.TYPE_BYTES:
            return self.dice.choice((b"", b"\x1f\x8b\x08junk", b"x" * 1000, self.dice.randbytes(20)))
        if field.type == field.TYPE_BOOL:
            return self.dice.random() < 0.5
        if field.type == field.TYPE_FLOAT:
            return self.dice.choice((0.0, -1.0, float("nan"), float("inf")))
        if field.type == field.TYPE_INT64:
            return self.dice.choice(LARGE)
        return self.dice.choice(NUMBERS)


async def mutated_calls(count: int, seed: int, faults: list[str]) -> Counter[int]:
    """How often a status was answered. ``faults``: what was no answer."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(f"in the background: {context}"))
    answers: Counter[int] = Counter()
    async with open_door(limits=LIMITS, enablePropertyFilter=True, flushDiskType="ASYNC_FLUSH") as lab:
        lab.topic("T")
        lab.topic("X", "MIXED")
        lab.group("F", consume_message_orderly=True)
        entry = await lab.send("X", message_type=4)
        await lab.send("T", message_id="ID")
        given = await lab.receive_soon("T", "G")
        mutations = Mutations(seed)
        names = sorted(METHODS)
        for number in range(count):
            if number % 500 == 0:
                requests = corpus(given.system_properties.receipt_handle, entry.transaction_id)
            name = names[number % len(names)]
            data = mutations.of(mutations.dice.choice(requests[name]))
            try:
                answers[await _answer(lab, name, data)] += 1
            except Exception as error:
                faults.append(f"{name} {data[:200].hex()}: {error!r}")
    gc.collect()
    await asyncio.sleep(0)
    return answers


async def _answer(lab: DoorLab, name: str, data: bytes) -> int:
    """The status of gRPC, negative, or that of the first reply."""
    method = METHODS[name]
    try:
        request = method.request.FromString(data)
    except classes.DecodeError:
        return -13  # before any handler
    short = lab.service.at_once.get(name)
    if short is not None:
        reply = short(prefixed(data), "c", PEER)
        if reply is not None:
            return int(method.reply.FromString(reply[PREFIX_SIZE:]).status.code)
    call = lab.new_call(name, client=f"c{len(data) % 50}", seconds=0.5)
    replies: list[Any] = []
    handler: Any = lab.service.handlers[name]

    async def send(reply: Any) -> None:
        replies.extend(replies_of(method, reply))

    try:
        async with asyncio.timeout(20):
            if method.shape is Shape.UNARY:
                reply = handler(request, call)
                await send(await reply if inspect.isawaitable(reply) else reply)
            elif method.shape is Shape.SERVER_STREAM:
                await handler(request, call, send)
            else:
                await handler(_Once(request, send), call)
    except GrpcError as error:
        assert name == "Telemetry", f"{name} ended with {error.status}"
        return -int(error.status)
    if not replies:
        assert name == "Telemetry", f"{name} answered nothing"
        return 0
    code = int(replies[0].status.code)
    assert code in set(Code) - {0}, f"{name} answered with the status {code}"
    return code


class _Once:
    """A Telemetry stream of one message."""

    def __init__(self, request: Any, send: Any) -> None:
        self._requests = [request]
        self.send = send

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> Any:
        if not self._requests:
            raise StopAsyncIteration
        return self._requests.pop()

    def push(self, message: Any) -> bool:
        return False

    def finish(self) -> None:
        self._requests.clear()


def errors_logged(records: list[logging.LogRecord]) -> list[str]:
    return [f"{record.name}: {record.getMessage()} {record.exc_info}" for record in records if record.levelno >= 40]
