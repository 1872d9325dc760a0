"""Runs scenarios with RocketMQ's official Python client, a line of JSON for each: scenario, ok, seconds, error.

    python program.py endpoints=ADDR run=NAME scenarios=a,b,c [tls=1] [ak=KEY sk=SECRET]

The client makes no topics: RUN-SCENARIO has to exist for each of them, and so have groups that are not as by default.
All run at the same time. Runs in an environment of its own, with nothing of FlareMQ in it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

PATIENCE = 60.0
SQL = 2  # of FilterType; the class is not let out by the package
OUTPUT = threading.Lock()
RELAYED = 3


class Inbox(MessageListener):
    """What a consumer got; ``decide`` says how it ended for each message."""

    def __init__(self, decide: Callable[[Message], bool] = lambda message: True) -> None:
        self._decide = decide
        self._lock = threading.Condition()
        self.messages: list[Message] = []
        self.times: list[float] = []

    def consume(self, message: Message) -> ConsumeResult:
        with self._lock:
            self.messages.append(message)
            self.times.append(time.time())
            self._lock.notify_all()
        return ConsumeResult.SUCCESS if self._decide(message) else ConsumeResult.FAILURE

    def wait(self, count: int) -> list[Message]:
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.messages) >= count, PATIENCE):
                raise AssertionError(f"{len(self.messages)} messages instead of {count}: {self.bodies()}")
            return list(self.messages)

    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]


class Stage:
    """What a scenario works with."""

    def __init__(self, scenario: str, settings: dict[str, str]) -> None:
        self.topic = f"{settings['run']}-{scenario}"
        self.group = f"{self.topic}-g"
        self._settings = settings
        self._clients: list[Any] = []

    def configuration(self) -> ClientConfiguration:
        credentials = Credentials(self._settings.get("ak", ""), self._settings.get("sk", ""))
        return ClientConfiguration(self._settings["endpoints"], credentials)

    @property
    def tls(self) -> bool:
        return self._settings.get("tls") == "1"

    def _started(self, client: Any) -> Any:
        client.startup()
        self._clients.append(client)
        return client

    def producer(self, checker: TransactionChecker | None = None) -> Producer:
        return self._started(Producer(self.configuration(), (self.topic,), checker=checker, tls_enable=self.tls))

    def push(self, inbox: Inbox, expression: FilterExpression | None = None) -> PushConsumer:
        subscription = {self.topic: expression or FilterExpression()}
        return self._started(PushConsumer(self.configuration(), self.group, inbox, subscription, tls_enable=self.tls))

    def simple(self, *, topic: str = "", group: str = "", wait: int = 5, tags: str = "*") -> SimpleConsumer:
        subscription = {topic or self.topic: FilterExpression(tags)}
        return self._started(
            SimpleConsumer(
                self.configuration(), group or self.group, subscription, await_duration=wait, tls_enable=self.tls
            )
        )

    def message(self, body: bytes | str, **fields: Any) -> Message:
        message = Message()
        message.topic = self.topic
        message.body = body.encode() if isinstance(body, str) else body
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def close(self) -> None:
        for client in reversed(self._clients):
            try:
                client.shutdown()
            except Exception:
                traceback.print_exc()


def receive(consumer: SimpleConsumer, count: int, invisible: int = 30) -> list[Message]:
    """So many messages, as they come."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.receive(32, invisible) or []
    assert len(found) == count, f"{len(found)} messages instead of {count}"
    return found


# The scenarios


def send(stage: Stage) -> None:
    producer = stage.producer()
    message = stage.message("hello", tag="A", keys="k1")
    message.keys = "k2"
    message.add_property("colour", "red")
    receipt = producer.send(message)
    consumer = stage.simple()
    (got,) = receive(consumer, 1)
    assert (got.body, got.topic, got.tag) == (b"hello", stage.topic, "A"), str(got)
    assert got.keys == {"k1", "k2"}, got.keys
    assert got.properties["colour"] == "red", got.properties
    assert got.message_id == receipt.message_id
    assert got.delivery_attempt == 1
    assert got.born_host and abs(got.born_timestamp - time.time() * 1000) < 600_000
    assert not got.corrupted
    consumer.ack(got)
    assert not consumer.receive(1, 30)


def send_many(stage: Stage) -> None:
    producer = stage.producer()
    futures = [producer.send_async(stage.message(f"m{number}")) for number in range(300)]
    identities = {future.result(PATIENCE).message_id for future in futures}
    assert len(identities) == 300
    inbox = Inbox()
    stage.push(inbox)
    got = inbox.wait(300)
    time.sleep(1)
    assert sorted(inbox.bodies()) == sorted(f"m{number}" for number in range(300)), len(got)


def send_large(stage: Stage) -> None:
    producer = stage.producer()
    body = bytes(range(256)) * (4 << 12)
    assert len(body) == 4 << 20
    producer.send(stage.message(body))
    (got,) = receive(stage.simple(), 1)
    assert got.body == body


def push(stage: Stage) -> None:
    inbox = Inbox()
    stage.push(inbox)
    producer = stage.producer()
    for number in range(50):
        producer.send(stage.message(f"m{number}", tag="T"))
    inbox.wait(50)
    assert sorted(inbox.bodies()) == sorted(f"m{number}" for number in range(50))
    assert {message.delivery_attempt for message in inbox.messages} == {1}


def two_consumers(stage: Stage) -> None:
    """Together they get each message once."""
    first, second = Inbox(), Inbox()
    stage.push(first)
    stage.push(second)
    producer = stage.producer()
    for number in range(200):
        producer.send(stage.message(f"m{number}"))
    deadline = time.monotonic() + PATIENCE
    while len(first.messages) + len(second.messages) < 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sorted(first.bodies() + second.bodies()) == sorted(f"m{number}" for number in range(200))


def tags(stage: Stage) -> None:
    producer = stage.producer()
    for tag in "ABCAB":
        producer.send(stage.message(tag, tag=tag))
    inbox = Inbox()
    stage.push(inbox, FilterExpression("A || C"))
    inbox.wait(3)
    time.sleep(1)
    assert sorted(inbox.bodies()) == ["A", "A", "C"]


def sql(stage: Stage) -> None:
    producer = stage.producer()
    for number in range(10):
        message = stage.message(f"m{number}", tag="T")
        message.add_property("size", str(number))
        producer.send(message)
    inbox = Inbox()
    stage.push(inbox, FilterExpression("size >= 7 AND TAGS = 'T'", SQL))
    inbox.wait(3)
    time.sleep(1)
    assert sorted(inbox.bodies()) == ["m7", "m8", "m9"]


def fifo(stage: Stage) -> None:
    producer = stage.producer()
    for number in range(10):
        for group in ("red", "green"):
            producer.send(stage.message(f"{group}-{number}", message_group=group))
    inbox = Inbox()
    stage.push(inbox)
    inbox.wait(20)
    for group in ("red", "green"):
        got = [message for message in inbox.messages if message.message_group == group]
        assert [message.body.decode() for message in got] == [f"{group}-{number}" for number in range(10)]


def delay(stage: Stage) -> None:
    inbox = Inbox()
    stage.push(inbox)
    producer = stage.producer()
    due = int(time.time()) + 4
    receipt = producer.send(stage.message("later", delivery_timestamp=due))
    assert receipt.recall_handle
    (got,) = inbox.wait(1)
    assert inbox.times[0] >= due, due - inbox.times[0]
    assert got.delivery_timestamp == due * 1000, got.delivery_timestamp


def recall(stage: Stage) -> None:
    inbox = Inbox()
    stage.push(inbox)
    producer = stage.producer()
    due = int(time.time()) + 8
    taken_back = producer.send(stage.message("never", delivery_timestamp=due))
    producer.send(stage.message("later", delivery_timestamp=due))
    producer.recall_message(stage.topic, taken_back.recall_handle)
    inbox.wait(1)
    time.sleep(2)
    assert inbox.bodies() == ["later"]


class _Checker(TransactionChecker):
    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, message: Message) -> TransactionResolution:
        self.asked.append(message.body.decode())
        return TransactionResolution.COMMIT if message.body == b"check" else TransactionResolution.ROLLBACK


def transaction(stage: Stage) -> None:
    checker = _Checker()
    producer = stage.producer(checker)
    inbox = Inbox()
    stage.push(inbox)
    for body, outcome in (("commit", "commit"), ("rollback", "rollback"), ("check", ""), ("drop", "")):
        opened = producer.begin_transaction()
        producer.send(stage.message(body), opened)
        if outcome:
            getattr(opened, outcome)()
    inbox.wait(2)
    assert sorted(inbox.bodies()) == ["check", "commit"]
    deadline = time.monotonic() + PATIENCE
    while "drop" not in checker.asked and time.monotonic() < deadline:
        time.sleep(0.1)
    # The original may also ask about one whose end it has not seen yet.
    assert set(checker.asked) >= {"check", "drop"}, checker.asked


def retry(stage: Stage) -> None:
    inbox = Inbox(lambda message: message.delivery_attempt > 1)
    stage.push(inbox)
    producer = stage.producer()
    producer.send(stage.message("again", tag="A", keys="k"))
    first, second = inbox.wait(2)
    assert (first.delivery_attempt, second.delivery_attempt) == (1, 2)
    assert first.message_id == second.message_id
    assert (second.topic, second.tag, second.keys) == (stage.topic, "A", {"k"})


def dead_letters(stage: Stage) -> None:
    """The group gives a message up after its second attempt."""
    inbox = Inbox(lambda message: False)
    stage.push(inbox)
    producer = stage.producer()
    receipt = producer.send(stage.message("bad", tag="A"))
    inbox.wait(2)
    letter = _dead_letter(stage)
    assert (letter.body, letter.message_id) == (b"bad", receipt.message_id)
    assert letter.tag == "A"
    assert [message.delivery_attempt for message in inbox.messages] == [1, 2]


def fifo_dead_letters(stage: Stage) -> None:
    """The client itself gives it up, and goes on with what comes behind it."""
    inbox = Inbox(lambda message: message.body != b"bad")
    stage.push(inbox)
    producer = stage.producer()
    receipt = producer.send(stage.message("bad", message_group="one"))
    producer.send(stage.message("good", message_group="one"))
    deadline = time.monotonic() + PATIENCE
    while "good" not in inbox.bodies() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert inbox.bodies()[-1] == "good", inbox.bodies()
    letter = _dead_letter(stage)
    assert letter.message_id == receipt.message_id


def _dead_letter(stage: Stage) -> Message:
    """The topic comes into being with its first message; until then the client has no route to it."""
    consumer = stage.simple(topic=f"%DLQ%{stage.group}", group=f"{stage.group}-reader")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            (letter,) = receive(consumer, 1)
            consumer.ack(letter)
            return letter
        except AssertionError:
            raise
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def change_invisible(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("twice"))
    consumer = stage.simple()
    (got,) = receive(consumer, 1)
    consumer.change_invisible_duration(got, 3)
    (again,) = receive(consumer, 1)
    assert (again.message_id, again.delivery_attempt) == (got.message_id, 2)
    consumer.change_invisible_duration(again, 10)
    consumer.ack(again)
    assert not consumer.receive(1, 30)
    assert not consumer.receive(1, 30)


def renewal(stage: Stage) -> None:
    """A listener that works longer than a message stays hidden."""
    inbox = Inbox(lambda message: time.sleep(10) is None)
    stage.push(inbox)
    stage.producer().send(stage.message("slow"))
    inbox.wait(1)
    time.sleep(15)
    assert inbox.bodies() == ["slow"], inbox.bodies()


def unknown_topic(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("kept"))
    message = stage.message("lost")
    message.topic = f"{stage.topic}-none"
    try:
        producer.send(message)
    except Exception as error:
        assert message.topic in str(error), repr(error)
    else:
        raise AssertionError("a topic that does not exist took a message")


def refused(stage: Stage) -> None:
    """A message of another kind than its topic's, past the client's own check."""
    producer = stage.producer()
    try:
        producer.send(stage.message("wrong", message_group="g"))
    except Exception as error:
        assert "type" in str(error), repr(error)
    else:
        raise AssertionError("a topic took a message of another type")


def relay(stage: Stage) -> None:
    """What somebody else has sent to the topic goes to another one as it was received."""
    inbox = Inbox()
    stage.push(inbox)
    inbox.wait(RELAYED)
    producer = stage.producer()
    for got in inbox.messages:
        message = stage.message(got.body, tag=got.tag)
        message.topic = f"{stage.topic}-back"
        for key in got.keys:
            message.keys = key
        for name, value in got.properties.items():
            message.add_property(name, value)
        message.add_property("attempt", str(got.delivery_attempt))
        message.add_property("id", got.message_id)
        producer.send(message)


SCENARIOS = (
    send, send_many, send_large, push, two_consumers, tags, sql, fifo, delay, recall, transaction, retry, dead_letters,
    fifo_dead_letters, change_invisible, renewal, unknown_topic, refused, relay,
)  # fmt: skip


def run(scenario: Callable[[Stage], None], settings: dict[str, str]) -> None:
    began = time.monotonic()
    stage = Stage(scenario.__name__.replace("_", "-"), settings)
    error = ""
    try:
        scenario(stage)
    except Exception:
        error = traceback.format_exc()
    finally:
        stage.close()
    seconds = round(time.monotonic() - began, 1)
    line = json.dumps({"scenario": scenario.__name__, "ok": not error, "seconds": seconds, "error": error})
    with OUTPUT:
        print(line, flush=True)


def main(words: list[str]) -> None:
    settings = dict(word.split("=", 1) for word in words)
    known = {scenario.__name__: scenario for scenario in SCENARIOS}
    if "list" in settings:
        print(json.dumps(sorted(known)))
        return
    names = settings["scenarios"].split(",")
    with ThreadPoolExecutor(len(names)) as executor:
        list(executor.map(lambda name: run(known[name], settings), names))


if __name__ == "__main__":
    main(sys.argv[1:])
