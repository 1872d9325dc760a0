"""Properties strings in the core: ``key 01 value 02`` repeated, read without making a map.

One pass finds the few values the store itself needs. It steps over pieces eight bytes at a time; the known
keys are compared as machine words together with their 0x01, so a longer key that begins like one does not
match. The rules are those of ``message.properties``: a piece without key or value does not exist, the last of
several equal keys wins.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from flaremq.core.memory import Table, View, find_byte, load_i32, load_u8, load_word, word_before
    from flaremq.core.table import (
        DELAY_LEVEL,
        KEYS_AT,
        KEYS_LENGTH,
        MARK_BAD_TEXT,
        MARK_MULTI_DISPATCH,
        MARK_RECORD_CRC,
        TAGS_AT,
        TAGS_CODE,
        TAGS_LENGTH,
        UNIQUE_KEY_AT,
        UNIQUE_KEY_LENGTH,
    )
    from flaremq.core.text import NOT_UTF8, hash_text, is_utf8, signed

_FIVE_BYTES = 0xFFFFFFFFFF
_SIX_BYTES = 0xFFFFFFFFFFFF
_KEYS = int.from_bytes(b"KEYS\x01", "little")
_TAGS = int.from_bytes(b"TAGS\x01", "little")
_DELAY = int.from_bytes(b"DELAY\x01", "little")
_UNIQ_KEY = int.from_bytes(b"UNIQ_KEY", "little")  # and 0x01 as the ninth byte
_CRC_KEY = int.from_bytes(b"__CRC32#", "little")  # and 0x01 as the ninth byte
_MULTI_1 = int.from_bytes(b"INNER_MU", "little")
_MULTI_2 = int.from_bytes(b"LTI_DISP", "little")
_MULTI_3 = int.from_bytes(b"ATCH", "big")
RECORD_CRC_SIZE = 20

NO_DELAY = -1
UNREADABLE_DELAY = -2
_INT_END = 2**31


def read_properties(log: View, start: int, end: int, table: Table, row: int) -> int:
    """Fill the property columns of one row and return its marks."""
    tags_at = tags_length = keys_at = keys_length = unique_at = unique_length = 0
    delay = NO_DELAY
    marks = 0
    at = start
    while at < end:
        word = word_before(log, at, end)
        stop = find_byte(log, at, end, 2)
        length = stop - at
        if word & _FIVE_BYTES == _KEYS:
            if length > 5:
                keys_at, keys_length = at + 5, length - 5
        elif word & _FIVE_BYTES == _TAGS:
            if length > 5:
                tags_at, tags_length = at + 5, length - 5
        elif word == _UNIQ_KEY:
            if length > 9 and load_u8(log, at + 8) == 1:
                unique_at, unique_length = at + 9, length - 9
        elif word & _SIX_BYTES == _DELAY:
            if length > 6:
                delay = _parse_level(log, at + 6, stop)
        elif word == _MULTI_1 and length > 21:
            if load_word(log, at + 8) == _MULTI_2 and load_i32(log, at + 16) == _MULTI_3 and load_u8(log, at + 20) == 1:
                marks |= MARK_MULTI_DISPATCH
        at = stop + 1
    if has_record_crc(log, start, end):
        marks |= MARK_RECORD_CRC
    if end > start and not is_utf8(log, start, end):
        marks |= MARK_BAD_TEXT
    code = 0
    if tags_length > 0:
        code = hash_text(0, log, tags_at, tags_length)
        code = 0 if code == NOT_UTF8 else signed(code)
    table.data[TAGS_AT * table.stride + row] = tags_at
    table.data[TAGS_LENGTH * table.stride + row] = tags_length
    table.data[KEYS_AT * table.stride + row] = keys_at
    table.data[KEYS_LENGTH * table.stride + row] = keys_length
    table.data[UNIQUE_KEY_AT * table.stride + row] = unique_at
    table.data[UNIQUE_KEY_LENGTH * table.stride + row] = unique_length
    table.data[TAGS_CODE * table.stride + row] = code
    table.data[DELAY_LEVEL * table.stride + row] = delay
    return marks


def stored_record_crc(log: View, record_end: int) -> int:
    """The number in the checksum property, least significant digit first; -1 if malformed."""
    if load_word(log, record_end - RECORD_CRC_SIZE) != _CRC_KEY or load_u8(log, record_end - 12) != 1:
        return -1
    value = 0
    for back in range(2, 12):
        digit = load_u8(log, record_end - back) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value if load_u8(log, record_end - 1) == 2 else -1


def has_record_crc(log: View, start: int, end: int) -> bool:
    """Whether properties end with the checksum property; its digits are not looked at.

    One flipped bit in its announcement (0x02, key, 0x01) is overlooked, as in ``message.record.crc``.
    """
    place = end - RECORD_CRC_SIZE
    if place < start:
        return False
    key = load_word(log, place) ^ _CRC_KEY
    before = 0
    if place > start:
        before = load_u8(log, place - 1) ^ 2
    rest = (before << 8) | (load_u8(log, place + 8) ^ 1)
    if key == 0 and load_u8(log, place + 8) == 1 and stored_record_crc(log, end) >= 0:
        return True
    if key == 0:
        return rest & (rest - 1) == 0
    return rest == 0 and key & (key - 1) == 0


def properties_plausible(log: View, start: int, end: int) -> bool:
    """Whether a put could have written this: no put takes a NUL, so a zeroed page shows."""
    return find_byte(log, start, end, 0) == end


def _parse_level(log: View, start: int, end: int) -> int:
    """``Integer.parseInt``, negative values as NO_DELAY."""
    sign = load_u8(log, start)
    at = start + 1 if sign == 43 or sign == 45 else start
    if at == end:
        return UNREADABLE_DELAY
    value = 0
    while at < end:
        digit = load_u8(log, at) - 48
        if digit < 0 or digit > 9:
            return UNREADABLE_DELAY
        value = value * 10 + digit
        if value > _INT_END:
            return UNREADABLE_DELAY
        at += 1
    if sign == 45:
        return NO_DELAY if value > 0 else 0
    return value if value < _INT_END else UNREADABLE_DELAY
