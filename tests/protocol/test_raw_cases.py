"""Odd and broken frames that were sent to real servers by hand: we close where they close."""

from __future__ import annotations

import pytest

from flaremq.errors import RemoteProtocolError
from flaremq.protocol.frame import FrameDecoder
from tests.support.golden_frames import RawCase, decode_one, raw_cases

# 5.5.0 drops these frames and waits for the next; 4.9.7 closes, and so do we: nobody sends them on purpose.
CLOSED_BY_4_9_ONLY = {"header-empty", "header-json-array"}
# Four bytes are not yet a frame for us: the idle limit of the connection takes care of it.
TOO_SHORT_TO_JUDGE = {"length-zero"}


@pytest.mark.parametrize("case", raw_cases(), ids=lambda case: f"{case.recording}-{case.name}")
def test_a_frame_is_refused_where_the_real_server_closed(case: RawCase) -> None:
    decoder = FrameDecoder()
    commands = decoder.receive(case.sent)
    if case.name in TOO_SHORT_TO_JUDGE:
        assert not commands and decoder.failure is None
        assert decoder.buffered == len(case.sent)
        commands = decoder.receive(bytes(4))  # and more of the same is refused
        closes = True
    else:
        closes = case.closed or case.name in CLOSED_BY_4_9_ONLY
    if closes:
        assert not commands and isinstance(decoder.failure, RemoteProtocolError)
    else:
        decode_one(case.sent)


@pytest.mark.parametrize("case", raw_cases(), ids=lambda case: f"{case.recording}-{case.name}")
def test_what_the_real_server_answered_decodes(case: RawCase) -> None:
    decoder = FrameDecoder()
    assert all(reply.is_response for reply in decoder.receive(case.got))
    assert decoder.buffered == 0 and decoder.failure is None


def test_after_a_refused_frame_nothing_more_is_read() -> None:
    good = next(case.sent for case in raw_cases() if not case.closed and case.name not in TOO_SHORT_TO_JUDGE)
    bad = next(case.sent for case in raw_cases() if case.name == "header-not-json")
    decoder = FrameDecoder()
    assert len(decoder.receive(good + bad + good)) == 1
    assert isinstance(decoder.failure, RemoteProtocolError)
    assert decoder.receive(good) == []
    assert isinstance(decoder.failure, RemoteProtocolError)
    assert decoder.buffered == 0
