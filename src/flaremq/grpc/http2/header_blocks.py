"""Header blocks: what clients send, taken apart; and the few that we send, put together.

The tables and the Huffman code are those of the package ``hpack``. Its decoder is not used: it makes several objects
of every field and logs each, and took more time than everything else of a call together. Fields are decoded and judged
when they enter the table, so that a field that comes again, as nearly all do, costs one look at a list.

We send literals without indexing: so there is no state of ours that a peer could make us keep.
"""

from __future__ import annotations

from typing import Final

import cython
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from flaremq.grpc.http2.frames import TABLE_SIZE_DEFAULT

if not cython.compiled:
    from flaremq.core.memory import View, bytes_at, bytes_view, load_u8

_OVERHEAD: Final = 32  # counted for every field, by the standard
_SHORT: Final = 64  # only names this short are remembered
_REMEMBERED_MAX: Final = 4096

REGULAR, PSEUDO, WRONG = range(3)


class Field:
    """One header, and whether a request may have it."""

    __slots__ = ("kind", "name", "size", "value")

    def __init__(self, name: str, value: str, size: int, kind: int) -> None:
        self.name = name
        self.value = value
        self.size = size
        self.kind = kind


class HeaderError(Exception):
    """The block cannot be read; the tables of both ends differ from now on, so the connection ends."""


class RequestHeaders:
    """What a block said. A malformed one is complete all the same: the tables must stay right."""

    __slots__ = ("fields", "is_malformed", "is_too_large", "pseudo")

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}  # of several values of a name the last
        self.pseudo: dict[str, str] = {}
        self.is_malformed = False
        self.is_too_large = False

    @property
    def is_complete(self) -> bool:
        """Whether a request may begin like this."""
        pseudo = self.pseudo
        return not self.is_malformed and ":method" in pseudo and ":scheme" in pseudo and bool(pseudo.get(":path"))


_PSEUDO_NAMES: Final = frozenset((":method", ":scheme", ":path", ":authority"))
# They speak about one connection of HTTP/1, and are forbidden.
_HOP_NAMES: Final = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))
_NAME_CHARACTERS: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_known_names: Final[dict[str, int]] = {}


def _kind_of_name(name: str) -> int:
    kind = _known_names.get(name)
    if kind is not None:
        return kind
    if name in _PSEUDO_NAMES:
        kind = PSEUDO
    elif not name or name in _HOP_NAMES or not _NAME_CHARACTERS.issuperset(name):
        kind = WRONG
    else:
        kind = REGULAR
    if len(_known_names) < _REMEMBERED_MAX and len(name) <= _SHORT:
        _known_names[name] = kind
    return kind


def make_field(name: str, value: str) -> Field:
    kind = _kind_of_name(name)
    if (not value.isprintable() and _has_control(value)) or (name == "te" and value != "trailers"):
        kind = WRONG
    return Field(name, value, len(name) + len(value) + _OVERHEAD, kind)


def _has_control(value: str) -> bool:
    return "\0" in value or "\r" in value or "\n" in value


_STATIC: Final = tuple(
    make_field(name.decode("latin-1"), value.decode("latin-1")) for name, value in HeaderTable.STATIC_TABLE
)
_STATIC_COUNT: Final = len(_STATIC)
assert _STATIC_COUNT == 61  # fixed by RFC 7541


class HeaderDecoder:
    """The decoder of one connection."""

    __slots__ = ("_entries", "_list_size_max", "_size", "_size_max")

    def __init__(self, list_size_max: int) -> None:
        self._entries: list[Field] = []  # the newest last
        self._size = 0
        self._size_max = TABLE_SIZE_DEFAULT
        self._list_size_max = list_size_max

    def decode(self, block: bytes) -> RequestHeaders:
        """HeaderError if the block is no header block."""
        result = RequestHeaders()
        fields, pseudo, entries = result.fields, result.pseudo, self._entries
        room = self._list_size_max
        view = bytes_view(block)
        at, end = 0, len(block)
        has_begun = False
        while at < end:
            first = load_u8(view, at)
            at += 1
            if first >= 0x80:  # a field of the tables
                index = first & 0x7F
                if index == 0x7F:
                    index, at = _integer(view, at, end, 0x7F)
                place = index - _STATIC_COUNT  # most fields of a block are what the client sent before
                field = entries[len(entries) - place] if 0 < place <= len(entries) else self._find(index)
            elif 0x20 <= first < 0x40:  # a new size of the table
                size = first & 0x1F
                if size == 0x1F:
                    size, at = _integer(view, at, end, 0x1F)
                if has_begun or size > TABLE_SIZE_DEFAULT:
                    raise HeaderError("a change of the table's size that is not allowed")
                self._size_max = size
                self._evict(0)
                continue
            else:  # a literal; with 0x40 it enters the table
                mask = 0x3F if first >= 0x40 else 0x0F
                index = first & mask
                if index == mask:
                    index, at = _integer(view, at, end, mask)
                if index:
                    name = self._find(index).name
                else:
                    length, at = _length_at(view, at, end)
                    name = _text(view, at, length)
                    at += abs(length)
                length, at = _length_at(view, at, end)
                field = make_field(name, _text(view, at, length))
                at += abs(length)
                if first >= 0x40:
                    self._enter(field)
            has_begun = True
            room -= field.size
            if room < 0:
                result.is_too_large = True  # what follows still changes the table, but is not kept
            elif field.kind == REGULAR:
                fields[field.name] = field.value
            elif field.kind == PSEUDO and not fields and field.name not in pseudo:
                pseudo[field.name] = field.value
            else:
                result.is_malformed = True
        return result

    def _enter(self, field: Field) -> None:
        if self._size + field.size > self._size_max:
            self._evict(field.size)
        if field.size <= self._size_max:
            self._entries.append(field)
            self._size += field.size

    def _find(self, index: int) -> Field:
        if index == 0:
            raise HeaderError("there is no field 0")
        if index <= _STATIC_COUNT:
            return _STATIC[index - 1]
        index -= _STATIC_COUNT
        if index > len(self._entries):
            raise HeaderError(f"the table has no field {index + _STATIC_COUNT}")
        return self._entries[len(self._entries) - index]

    def _evict(self, size: int) -> None:
        """Make room for a field of this size."""
        entries = self._entries
        count = 0
        left = self._size
        room = self._size_max - size
        while count < len(entries) and left > room:
            left -= entries[count].size
            count += 1
        del entries[:count]
        self._size = left


def _integer(view: View, at: int, end: int, start: int) -> tuple[int, int]:
    """An integer that did not fit into its first byte, and where it ends."""
    value, shift = start, 0
    while at < end:
        byte = load_u8(view, at)
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise HeaderError("an integer is too long")
    raise HeaderError("the header block is cut off")


def _length_at(view: View, at: int, end: int) -> tuple[int, int]:
    """How long the text is that begins here, and where; a text of Huffman codes has a negative length."""
    if at >= end:
        raise HeaderError("the header block is cut off")
    first = load_u8(view, at)
    at += 1
    length = first & 0x7F
    if length == 0x7F:
        length, at = _integer(view, at, end, 0x7F)
    if length > end - at:
        raise HeaderError("the header block is cut off")
    return (length if first < 0x80 else -length), at


def _text(view: View, at: int, length: int) -> str:
    data = bytes_at(view, at, length) if length >= 0 else decode_huffman(bytes_at(view, at, -length))
    return data.decode("latin-1")


# What a byte does to the decoder in a state: the next state, whether text may end there, and what it adds to the text.
# The package has a table of half bytes; steps of whole ones are put together as they come up, a few hundred in all.
_steps: Final[dict[int, tuple[int, bool, bytes]]] = {}


def decode_huffman(data: bytes) -> bytes:
    state, may_end = 0, True
    steps, text = _steps, []
    for byte in data:
        step = steps.get(state << 8 | byte)
        if step is None:
            step = _step(state, byte)
        state, may_end, added = step
        if added:
            text.append(added)
    if not may_end:
        raise HeaderError("a Huffman code is cut off")
    return b"".join(text)


def _step(state: int, byte: int) -> tuple[int, bool, bytes]:
    key = state << 8 | byte
    added = bytearray()
    flags = 0
    for half in (byte >> 4, byte & 0xF):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise HeaderError("a Huffman code that does not exist")
        if flags & HUFFMAN_EMIT_SYMBOL:
            added.append(symbol)
    step = state, bool(flags & HUFFMAN_COMPLETE), bytes(added)
    if len(_steps) < _REMEMBERED_MAX:
        _steps[key] = step
    return step


def literal(name: str, value: str) -> bytes:
    """A field of ours."""
    left, right = name.encode("ascii"), value.encode("ascii")
    return b"\0" + _length(len(left)) + left + _length(len(right)) + right


def _length(size: int) -> bytes:
    if size < 0x7F:
        return bytes((size,))
    size -= 0x7F
    data = bytearray(b"\x7f")
    while size >= 0x80:
        data.append(size & 0x7F | 0x80)
        size >>= 7
    data.append(size)
    return bytes(data)


def status(code: int) -> bytes:
    """The pseudo header with which every reply begins."""
    return b"\x88" if code == 200 else b"\x08\x03" + str(code).encode()
