"""ByQueue: something said of single queues, in the JSON of options: ``assign`` and ``…OffsetsByTimestamp``.

A queue is named as RocketMQ has it, by topic, broker and number. Whoever comes from Kafka has no brokers there, so they
may be left out: a number then means that queue of every broker. What is said of fewer names holds unless something is
said of more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.model.spans import QueueRef

_T = TypeVar("_T")
_Place = tuple[str, str | None, int | None]  # topic; broker and queue where they are named
ASSIGN_FORM: Final = '{"topic": [0, 1]} or {"topic": {"broker": [0, 1]}}'
TIMES_FORM: Final = '{"topic": {"0": time}} or {"topic": {"broker": {"0": time}}} or {"topic": time}'


@dataclass(frozen=True, slots=True)
class ByQueue(Generic[_T]):
    """What is said of which queues."""

    said: Mapping[_Place, _T]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for topic, _, _ in self.said))

    def find(self, queue: QueueRef) -> _T | None:
        """What holds for a queue, ``None`` if nothing was said of it."""
        for place in ((*queue,), (queue.topic, None, queue.queue_id), (*queue[:2], None), (queue.topic, None, None)):
            if place in self.said:
                return self.said[place]
        return None

    def check_known(self, queues: Iterable[QueueRef], what: str) -> None:
        """NotFoundError for the first that is said of a queue that is not there."""
        held = set(queues)
        for topic, broker, number in self.said:
            of_topic = {queue for queue in held if queue.topic == topic}
            of_broker = {queue for queue in of_topic if broker is None or queue.broker == broker}
            if not of_topic:
                raise NotFoundError(f"{what} names topic {topic!r}, which is not among those read")
            if not of_broker:
                brokers = ", ".join(sorted({queue.broker for queue in of_topic}))
                raise NotFoundError(f"{what} names broker {broker!r}; topic {topic!r} is on {brokers}")
            if number is not None and all(queue.queue_id != number for queue in of_broker):
                numbers = ", ".join(str(found) for found in sorted({queue.queue_id for queue in of_broker}))
                raise NotFoundError(f"{what} names queue {number}; topic {topic!r} has {numbers}")


def parse_assign(text: str, *, what: str) -> ByQueue[bool]:
    """The queues of ``assign``."""
    said: dict[_Place, bool] = {}
    for topic, value in _loaded(text, what, ASSIGN_FORM).items():
        brokers = value if isinstance(value, dict) else {None: value}
        for broker, numbers in brokers.items():
            if not isinstance(numbers, list) or not numbers or not all(type(n) is int and n >= 0 for n in numbers):
                raise _wrong(what, text, ASSIGN_FORM)
            said |= dict.fromkeys([(topic, broker, number) for number in numbers], True)
    return ByQueue(said)


def parse_times(text: str, moment: Callable[[str], int], *, what: str) -> ByQueue[int]:
    """Times of queues; ``moment`` reads one, and raises ``ValueError``."""
    said: dict[_Place, int] = {}
    for topic, value in _loaded(text, what, TIMES_FORM).items():
        for broker, number, when in _times(value):
            try:
                said[topic, broker, number] = moment(str(when)) if type(when) in (int, str) else _refuse(when)
            except ValueError:
                raise _wrong(what, text, TIMES_FORM) from None
    return ByQueue(said)


def times_text(times: ByQueue[int]) -> str:
    """The same times as text that is read alike tomorrow: so long ago has become a moment."""
    nested: dict[str, Any] = {}
    for (topic, broker, number), when in times.said.items():
        if broker is None and number is None:
            nested[topic] = when
            continue
        of_topic = nested.setdefault(topic, {})
        if broker is None:
            of_topic[str(number)] = when
        elif number is None:
            of_topic[broker] = when
        else:
            of_topic.setdefault(broker, {})[str(number)] = when
    return json.dumps(nested)


def _times(value: Any) -> Iterator[tuple[str | None, int | None, Any]]:
    if not isinstance(value, dict):
        yield None, None, value
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            for number, when in inner.items():
                yield name, _number(number), when
        elif (queue_id := whole_number(name)) is not None:
            yield None, queue_id, inner
        else:
            yield name, None, inner


def _number(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise InvalidArgumentError(f"queue {text!r} is no queue number; the form is {TIMES_FORM}")
    return number


def _refuse(value: Any) -> int:
    raise ValueError(value)


def _loaded(text: str, what: str, form: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value:
        raise _wrong(what, text, form)
    return value


def _wrong(what: str, text: str, form: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what}={text!r} is not of the form {form}")
