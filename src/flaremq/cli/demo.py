"""``flaremq demo``: fill a store, kill the writer in the middle, and see that nothing acknowledged is
missing.

Each step counts what it sees, and steps that count the same thing must agree: what the writer was told is
stored, what recovery keeps, what queues, index and tags give back, what the check of all files says. If two
numbers that must be equal are not, the demo says so and fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import debug_option
from flaremq.cli.progress import count_progress
from flaremq.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from flaremq import MessageStore

_SAMPLE_KEYS = 200


@dataclass(slots=True)
class _Story:
    """Numbers as they come in, and the pairs of them that must be equal."""

    quiet: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, text: str) -> None:
        if not self.quiet:
            click.echo(text)

    def check(self, what: str, found: object, expected: object) -> None:
        self.checks.append({"check": what, "found": found, "expected": expected, "agrees": found == expected})

    @property
    def agrees(self) -> bool:
        return all(check["agrees"] for check in self.checks)


@click.command()
@click.option("--messages", type=click.IntRange(min=40), default=20_000, show_default=True, help="How many to store.")
@click.option("--out", "folder", metavar="DIR", type=click.Path(), help="Keep the store here (a new or empty folder).")
@click.option("-o", "--output", type=click.Choice(["story", "json"]), default="story", help="A story, or its numbers.")
@debug_option
def demo(messages: int, folder: str | None, output: str) -> int:
    """The whole product in one go, with a crash in the middle.

    A writer process stores messages and is killed while it writes. The store is recovered, read, queried,
    filled up, closed and checked; every number must agree with the others, or the exit code is 1.
    """
    path = _empty_folder(folder)
    story = _Story(quiet=output == "json")
    try:
        acknowledged = _write_and_kill(story, path, messages)
        _look(story, path)
        _recover_and_read(story, path, messages, acknowledged)
        _verify(story, path, messages)
    finally:
        if folder is None:
            shutil.rmtree(path, ignore_errors=True)
    if output == "json":
        out.print_json({"agrees": story.agrees, "numbers": story.numbers, "checks": story.checks})
    else:
        out.print_rows(story.checks, out.TABLE, title="\nDo the numbers agree?")
        story.tell("All numbers agree." if story.agrees else "SOME NUMBERS DO NOT AGREE: please report this.")
        if folder is not None:
            story.tell(f"The store is in {path}: try  flaremq store info {path}")
    return failure.DONE if story.agrees else failure.FAILED


def _empty_folder(folder: str | None) -> str:
    if folder is None:
        return tempfile.mkdtemp(prefix="flaremq-demo-")
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise InvalidArgumentError(f"{folder} exists and is not an empty folder; give a new one with --out")
    os.makedirs(folder, exist_ok=True)
    return os.path.abspath(folder)


def _write_and_kill(story: _Story, path: str, messages: int) -> dict[int, tuple[int, int]]:
    """Start the writer, read its acknowledgements, kill it when two thirds are through."""
    story.tell(f"A writer process stores {messages} orders in {path}, each on disk before it is acknowledged ...")
    acknowledged: dict[int, tuple[int, int]] = {}
    began = time.perf_counter()
    command = [sys.executable, "-m", "flaremq.cli.demo_orders", path, str(messages)]
    # A session of its own: Ctrl-C is for us, and we end the writer ourselves.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as writer:
        assert writer.stdout is not None
        try:
            with count_progress("orders acknowledged", messages) as progress:
                for line in writer.stdout:
                    if not line.endswith("\n"):
                        break  # cut by the kill: not a whole acknowledgement
                    number, queue_offset, physical_offset = map(int, line.split())
                    acknowledged[number] = (queue_offset, physical_offset)
                    if len(acknowledged) == messages * 2 // 3:
                        writer.kill()
                    if len(acknowledged) % 256 == 0:
                        progress(len(acknowledged))
        finally:
            writer.kill()
    if not acknowledged:
        raise UnavailableError("the writer process ended before it stored anything; see what it printed above")
    seconds = time.perf_counter() - began
    story.numbers["acknowledged"] = len(acknowledged)
    story.numbers["acknowledgedPerSecond"] = round(len(acknowledged) / seconds)
    story.tell(f"... and was killed (SIGKILL) in the middle: {len(acknowledged)} acknowledged in {seconds:.1f} s.\n")
    story.check("the writer died before it was done", len(acknowledged) < messages, True)
    return acknowledged


def _look(story: _Story, path: str) -> None:
    from flaremq.storage.store_outlook import outlook_of
    from flaremq.storage.store_reader import StoreReader

    with StoreReader.open(path) as reader:
        outlook = outlook_of(reader)
    stored = sum(span.max_offset for span in outlook.queues.values())
    story.numbers["logEndBeforeOpening"] = outlook.log_end
    story.numbers["messagesInLog"] = stored
    story.check("closed cleanly after the crash", outlook.closed_cleanly, False)
    story.tell(
        f"Looking from outside: not closed cleanly, {stored} messages in {outlook.log_end} bytes of log, "
        f"{outlook.undispatched_messages} not yet in a queue, {outlook.tail.leftover_bytes} torn bytes.\n"
    )


def _recover_and_read(story: _Story, path: str, messages: int, acknowledged: dict[int, tuple[int, int]]) -> None:
    from flaremq import MessageStore
    from flaremq.cli.demo_orders import QUEUES, TOPIC, options, order, queue_of

    began = time.perf_counter()
    store = MessageStore.open(path, options())
    seconds = time.perf_counter() - began
    try:
        story.numbers["recoverySeconds"] = round(seconds, 4)
        story.check("recovery ends the log where we said", store.recovery.log_end, story.numbers["logEndBeforeOpening"])
        stored = sum(store.max_offset(TOPIC, queue) for queue in range(QUEUES))
        story.check("messages after recovery", stored, story.numbers["messagesInLog"])
        story.tell(f"Opened again in {seconds * 1000:.0f} ms; recovery kept {stored} messages.")
        lost = sum(not _is_stored(store, number, place, order(number).body) for number, place in acknowledged.items())
        story.numbers["lost"] = lost
        story.check("acknowledged messages lost", lost, 0)
        story.tell(f"Of {len(acknowledged)} acknowledged messages {lost} are lost.")
        _query(story, store, sorted(acknowledged))
        for queue in range(QUEUES):
            # A queue's orders went in one after the other, so its length tells which one comes next.
            done = store.max_offset(TOPIC, queue)
            for number in range(queue + done * QUEUES, messages, QUEUES):
                store.put(order(number), queue_of(number))
        store.wait_for_dispatch()
        story.check("orders after filling up", sum(store.max_offset(TOPIC, queue) for queue in range(QUEUES)), messages)
        _read_tags(story, store, messages)
    finally:
        store.close()


def _is_stored(store: MessageStore, number: int, place: tuple[int, int], body: bytes) -> bool:
    from flaremq.cli.demo_orders import TOPIC, queue_of

    message = store.read(place[1])
    return (
        message is not None
        and (message.topic, message.queue_id, message.queue_offset) == (TOPIC, queue_of(number), place[0])
        and message.body == body
    )


def _query(story: _Story, store: MessageStore, numbers: list[int]) -> None:
    from flaremq.cli.demo_orders import TOPIC, order

    sample = numbers[:: max(len(numbers) // _SAMPLE_KEYS, 1)]
    found = 0
    for number in sample:
        hits = store.query(TOPIC, f"order-{number}")
        found += len(hits) == 1 and hits[0].body == order(number).body
    story.numbers["queried"] = len(sample)
    story.check("orders found by their key", found, len(sample))
    story.tell(f"{found} of {len(sample)} sampled orders are found by their key.")


def _read_tags(story: _Story, store: MessageStore, messages: int) -> None:
    from flaremq.cli.demo_orders import QUEUES, TAGS, TOPIC

    found = 0
    for queue in range(QUEUES):
        offset = 0
        while offset < store.max_offset(TOPIC, queue):
            got = store.get(TOPIC, queue, offset, 32, tags=TAGS[0])
            found += len(got.messages)
            offset = got.next_offset
    story.numbers["paid"] = found
    story.check(f"orders tagged {TAGS[0]!r}", found, len(range(0, messages, len(TAGS))))
    story.tell(f"The rest was written; reading with tag {TAGS[0]!r} gives {found} orders.\n")


def _verify(story: _Story, path: str, messages: int) -> None:
    from flaremq.storage.store_reader import StoreReader
    from flaremq.storage.verify import StoreVerifier

    with StoreReader.open(path) as reader:
        verifier = StoreVerifier(reader)
        findings = list(verifier.findings())
    summary = verifier.summary
    story.numbers["verified"] = summary.to_dict()
    story.check("records in the log", summary.records, messages)
    story.check("queue units", summary.units, messages)
    story.check("index entries", summary.index_entries, messages)
    story.check("findings", len(findings), 0)
    story.tell(
        f"Closed cleanly and checked: {summary.records} records, {summary.units} queue units, "
        f"{summary.index_entries} index entries, {len(findings)} findings."
    )
