"""Acknowledgements of one message, read where they lie: no object for each part.

``read_plain_ack`` knows what nearly every AckMessage is: the name of a topic, that of a group, and one entry with an id
and a handle of nine words and a seal. About anything else it says nothing (None), and the ordinary way decides. Whether
the handle is one of ours is for ``ReceiptSeal`` to say; until then its words are only words.
Part of the compiled core (``docs/compiled-core.md``): C types are in the ``.pxd`` beside it.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from flaremq.core.memory import View, bytes_at, bytes_view, find_byte, load_u8
    from flaremq.grpc.plain.wire import BYTES, is_text, read_name, read_varint, varint

_HANDLE_MAX = 1024
_SEAL_LENGTH = 16
_BLANK = 0x20
_DIGITS_MAX = 18  # of what fits into 63 bits whatever the digits are


class PlainAck:
    """What is acknowledged: names as they came, and the words of the handle."""

    __slots__ = (
        "broker", "group", "handle", "invisible_time", "kind", "message_id", "offset", "physical_offset", "pop_time",
        "queue_id", "revive_queue_id", "seal", "start_offset", "topic", "words",
    )  # fmt: skip

    def __init__(self) -> None:
        self.topic = self.group = self.message_id = self.handle = b""
        self.words = self.seal = b""  # the two parts of the handle
        self.kind = self.broker = b""
        self.start_offset = self.pop_time = self.invisible_time = self.revive_queue_id = 0
        self.queue_id = self.offset = self.physical_offset = 0


def read_plain_ack(data: bytes, at: int) -> PlainAck | None:
    """The only entry of an AckMessageRequest that begins at ``at``; None if it is not plain."""
    view = bytes_view(data)
    end = len(data)
    ack = PlainAck()
    for field in range(1, 4):  # each once and in this order, as everybody writes them
        tag, at = read_varint(view, at, end)
        length, at = read_varint(view, at, end)
        if at < 0 or tag != field << 3 | BYTES or length > end - at:
            return None
        if field == 3:
            if length != end - at or not _read_entry(view, at, end, ack):
                return None
        else:
            name_at, name_length = read_name(view, at, at + length)
            if name_at < 0:
                return None
            if field == 1:
                ack.group = bytes_at(view, name_at, name_length)
            else:
                ack.topic = bytes_at(view, name_at, name_length)
        at += length
    return ack


def _read_entry(view: View, at: int, end: int, ack: PlainAck) -> bool:
    """An id and a handle, and nothing else."""
    tag, at = read_varint(view, at, end)
    length, at = read_varint(view, at, end)
    if tag != 1 << 3 | BYTES or at < 0 or length > end - at or not is_text(view, at, length):
        return False
    ack.message_id = bytes_at(view, at, length)
    at += length
    tag, at = read_varint(view, at, end)
    length, at = read_varint(view, at, end)
    if tag != 2 << 3 | BYTES or at < 0 or length != end - at or not is_text(view, at, length):
        return False
    if not _SEAL_LENGTH < length <= _HANDLE_MAX or load_u8(view, end - _SEAL_LENGTH - 1) != _BLANK:
        return False
    ack.handle = bytes_at(view, at, length)
    ack.words = bytes_at(view, at, length - _SEAL_LENGTH - 1)
    ack.seal = bytes_at(view, end - _SEAL_LENGTH, _SEAL_LENGTH)
    return _read_words(view, at, end - _SEAL_LENGTH - 1, ack)


def _read_words(view: View, at: int, end: int, ack: PlainAck) -> bool:
    for word in range(9):
        stop = find_byte(view, at, end, _BLANK)
        if word == 4:
            ack.kind = bytes_at(view, at, stop - at)
        elif word == 5:
            ack.broker = bytes_at(view, at, stop - at)
        else:
            number = _number(view, at, stop)
            if number < 0:
                return False
            if word == 0:
                ack.start_offset = number
            elif word == 1:
                ack.pop_time = number
            elif word == 2:
                ack.invisible_time = number
            elif word == 3:
                ack.revive_queue_id = number
            elif word == 6:
                ack.queue_id = number
            elif word == 7:
                ack.offset = number
            else:
                ack.physical_offset = number
        if stop == end:
            return word == 8
        at = stop + 1
    return False  # there is a tenth


def _number(view: View, at: int, end: int) -> int:
    """A number of decimal digits; -1 if it is none, or a long one."""
    if end <= at or end - at > _DIGITS_MAX:
        return -1
    number = 0
    for place in range(at, end):
        digit = load_u8(view, place) - 0x30
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


def acknowledged_reply(status: bytes, message_id: bytes, handle: bytes) -> bytes:
    """The reply to an acknowledgement that was taken, as it goes out: ``status`` is a status that says so."""
    entry = b"".join(
        (b"\x0a", varint(len(message_id)), message_id, b"\x12", varint(len(handle)), handle, b"\x1a", status)
    )
    message = b"".join((b"\x0a", status, b"\x12", varint(len(entry)), entry))
    return b"\0" + len(message).to_bytes(4, "big") + message
