"""A real broker under load from several connections, SIGKILLed again and again:
``python -m tests.simulation.broker_kill ROOT --kills N --seed S``.

The broker is forked from this process, which never has a thread or an open store of its own, so a cycle costs no
interpreter start. Producers, a consumer and transactions talk to it over sockets until it dies at a random instant,
sometimes while it still recovers from the last time. What they were told is kept in the ``Ledger``; each new broker
must have all of it:

* every acknowledged message at its place, byte for byte, and nothing in a queue that nobody sent, or sent once and is
  there twice;
* every message that was ever delivered still where it was delivered from;
* committed offsets never beyond the data, nor beyond what was ever committed;
* delayed and timed messages once and never early; of transactions what was committed, nothing of the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.errors import UnavailableError
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.consume import EndTransactionRequestHeader
from flaremq.remoting import event_loop
from flaremq.remoting.client import RemotingClient
from flaremq.storage.message_store import MessageStore
from tests.support.broker_lab import messages, pull_fields, send_header, texts
from tests.support.driven_store import batch_body

QUEUES = 4
PRODUCERS = 4
GROUP = "readers"
Place = tuple[str, int, int]  # topic, queue id, queue offset
GONE = (UnavailableError, ConnectionError)

OPTIONS = {
    "listenPort": "0",
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "4000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "messageDelayLevel": "1s 2s",
    "diskMaxUsedSpaceRatio": "95",
    "flushDiskType": "SYNC_FLUSH",
    "defaultTopicQueueNums": str(QUEUES),
}


@dataclass(slots=True)
class Ledger:
    """What was asked of all brokers so far, and what they said."""

    invoked: set[bytes] = field(default_factory=set)
    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    delivered: dict[Place, bytes] = field(default_factory=dict)
    delayed: dict[bytes, int] = field(default_factory=dict)  # acknowledged: not before (ms)
    committed: set[bytes] = field(default_factory=set)  # transactions that were committed for certain
    maybe_committed: set[bytes] = field(default_factory=set)
    checked: int = 0  # of ``acknowledged``: what was looked at after an earlier crash
    offset_limit: dict[int, int] = field(default_factory=dict)  # highest offset ever committed, by queue
    counter: int = 0

    def new_body(self, kind: str, chance: random.Random) -> bytes:
        self.counter += 1
        name = f"{kind}.{self.counter}.".encode()
        body = name.ljust(chance.choice((30, 300, 3000, 20_000)), b".")
        self.invoked.add(body)
        return body


# The broker's side


def serve(root: str, pipe: int, chance: random.Random) -> None:
    """Run a broker until it is killed or told to stop; its port goes through the pipe."""
    settings = OPTIONS | {
        "enabledAppendPropCRC": str(chance.random() < 0.3).lower(),
        "flushConsumerOffsetInterval": str(chance.choice((50, 1000))),
        "flushDelayOffsetInterval": str(chance.choice((50, 1000, 60_000))),
        "transientStorePoolEnable": "false",
    }
    compiled = chance.random() < 0.5

    async def main() -> None:
        broker = BrokerService(root, *load_options(None, settings))
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await broker.start()
        if not compiled:
            broker.handlers.table.fast_path = None
        os.write(pipe, f"{broker.port}\n".encode())
        await stop.wait()
        await broker.stop()

    event_loop.run(main())


def start(root: str, chance: random.Random) -> tuple[int, int]:
    """Fork a broker; its process id and the pipe its port comes through."""
    reading, writing = os.pipe()
    seed = chance.random()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            serve(root, writing, random.Random(seed))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    return child, reading


def port_of(child: int, pipe: int) -> int:
    with os.fdopen(pipe, "rb") as lines:
        line = lines.readline()
    if not line:
        raise AssertionError(f"the broker did not start: status {os.waitpid(child, 0)[1]}")
    return int(line)


def end(child: int, number: signal.Signals) -> int:
    os.kill(child, number)
    return os.waitpid(child, 0)[1]


# The clients' side


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._client = RemotingClient()

    async def ask(self, code: int, ext: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        return await self._client.request(self.address, RemotingCommand.request(code, texts(ext), body), 30.0)

    async def send(self, topic: str, body: bytes, **fields: Any) -> RemotingCommand:
        code = fields.pop("code", RequestCode.SEND_MESSAGE_V2)
        return await self.ask(code, send_header(topic, **fields).encode_letters(), body)

    async def pull(self, topic: str, queue_id: int, offset: int, **fields: Any) -> RemotingCommand:
        return await self.ask(
            RequestCode.PULL_MESSAGE, pull_fields(topic, offset, group=GROUP, queue_id=queue_id, **fields)
        )

    async def close(self) -> None:
        await self._client.close()


async def produce(client: Client, ledger: Ledger, chance: random.Random) -> None:
    """Plain messages: one by one, several in flight, and batches."""
    while True:
        way = chance.random()
        queue_id = chance.randrange(QUEUES)
        if way < 0.5:
            body = ledger.new_body("plain", chance)
            note(ledger, "orders", await client.send("orders", body, queue_id=queue_id), [body])
        elif way < 0.85:
            several = [ledger.new_body("window", chance) for _ in range(8)]
            sends = [client.send("orders", body, queue_id=(queue_id + n) % QUEUES) for n, body in enumerate(several)]
            for body, reply in zip(several, await asyncio.gather(*sends), strict=True):
                note(ledger, "orders", reply, [body])
        else:
            several = [ledger.new_body("batch", chance) for _ in range(5)]
            data = batch_body(*((0, body, b"") for body in several))
            reply = await client.send(
                "orders", data, queue_id=queue_id, batch=True, code=RequestCode.SEND_BATCH_MESSAGE
            )
            note(ledger, "orders", reply, several)


def is_taken(reply: RemotingCommand) -> bool:
    """Whether a send is acknowledged; a disk that was too slow makes it one of unknown outcome."""
    assert reply.code in (0, ResponseCode.FLUSH_DISK_TIMEOUT), (reply.code, reply.remark)
    return reply.code == 0


def note(ledger: Ledger, topic: str, reply: RemotingCommand, sent: list[bytes]) -> None:
    if not is_taken(reply):
        return
    first = int(reply.field("queueOffset"))
    for number, body in enumerate(sent):
        ledger.acknowledged[topic, int(reply.field("queueId")), first + number] = body


async def produce_delayed(client: Client, ledger: Ledger, chance: random.Random) -> None:
    """Messages that come later: by level or by a time of their own. The body says when, at the earliest."""
    while True:
        delay_ms, properties = chance.choice(
            ((1000, "DELAY\x011\x02"), (2000, "DELAY\x012\x02"), (700, "TIMER_DELAY_MS\x01700\x02"))
        )
        not_before = time.time_ns() // 1_000_000 + delay_ms
        ledger.counter += 1
        body = f"later.{ledger.counter}.{not_before}".encode()
        ledger.invoked.add(body)
        if is_taken(await client.send("later", body, properties=properties)):
            ledger.delayed[body] = not_before
        await asyncio.sleep(0.005)


async def transact(client: Client, ledger: Ledger, chance: random.Random) -> None:
    """Half messages that are committed, rolled back or forgotten."""
    while True:
        body = ledger.new_body("half", chance)
        unique_key = f"{ledger.counter:032d}"
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01writers\x02UNIQ_KEY\x01{unique_key}\x02"
        half = await client.send("paid", body, properties=properties, sys_flag=4)
        outcome = chance.choice((8, 8, 12, None))
        if outcome is None or not is_taken(half):
            continue
        if outcome == 8:
            ledger.maybe_committed.add(body)
        header = EndTransactionRequestHeader(
            producer_group="writers",
            tran_state_table_offset=int(half.field("queueOffset")),
            commit_log_offset=int(half.field("msgId")[16:], 16),
            commit_or_rollback=outcome,
            msg_id=unique_key,
        )
        reply = await client.ask(RequestCode.END_TRANSACTION, header.encode())
        if is_taken(reply) and outcome == 8:
            ledger.committed.add(body)


async def consume(client: Client, ledger: Ledger, chance: random.Random) -> None:
    """Pull all queues with long polls, remember what came, commit as far as it came."""

    async def one(queue_id: int) -> None:
        ext = {"consumerGroup": GROUP, "topic": "orders", "queueId": queue_id}
        reply = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        offset = int(reply.field("offset")) if reply.code == 0 else 0
        limit = ledger.offset_limit.get(queue_id, 0)
        assert offset <= limit, f"queue {queue_id}: offset {offset}, never committed beyond {limit}"
        while True:
            reply = await client.pull(
                "orders", queue_id, offset, sysFlag=7, suspendTimeoutMillis=5000, commitOffset=offset
            )
            if reply.code == 17:  # nobody has sent yet
                await asyncio.sleep(0.01)
                continue
            assert reply.code in (0, 19, 20), (reply.code, reply.remark)
            for message in messages(reply):
                ledger.delivered["orders", queue_id, message.queue_offset] = message.body
            offset = int(reply.field("nextBeginOffset"))
            ledger.offset_limit[queue_id] = max(offset, ledger.offset_limit.get(queue_id, 0))
            if chance.random() < 0.3:
                await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": offset})

    await asyncio.gather(*(one(queue_id) for queue_id in range(QUEUES)))


async def load(port: int, child: int, ledger: Ledger, chance: random.Random) -> None:
    """Everybody at work until the broker is killed."""
    roles: list[Callable[[Client, Ledger, random.Random], Coroutine[Any, Any, None]]] = [produce] * PRODUCERS
    roles += [produce_delayed, transact, consume]
    clients = [Client(port) for _ in roles]
    tasks = [
        asyncio.ensure_future(role(client, ledger, random.Random(chance.random())))
        for role, client in zip(roles, clients, strict=True)
    ]
    # At a random instant, but of the work rather than of the clock: a busy machine must not make the test idle.
    enough = len(ledger.acknowledged) + chance.choice((0, 10, 100, 500, 1000))
    deadline = time.monotonic() + 20
    while len(ledger.acknowledged) < enough and time.monotonic() < deadline and not any(task.done() for task in tasks):
        await asyncio.sleep(0.001)
    await asyncio.sleep(chance.random() * 0.01)
    status = end(child, signal.SIGKILL)
    assert os.WIFSIGNALED(status), f"the broker ended by itself: {status}"
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()
    for outcome in outcomes:
        if not isinstance(outcome, GONE):
            raise outcome if isinstance(outcome, BaseException) else AssertionError(outcome)


# What must be true of every new broker


async def read_queue(client: Client, topic: str, queue_id: int, offset: int = 0) -> list[tuple[int, bytes, int]]:
    """(queue offset, body, store time) of everything from an offset on."""
    found: list[tuple[int, bytes, int]] = []
    while True:
        reply = await client.pull(topic, queue_id, offset)
        if reply.code in (17, 19):
            return found
        assert reply.code == 0, (topic, queue_id, offset, reply.code, reply.remark)
        for message in messages(reply):
            assert message.queue_offset == offset, f"{topic}@{queue_id} has a hole at {offset}"
            found.append((offset, message.body, message.store_timestamp))
            offset += 1


async def check(port: int, ledger: Ledger, *, everything: bool) -> None:
    """Every acknowledged and every delivered message is where it was; nothing else is there."""
    client = Client(port)
    known = ledger.acknowledged | ledger.delivered
    for place, body in ledger.delivered.items():
        assert ledger.acknowledged.get(place, body) == body, f"{place} was delivered as another message"
    first = {queue_id: 0 for queue_id in range(QUEUES)}
    if not everything:  # what is new since the last check, and the last of what is not
        for queue_id in range(QUEUES):
            old = [offset for (_, queue, offset) in list(known)[: ledger.checked] if queue == queue_id]
            first[queue_id] = max(0, max(old, default=0) - 50)
    there: set[bytes] = set()
    for queue_id, start_at in first.items():
        found = {offset: body for offset, body, _ in await read_queue(client, "orders", queue_id, start_at)}
        for (_, queue, offset), body in known.items():
            if queue == queue_id and offset >= start_at:
                assert found.get(offset) == body, (
                    f"orders@{queue_id}:{offset} {body[:20]!r} is {found.get(offset, b'')[:20]!r}"
                )
        for body in found.values():
            assert body in ledger.invoked, f"nobody sent {body[:40]!r}"
            assert body not in there, f"{body[:40]!r} is there twice"
            there.add(body)
        ext = {"consumerGroup": GROUP, "topic": "orders", "queueId": queue_id}
        committed = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        maximum = int(
            (await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": queue_id})).field("offset")
        )
        if committed.code == 0:
            offset = int(committed.field("offset"))
            assert offset <= min(maximum, ledger.offset_limit.get(queue_id, 0)), f"offset {offset} of {maximum}"
    ledger.checked = len(known)
    for queue_id in range(QUEUES):
        for _, body, store_time in await read_queue(client, "later", queue_id):
            not_before = int(body.rsplit(b".", 1)[1])
            assert store_time >= not_before, f"{body!r} came {not_before - store_time} ms early"
    paid = [body for queue_id in range(QUEUES) for _, body, _ in await read_queue(client, "paid", queue_id)]
    assert len(paid) == len(set(paid)), "a transaction was committed twice"
    assert ledger.committed <= set(paid), "a committed transaction is lost"
    assert set(paid) <= ledger.maybe_committed, "a transaction is visible that was never committed"
    await client.close()


async def wait_for_delayed(port: int, ledger: Ledger) -> None:
    """All acknowledged delayed messages arrive; what is due now comes within seconds."""
    client = Client(port)
    missing = set(ledger.delayed)
    deadline = time.monotonic() + 60
    there: Counter[bytes] = Counter()
    while missing and time.monotonic() < deadline:
        there.clear()
        for queue_id in range(QUEUES):
            there.update(body for _, body, _ in await read_queue(client, "later", queue_id))
        missing -= set(there)
        await asyncio.sleep(0.1)
    assert not missing, f"{len(missing)} delayed messages never came, {min(missing)!r} among them"
    repeated = {body: count for body, count in there.items() if count > 1}
    assert not repeated, f"{len(repeated)} delayed messages came more than once: {repeated}"
    await client.close()


def cycle(root: str, ledger: Ledger, chance: random.Random) -> None:
    child, pipe = start(root, chance)
    if chance.random() < 0.25:  # killed while it starts: recovery is a time like any other
        time.sleep(chance.random() * 0.2)
        end(child, signal.SIGKILL)
        os.close(pipe)
        child, pipe = start(root, chance)
    port = port_of(child, pipe)
    asyncio.run(check(port, ledger, everything=False))
    asyncio.run(load(port, child, ledger, chance))


def finish(root: str, ledger: Ledger, chance: random.Random) -> None:
    """The last broker: everything is read again, delayed messages come, and it is closed cleanly."""
    child, pipe = start(root, chance)
    port = port_of(child, pipe)
    asyncio.run(wait_for_delayed(port, ledger))
    asyncio.run(check(port, ledger, everything=True))
    status = end(child, signal.SIGTERM)
    assert status == 0, f"a clean stop ended with status {status}"
    with MessageStore.open(root, load_options(None, OPTIONS)[1]) as store:
        assert store.recovery.closed_cleanly
        assert store.check() == []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    chance = random.Random(settings.seed)
    ledger = Ledger()
    for number in range(settings.kills):
        try:
            cycle(settings.root, ledger, chance)
        except BaseException:
            print(f"in cycle {number} of seed {settings.seed}", file=sys.stderr)
            raise
    finish(settings.root, ledger, chance)
    print(
        f"{settings.kills} kills, {len(ledger.acknowledged)} acknowledged, {len(ledger.delivered)} delivered, "
        f"{len(ledger.delayed)} delayed, {len(ledger.committed)} committed: nothing lost"
    )


if __name__ == "__main__":
    main()
