"""Signed frames that somebody tampered with: none is let in, none raises, and nothing grows.

A frame counts as changed when its code, its fields or its body are others than those that were signed; opaque, flag,
language and version are not signed by any client.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import signed
from tests.access.test_guard import APP, Gate, Peer, time_of

_FRAMES = 20_000
_SOAK_FRAMES = int(os.environ.get("FLAREMQ_MUTATED_FRAMES", "1000000"))
_FIELDS: list[tuple[int, dict[str, str], bytes]] = [
    (310, {"a": "pg", "b": "both", "g": "1700000000000", "i": "KEYS\x01k\x02"}, b"hello"),
    (11, {"topic": "both", "consumerGroup": "good", "queueId": "0"}, b""),
    (34, {}, b'{"clientID":"c","consumerDataSet":[{"groupName":"good","subscriptionDataSet":[{"topic":"both"}]}]}'),
    (30, {"topic": "both", "queueId": "0"}, b""),
    (14, {"topic": "both", "consumerGroup": "good", "queueId": "0"}, b""),
]


def tampered(frame: bytes, chance: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(8, len(data))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.randrange(256)
            case 2:
                data.insert(at, chance.choice(b'"\\{}:,0aZ\x00'))
            case 3:
                del data[at]
            case _:
                other = chance.randrange(8, len(data))
                data[at], data[other] = data[other], data[at]
    header = int.from_bytes(data[5:8], "big") + len(data) - len(frame)  # what was put in counts as header
    data[:8] = (len(data) - 4).to_bytes(4, "big") + bytes([data[4]]) + max(0, header).to_bytes(3, "big")
    return bytes(data)


def _run(folder: Path, count: int, seed: int) -> tuple[int, int, int]:
    """(changed and judged, let in although changed, signatures remembered)."""
    chance = random.Random(seed)
    gate = Gate(folder)
    peer = Peer()
    judged = wrong = 0
    for number in range(count):
        code, fields, body = chance.choice(_FIELDS)
        ext = signed({**fields, "n": str(number)}, body, access_key="app", secret_key=APP.secret.decode(), code=code)
        honest = RemotingCommand.request(code, ext, body)
        honest.serialize_type = chance.randrange(2)
        gate.clock.jump(time_of(honest) - gate.clock.now_ms())
        decoder = FrameDecoder()
        for command in decoder.receive(tampered(encode_frame(honest), chance)):
            if command.is_response:
                continue
            is_changed = command.code != code or dict(command.ext or {}) != ext or command.body_bytes != body
            verdict = gate.check(peer, command, is_served=True)
            judged += is_changed
            wrong += is_changed and verdict is None
    return judged, wrong, gate.guard.remembered


def test_no_tampered_frame_is_let_in(tmp_path: Path) -> None:
    judged, wrong, remembered = _run(tmp_path, _FRAMES, 14)
    assert wrong == 0
    assert judged > _FRAMES // 4
    assert remembered <= 200_000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_no_tampered_frame_of_a_million_is_let_in(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    judged, wrong, remembered = _run(tmp_path, _SOAK_FRAMES // 4, seed)
    with capsys.disabled():
        print(f"\n{_SOAK_FRAMES // 4:,} frames: {judged:,} judged as changed, {wrong} of them let in")
    assert wrong == 0
    assert judged > _SOAK_FRAMES // 16
    assert remembered <= 200_000
