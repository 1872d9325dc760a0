"""Arguments as programs pass them: one of the wrong kind is InvalidArgumentError, as everywhere in FlareMQ."""

from __future__ import annotations

import math

from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import validate_group, validate_topic
from flaremq.protocol.bodies.queue import MessageQueue


def check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is a text, not {value!r}")


def check_topic(topic: str) -> None:
    check_text(topic, "a topic")
    validate_topic(topic)


def check_group(group: str) -> None:
    check_text(group, "a group")
    validate_group(group)


def check_queue(queue: object) -> None:
    if not isinstance(queue, MessageQueue):
        raise InvalidArgumentError(f"a queue is a MessageQueue, as queues() gives it, not {queue!r}")


def check_whole_number(value: object, what: str) -> None:
    """An integer that fits the wire."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise InvalidArgumentError(f"{what} is a whole number of at most 64 bits, not {value!r}")


def check_seconds(value: object, what: str) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidArgumentError(f"{what} is a number of seconds, not {value!r}")
