"""Strict JSON (RFC 8259 in UTF-8), walked token by token over bytes: where a text, a number, a value ends.

Every function gets a place and the end of the body, touches nothing from the end on, and answers -1 where what stands
there is no JSON. Nothing is skipped unlooked at: brackets match, escapes are whole, surrogates come in pairs.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from flaremq.core.memory import (
        View,
        as_u64,
        copy_bytes,
        first_marked_byte,
        load_i32,
        load_u8,
        load_word,
        store_u8,
    )
    from flaremq.core.text import next_character

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO = b'"\\,:-.0'
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
_LOWER_E, _LOWER_U, _LOWER_B, _LOWER_F, _LOWER_N, _LOWER_R, _LOWER_T = b"eubfnrt"
NULL, TRUE, _FALS = 0x6E756C6C, 0x74727565, 0x66616C73  # as four bytes, the first the highest
_DEEPEST = 60  # levels, a bit each; what is deeper is left to others
_HIGH_BITS = 0x8080808080808080
_ONES = 0x0101010101010101
_QUOTES = 0x2222222222222222
_BACKSLASHES = 0x5C5C5C5C5C5C5C5C
_BLANKS = 0x2020202020202020


def after_blanks(data: View, at: int, end: int) -> int:
    """The first place from ``at`` on that is no blank."""
    while at < end:
        byte = load_u8(data, at)
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            return at
        at += 1
    return end


def text_stop(data: View, at: int, end: int) -> int:
    """The quote that ends a text, or the backslash before it; -1 if the text does not end or has what no text may."""
    while at < end:
        while end - at >= 8:
            # The lowest marked byte is a quote, a backslash, a control character or no ASCII; those above may be wrong.
            word = load_word(data, at)
            marked = ((word ^ _QUOTES) - _ONES) | ((word ^ _BACKSLASHES) - _ONES) | (word - _BLANKS) | word
            marked &= _HIGH_BITS
            if marked != 0:
                at += first_marked_byte(marked)
                break
            at += 8
        if at >= end:
            return -1
        byte = load_u8(data, at)
        if byte == _QUOTE or byte == _BACKSLASH:
            return at
        if byte < 32:
            return -1
        if byte < 128:
            at += 1
            continue
        character = next_character(data, at, end)
        if character == 0:
            return -1
        at += character & 7
    return -1


def escape_length(data: View, at: int, end: int) -> int:
    """Bytes of the escape at a backslash, both halves of a surrogate pair together."""
    if end - at < 2:
        return -1
    byte = load_u8(data, at + 1)
    if byte != _LOWER_U:
        return 2 if _plain_escape(byte) >= 0 else -1
    code = _hex(data, at + 2, end)
    if code < 0xD800 or code >= 0xE000:
        return 6 if code >= 0 else -1
    if code >= 0xDC00 or end - at < 12 or load_u8(data, at + 6) != _BACKSLASH or load_u8(data, at + 7) != _LOWER_U:
        return -1
    code = _hex(data, at + 8, end)
    return 12 if code >= 0xDC00 and code < 0xE000 else -1


def put_escape(out: View, done: int, data: View, at: int, length: int) -> int:
    """Write the character of an escape of ``length`` bytes as UTF-8, which has fewer; where it ends."""
    if length == 2:
        store_u8(out, done, _plain_escape(load_u8(data, at + 1)))
        return done + 1
    code = _hex(data, at + 2, at + 6)
    if length == 12:
        code = 0x10000 + ((code - 0xD800) << 10) + (_hex(data, at + 8, at + 12) - 0xDC00)
    if code < 0x80:
        store_u8(out, done, code)
        return done + 1
    if code < 0x800:
        store_u8(out, done, 0xC0 | (code >> 6))
    else:
        if code < 0x10000:
            store_u8(out, done, 0xE0 | (code >> 12))
        else:
            store_u8(out, done, 0xF0 | (code >> 18))
            done += 1
            store_u8(out, done, 0x80 | ((code >> 12) & 0x3F))
        done += 1
        store_u8(out, done, 0x80 | ((code >> 6) & 0x3F))
    store_u8(out, done + 1, 0x80 | (code & 0x3F))
    return done + 2


def put_text(out: View, done: int, data: View, at: int, end: int) -> int:
    """Write the text of ``data[at:end]``, which is known to be whole, without its escapes; where it ends in ``out``."""
    while at < end:
        stop = text_stop(data, at, end)
        if stop < 0:
            stop = end
        copy_bytes(out, done, data, at, stop - at)
        done += stop - at
        if stop < end:
            length = escape_length(data, stop, end)
            done = put_escape(out, done, data, stop, length)
            stop += length
        at = stop
    return done


def text_end(data: View, at: int, end: int) -> int:
    """The quote that ends the text whose first byte is at ``at``."""
    while True:
        at = text_stop(data, at, end)
        if at < 0 or load_u8(data, at) == _QUOTE:
            return at
        length = escape_length(data, at, end)
        if length < 0:
            return -1
        at += length


def number_end(data: View, at: int, end: int) -> int:
    """Behind a number."""
    if at < end and load_u8(data, at) == _MINUS:
        at += 1
    stop = _digits_end(data, at, end)
    if stop == at or (stop - at > 1 and load_u8(data, at) == _ZERO):
        return -1
    at = stop
    if at < end and load_u8(data, at) == _POINT:
        stop = _digits_end(data, at + 1, end)
        if stop == at + 1:
            return -1
        at = stop
    if at < end and load_u8(data, at) | 0x20 == _LOWER_E:
        at += 1
        if at < end and (load_u8(data, at) == _MINUS or load_u8(data, at) == 43):
            at += 1
        stop = _digits_end(data, at, end)
        if stop == at:
            return -1
        at = stop
    return at


def word_end(data: View, at: int, end: int) -> int:
    """Behind ``null``, ``true`` or ``false``."""
    if end - at < 4:
        return -1
    word = load_i32(data, at)
    if word == NULL or word == TRUE:
        return at + 4
    if word == _FALS and end - at >= 5 and load_u8(data, at + 4) == _LOWER_E:
        return at + 5
    return -1


def value_of_name(data: View, at: int, end: int) -> int:
    """From behind the name of a member to its value."""
    at = after_blanks(data, at, end)
    if at >= end or load_u8(data, at) != _COLON:
        return -1
    at = after_blanks(data, at + 1, end)
    return at if at < end else -1


def value_end(data: View, at: int, end: int) -> int:
    """Behind a value of any kind."""
    depth = 0
    kinds = as_u64(0)  # of what is open, the innermost the lowest bit: 1 for an object
    while at < end:
        byte = load_u8(data, at)
        if byte == _OPEN or byte == _OPEN_LIST:
            depth += 1
            if depth > _DEEPEST:
                return -1
            kinds = (kinds << 1) | (1 if byte == _OPEN else 0)
            at = after_blanks(data, at + 1, end)
            if at >= end:
                return -1
            if load_u8(data, at) != (_CLOSE if kinds & 1 else _CLOSE_LIST):
                if kinds & 1:
                    at = _member_value(data, at, end)
                    if at < 0:
                        return -1
                continue
            at += 1
            depth -= 1
            kinds >>= 1
        else:
            at = _plain_end(data, at, end, byte)
            if at < 0:
                return -1
        # A value has ended: what is around it ends too, or there is another one.
        while True:
            if depth == 0:
                return at
            at = after_blanks(data, at, end)
            if at >= end:
                return -1
            byte = load_u8(data, at)
            at += 1
            if byte == _COMMA:
                at = after_blanks(data, at, end)
                if kinds & 1:
                    at = _member_value(data, at, end)
                    if at < 0:
                        return -1
                break
            if byte != (_CLOSE if kinds & 1 else _CLOSE_LIST):
                return -1
            depth -= 1
            kinds >>= 1
    return -1


def _member_value(data: View, at: int, end: int) -> int:
    """From the name of a member to its value."""
    if at >= end or load_u8(data, at) != _QUOTE:
        return -1
    at = text_end(data, at + 1, end)
    return value_of_name(data, at + 1, end) if at >= 0 else -1


def _plain_end(data: View, at: int, end: int, byte: int) -> int:
    """Behind a value that holds no others; ``byte`` is its first."""
    if byte == _QUOTE:
        at = text_end(data, at + 1, end)
        return at + 1 if at >= 0 else -1
    if byte == _MINUS or (byte >= 48 and byte < 58):
        return number_end(data, at, end)
    return word_end(data, at, end)


def _digits_end(data: View, at: int, end: int) -> int:
    while at < end:
        byte = load_u8(data, at)
        if byte < 48 or byte > 57:
            break
        at += 1
    return at


def _plain_escape(byte: int) -> int:
    """What a backslash before a character means; -1 for nothing."""
    if byte == _QUOTE or byte == _BACKSLASH or byte == 47:
        return byte
    if byte == _LOWER_N:
        return 10
    if byte == _LOWER_T:
        return 9
    if byte == _LOWER_R:
        return 13
    if byte == _LOWER_B:
        return 8
    if byte == _LOWER_F:
        return 12
    return -1


def _hex(data: View, at: int, end: int) -> int:
    """Four hexadecimal digits."""
    if end - at < 4:
        return -1
    code = 0
    for place in range(at, at + 4):
        byte = load_u8(data, place)
        if byte >= 48 and byte < 58:
            code = code * 16 + byte - 48
        else:
            byte |= 0x20
            if byte < 97 or byte > 102:
                return -1
            code = code * 16 + byte - 87
    return code
