"""Producers and consumers as threads that never give up: they ask for the master, send, pull, and write the ledger."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence

from tests.interop.replication.talk import OK, Talk, messages
from tests.replication_episodes.ledger import QUEUES, TOPIC, Ledger

_PAUSE_S = 0.02
_TIMEOUT_S = 6.0  # of one request; longer than any broker here lets a send wait
Find = Callable[[], str | None]


class Traffic:
    """All the clients of an episode; they can be paused, so that nothing is under way."""

    def __init__(self, ledger: Ledger, masters: Sequence[Find], readers: Sequence[Find], *, seed: int) -> None:
        """A producer for each of ``masters``, a consumer for each of ``readers``: whom they ask where to go."""
        self._is_ended = threading.Event()
        self._may_run = threading.Event()
        chance = random.Random(seed)
        self._threads = [
            _Client(self._produce, f"p{number}", ledger, master, random.Random(chance.random()))
            for number, master in enumerate(masters)
        ]
        self._threads += [
            _Client(self._consume, f"c{number}", ledger, reader, random.Random(chance.random()))
            for number, reader in enumerate(readers)
        ]
        for thread in self._threads:
            thread.start()

    def resume(self) -> None:
        self._may_run.set()

    def pause(self) -> None:
        """Returns when every request has its answer, or never will."""
        self._may_run.clear()
        for thread in self._threads:
            if not thread.is_idle.wait(60):
                raise AssertionError(f"{thread.name} waits for an answer")
            if thread.failure is not None:
                raise thread.failure

    def close(self) -> None:
        self._is_ended.set()
        self._may_run.set()
        for thread in self._threads:
            thread.join(30)

    def _produce(self, client: _Client) -> None:
        body, queue_id = client.new_body(), client.chance.randrange(QUEUES)
        with client.ledger.lock:
            client.ledger.invoked.add(body)
        try:
            reply = client.talk.send(TOPIC, body, queue_id=queue_id, keys=body[:12].decode())
        except OSError:
            client.ledger.sent(client.name, queue_id, body, None)
            raise
        client.ledger.sent(client.name, queue_id, body, reply)
        if reply.code != OK:
            time.sleep(_PAUSE_S)

    def _consume(self, client: _Client) -> None:
        queue_id = client.chance.randrange(QUEUES)
        offset = client.offsets.get(queue_id, 0)
        reply = client.talk.pull(TOPIC, offset, queue_id=queue_id)
        if reply.code == OK:
            for queue_offset, body in messages(reply):
                client.ledger.received((queue_id, queue_offset), body)
            client.offsets[queue_id] = int(reply.fields["nextBeginOffset"])
        else:
            time.sleep(_PAUSE_S)
        if client.chance.random() < 0.2:
            client.talk.commit_offset("readers", TOPIC, queue_id, client.offsets.get(queue_id, 0))

    def work(self, client: _Client, step: Callable[[_Client], None]) -> None:
        while not self._is_ended.is_set():
            if not self._may_run.is_set():
                client.is_idle.set()
                self._may_run.wait()
                client.is_idle.clear()
                continue
            address = client.find()
            if address is None:
                time.sleep(_PAUSE_S)
                continue
            client.turn_to(address)
            try:
                step(client)
            except OSError:
                time.sleep(_PAUSE_S)


class _Client(threading.Thread):
    _numbers = itertools.count()

    def __init__(
        self, step: Callable[[_Client], None], name: str, ledger: Ledger, find: Find, chance: random.Random
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self.ledger = ledger
        self.find = find
        self.chance = chance
        self.offsets: dict[int, int] = {}
        self.is_idle = threading.Event()
        self.failure: BaseException | None = None
        self.talk = Talk("", timeout_s=_TIMEOUT_S)
        self._count = 0

    def turn_to(self, address: str) -> None:
        if self.talk.address != address:
            self.talk.close()
            self.talk.address = address

    def new_body(self) -> bytes:
        self._count += 1
        return f"{self.name}.{self._count}.".encode().ljust(self.chance.choice((20, 300, 3000, 20_000)), b".")

    def run(self) -> None:
        traffic: Traffic = self._step.__self__  # type: ignore[attr-defined]  # a bound method
        try:
            traffic.work(self, self._step)
        except BaseException as error:
            self.failure = error
        finally:
            self.is_idle.set()
            self.talk.close()
