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
    decoder.feed(case.sent)
    if case.name in TOO_SHORT_TO_JUDGE:
        assert decoder.next_command() is None
        assert decoder.buffered == len(case.sent)
        decoder.feed(bytes(4))  # and more of the same is refused
        closes = True
    else:
        closes = case.closed or case.name in CLOSED_BY_4_9_ONLY
    if closes:
        with pytest.raises(RemoteProtocolError):
            decoder.next_command()
    else:
        decode_one(case.sent)


@pytest.mark.parametrize("case", raw_cases(), ids=lambda case: f"{case.recording}-{case.name}")
def test_what_the_real_server_answered_decodes(case: RawCase) -> None:
    decoder = FrameDecoder()
    decoder.feed(case.got)
    while (reply := decoder.next_command()) is not None:
        assert reply.is_response
    assert decoder.buffered == 0


def test_after_a_refused_frame_nothing_more_is_read() -> None:
    good = next(case.sent for case in raw_cases() if not case.closed and case.name not in TOO_SHORT_TO_JUDGE)
    bad = next(case.sent for case in raw_cases() if case.name == "header-not-json")
    decoder = FrameDecoder()
    decoder.feed(good + bad + good)
    assert decoder.next_command() is not None
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            decoder.next_command()
    decoder.feed(good)
    with pytest.raises(RemoteProtocolError):
        decoder.next_command()
    assert decoder.buffered == 0
