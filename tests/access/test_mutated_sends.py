"""Signed sends that somebody tampered with, at the compiled way: what it stores is what was signed, to the letter.

A read it cannot take goes to the guard, about which ``test_mutated_frames`` is.
"""

from __future__ import annotations

import asyncio
import os
import random
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.properties import parse_properties
from flaremq.protocol.command import BINARY_HEADER, JSON_HEADER, RemotingCommand
from flaremq.protocol.frame import encode_frame
from tests.access.attack_lab import Lab, asked, lab, send_fields
from tests.access.test_mutated_frames import tampered
from tests.support.fake_connection import FakeConnection
from tests.support.wire import sends_compiled

_READS = 6_000
_SOAK_READS = int(os.environ.get("FLAREMQ_MUTATED_FRAMES", "1000000")) // 2
_KEY = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD{:08d}\x02TAGS\x01t\x02"


class _Peer(FakeConnection):
    """What the compiled way asks of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.visitor: Any = None
        self.is_encrypted = False
        self.peer_certificate_name = None

    def write(self, parts: list[Any]) -> None: ...

    def begin_many(self, count: int) -> None: ...

    def finish_many(self, count: int) -> None: ...

    def answered_sends(self, code: int, count: int, received_at: float, *, oneway: bool) -> None: ...


def _send(number: int, user: str) -> RemotingCommand:
    command = asked(user, 310, send_fields("orders", _KEY.format(number)), b"body %d" % number)
    command.opaque, command.language = number, "JAVA"
    return command


async def _check_stored(found: Lab, expected: list[RemotingCommand], at: int) -> int:
    """That just these messages lie in the log from an offset on; where they end."""
    store = found.broker.store_loop.store
    async with asyncio.timeout(60):
        while store.dispatched_offset < store.max_physical_offset:
            found.broker.store_loop.dispatching.catch_up()
            await asyncio.sleep(0.001)
    for command in expected:
        message = store.read(at)
        assert message is not None, command
        ext = command.ext or {}
        assert (message.topic, str(message.queue_id)) == (ext["b"], ext["e"])
        assert (message.body, str(message.born_timestamp)) == (command.body_bytes, ext["g"])
        assert parse_properties(str(ext["i"]).encode()).items() <= message.properties.items()
        at += message.size
    assert at == store.max_physical_offset
    return at


async def _take_all(found: Lab, count: int, seed: int) -> tuple[int, int, int]:
    """Sends that were tampered with, how many of them were taken, and reads of honest ones that were not."""
    chance = random.Random(seed)
    take = found.broker.handlers.table.fast_path
    assert take is not None
    peer = _Peer()
    end = found.broker.store_loop.store.max_physical_offset
    expected: list[RemotingCommand] = []
    changed = taken_changed = left = 0
    for number in range(count):
        sends = [_send(number * 4 + at, chance.choice(("victim", "root"))) for at in range(chance.choice((1, 1, 3)))]
        frames = []
        for command in sends:
            command.serialize_type = chance.choice((JSON_HEADER, BINARY_HEADER))
            frames.append(encode_frame(command))
        bad = chance.randrange(-1, len(frames))
        if bad >= 0:
            changed += 1
            frames[bad] = tampered(frames[bad], chance)
        taken = take(peer, b"".join(frames))
        ends = list(accumulate(map(len, frames)))
        assert taken == 0 or taken in ends
        served = ends.index(taken) + 1 if taken else 0
        expected += sends[:served]
        taken_changed += 0 <= bad < served
        left += bad < 0 and not served
        if number % 100 == 99:
            end = await _check_stored(found, expected, end)
            expected = []
    await _check_stored(found, expected, end)
    return changed, taken_changed, left


def _run(folder: Path, count: int, seed: int) -> tuple[int, int, int]:
    async def run() -> tuple[int, int, int]:
        async with sends_compiled(True), lab(folder) as found:
            for _ in range(2):  # the first send to a topic tells that it is a plain one
                assert await found.code("root", 310, send_fields("orders", _KEY.format(99_999_999)), b"warm") == 0
            return await _take_all(found, count, seed)

    return asyncio.run(run())


def test_the_compiled_way_takes_no_send_that_was_tampered_with(tmp_path: Path) -> None:
    changed, taken, left = _run(tmp_path, _READS, 15)
    assert changed > _READS // 2 and left == 0
    assert 0 < taken < changed  # opaque, flag and language are not signed


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_way_takes_none_of_a_million(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, taken, left = _run(tmp_path, _SOAK_READS // 4, seed)
    with capsys.disabled():
        print(f"\n{changed:,} reads with a changed send; of {taken:,} only what nobody signs was changed")
    assert left == 0
