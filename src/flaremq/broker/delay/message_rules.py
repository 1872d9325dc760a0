"""Where a message goes that does not go straight to its queue. Pure: properties and a time in, a stored form out.

In this order, as in RocketMQ: a transactional message waits in the half topic; otherwise a delay level sends it to the
schedule topic (``StoredForm.delay_level``, applied by the store); otherwise a time of its own sends it to the timer
topic. A delay level wins over a time. A message whose time has passed goes straight to its queue.

The timer topic holds what RocketMQ 5 writes there: REAL_TOPIC, REAL_QID and TIMER_OUT_MS, the start of the time slot
the message is due in. A slot is ``precision_ms`` wide and covers ``(out, out + precision_ms]``, so whoever waits for
its end is never early.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from flaremq.broker.options import BrokerOptions
from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import (
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELETE_KEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    find_property,
)
from flaremq.message.stored_form import StoredForm, delay_level_of
from flaremq.message.topics import TIMER_TOPIC
from flaremq.message.transaction import half
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

_WISHES: Final = (TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS)
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,19}\Z")
_HANDLE_VERSION: Final = "v1"
_HANDLE_CHARACTERS_MAX: Final = 4096


class MessageKind(Enum):
    """Which detour a message takes."""

    PLAIN = "plain"
    HALF = "half"
    DELAYED = "delayed"
    TIMED = "timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRules:
    """What is allowed of messages with a time of their own: ``timerWheelEnable`` and its neighbours."""

    enabled: bool = True
    delay_ms_max: int = 259_200_000
    precision_ms: int = 1_000

    @classmethod
    def of(cls, options: BrokerOptions) -> TimerRules:
        return cls(
            enabled=options.timer_wheel_enable,
            delay_ms_max=options.timer_max_delay_sec * 1000,
            precision_ms=options.timer_precision_ms,
        )


def prepare(form: StoredForm, *, now_ms: int, timer: TimerRules) -> tuple[MessageKind, StoredForm]:
    """What to store for a message a client sent; RequestError (13, or 1 if timers are off) if it cannot be."""
    delay_level = delay_level_of(form.properties)
    if is_transactional(form.properties) and not (form.reconsume_times > 0 and delay_level > 0):
        if delay_level <= 0 and is_timed(form):
            prepare_timer(form, now_ms=now_ms, rules=timer)  # refused now rather than when it is committed
        return MessageKind.HALF, prepare_half(form)
    if delay_level > 0:
        return MessageKind.DELAYED, prepare_delay(form, delay_level)
    if is_timed(form):
        waiting = prepare_timer(form, now_ms=now_ms, rules=timer)
        return MessageKind.PLAIN if waiting is form else MessageKind.TIMED, waiting
    return MessageKind.PLAIN, form


# Transactions


def is_transactional(properties: bytes) -> bool:
    value = find_property(properties, names.TRANSACTION_PREPARED.encode())
    return value is not None and value.lower() == b"true"


def prepare_half(form: StoredForm) -> StoredForm:
    """The half message: it waits for the outcome of its transaction where no consumer looks."""
    return half(form)


# Delay levels


def prepare_delay(form: StoredForm, delay_level: int) -> StoredForm:
    """A message with a delay level; a time of its own is forgotten, or it would be delayed twice."""
    if b"TIMER_" in form.properties:
        form = form.with_properties(dict.fromkeys(_WISHES))
    return replace(form, delay_level=delay_level)


# Times


def is_timed(form: StoredForm) -> bool:
    """Whether a message asks for a time of its own and has not been there yet."""
    properties = form.properties
    return (
        b"TIMER_" in properties
        and form.topic != TIMER_TOPIC
        and find_property(properties, TIMER_OUT_MS.encode()) is None
        and any(find_property(properties, wish.encode()) is not None for wish in _WISHES)
    )


def prepare_timer(form: StoredForm, *, now_ms: int, rules: TimerRules) -> StoredForm:
    """The message as it waits in the timer topic, or as it is (the same object) if its time has come."""
    if not rules.enabled:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "messages with a time of their own are off (timerWheelEnable)")
    due_ms = _wished_ms(form.properties, now_ms)
    if due_ms <= now_ms:
        if find_property(form.properties, TIMER_DELETE_KEY.encode()) is not None:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"the message to take back was due at {due_ms}, in the past"
            )
        return form
    if due_ms - now_ms > rules.delay_ms_max:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message would be due in {due_ms - now_ms} ms, timerMaxDelaySec allows {rules.delay_ms_max} ms",
        )
    waiting = form.with_properties(
        {
            TIMER_OUT_MS: str(slot_start_ms(due_ms, rules.precision_ms)),
            names.REAL_TOPIC: form.topic,
            names.REAL_QUEUE_ID: str(form.queue_id),
        }
    )
    return replace(waiting, topic=TIMER_TOPIC, queue_id=0, delay_level=0)


def slot_start_ms(due_ms: int, precision_ms: int) -> int:
    """The start of the slot a time lies in; a time on the edge belongs to the slot that ends with it."""
    return (due_ms - 1) // precision_ms * precision_ms


def _wished_ms(properties: bytes, now_ms: int) -> int:
    for name, unit_ms, start_ms in (
        (TIMER_DELAY_SECONDS, 1000, now_ms),
        (TIMER_DELAY_MS, 1, now_ms),
        (TIMER_DELIVER_MS, 1, 0),
    ):
        value = find_property(properties, name.encode())
        if value is not None:
            if not _NUMBER.match(value):
                raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"{name} is not a number: {value[:64]!r}")
            return start_ms + int(value) * unit_ms
    raise AssertionError("asked only for messages that wish for a time")


def out_ms(record: MessageExt) -> int | None:
    """TIMER_OUT_MS of a record of the timer topic; None if there is none to go by."""
    return whole_number(record.properties.get(TIMER_OUT_MS))


def due_ms_of(record: MessageExt, out: int, precision_ms: int) -> int:
    """When a record of the timer topic is due, to the millisecond where it tells.

    Within its slot it is the time the sender named, or the store time plus the delay he asked for; the end of the slot
    if neither makes sense, as for a copy made later.
    """
    named = whole_number(record.properties.get(TIMER_DELIVER_MS))
    seconds = whole_number(record.properties.get(TIMER_DELAY_SECONDS))
    if seconds is not None:
        named = record.store_timestamp + seconds * 1000
    else:
        delay = whole_number(record.properties.get(TIMER_DELAY_MS))
        if delay is not None:
            named = record.store_timestamp + delay
    end = out + precision_ms
    return named if named is not None and out < named < end else end


# Taking a message back


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHandle:
    """What the sender of a timed message gets, to take it back with."""

    topic: str
    broker_name: str
    due_ms: int
    unique_key: str


def recall_handle(form: StoredForm, broker_name: str) -> str | None:
    """The handle of a message as it waits in the timer topic; None for others and for those without unique key."""
    if form.topic != TIMER_TOPIC:
        return None
    found = [find_property(form.properties, key) for key in (b"TIMER_OUT_MS", b"REAL_TOPIC", b"UNIQ_KEY")]
    if None in found:
        return None
    out, topic, key = (str(value, "utf-8", "replace") for value in found if value is not None)
    # One more than the start of the slot: a time that lies in it.
    text = " ".join((_HANDLE_VERSION, topic, broker_name, str(int(out) + 1), key))
    return urlsafe_b64encode(text.encode()).decode()


def parse_recall_handle(text: str) -> RecallHandle:
    """The handle; InvalidArgumentError if it is none of ours."""
    if not text or len(text) > _HANDLE_CHARACTERS_MAX:
        raise InvalidArgumentError("recall handle is empty or too long")
    try:
        words = urlsafe_b64decode(text).decode().split(" ")
    except ValueError:
        raise InvalidArgumentError("recall handle is not base64 of text") from None
    due_ms = whole_number(words[3]) if len(words) == 5 else None
    if len(words) != 5 or words[0] != _HANDLE_VERSION or due_ms is None or not all(words):
        raise InvalidArgumentError("recall handle is not of version v1")
    return RecallHandle(topic=words[1], broker_name=words[2], due_ms=due_ms, unique_key=words[4])


def delete_key(topic: str, unique_key: str) -> str:
    """How a delete record names the message it deletes."""
    return f"{topic}+{unique_key}"
