"""Command lines against a broker of a test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from flaremq import sync
from flaremq.message.message import Message
from flaremq.testing import EphemeralBroker
from tests.support.cli import Outcome, flaremq


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the broker does on its own."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_registered(name_server: str, count: int = 1) -> None:
    """A broker is ready before its name server knows it."""
    until(lambda: flaremq("cluster", "list", "-n", name_server, "-o", "jsonl").out.count("\n") == count)


class Shell:
    """``flaremq … -n ADDR`` of one broker, and what a test puts there first."""

    def __init__(self, broker: EphemeralBroker) -> None:
        self.broker = broker
        self.name_server = broker.name_server

    def run(self, *arguments: object) -> Outcome:
        return flaremq(*arguments, "-n", self.name_server)

    def ok(self, *arguments: object) -> str:
        """The output of a command that succeeds."""
        done = self.run(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def rows(self, *arguments: object) -> list[dict[str, Any]]:
        """The JSON lines of a command that succeeds."""
        return [json.loads(line) for line in self.ok(*arguments, "-o", "jsonl").splitlines()]

    def mqadmin(self, *arguments: object) -> list[str]:
        """The lines of a command in RocketMQ's spelling."""
        return self.ok("mqadmin", *arguments).splitlines()

    def fill(self, topic: str, count: int, *, queues: int = 1, tags: str = "A") -> list[str]:
        """A topic with messages of keys ``k-0``, ``k-1``…, one after the other over its queues; their ids."""
        with sync.Admin(self.name_server) as admin:
            admin.create_topic(topic, read_queues=queues, write_queues=queues)
        with sync.Producer(self.name_server, group=f"{topic}-producer") as producer:
            places = producer.queues(topic)
            return [
                producer.send(
                    Message(topic, f"body {number}".encode(), tags=tags, keys=[f"k-{number}", "all"]),
                    queue=places[number % queues],
                ).message_id
                for number in range(count)
            ]

    def consume(self, group: str, topic: str, count: int) -> None:
        """Let a group consume so many messages of a topic and go away."""
        with sync.Consumer(self.name_server, group=group, subscribe={topic: "*"}, start_from="first") as consumer:
            for number, message in enumerate(consumer, 1):
                message.ack()
                if number == count:
                    break
