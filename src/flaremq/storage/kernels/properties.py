"""Properties strings inside kernels: ``key 01 value 02`` repeated, read without making a map.

One pass finds the few values the store itself needs. It steps over pieces eight bytes at a time; the known
keys are compared as machine words together with their 0x01, so a longer key that begins like one does not
match. The rules are those of ``message.properties``: a piece without key or value does not exist, the last of
several equal keys wins.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import U64, helper
from flaremq.storage.kernels.memory import find_byte, load_i32, load_u8, load_word, store_native, word_before
from flaremq.storage.kernels.table import (
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
from flaremq.storage.kernels.text import NOT_UTF8, hash_text, is_utf8, signed

_ONES = U64(0x0101010101010101)
_TWOS = U64(0x0202020202020202)
_FIVE_BYTES = U64(0xFFFFFFFFFF)
_SIX_BYTES = U64(0xFFFFFFFFFFFF)
_KEYS = U64(int.from_bytes(b"KEYS\x01", "little"))
_TAGS = U64(int.from_bytes(b"TAGS\x01", "little"))
_DELAY = U64(int.from_bytes(b"DELAY\x01", "little"))
_UNIQ_KEY = U64(int.from_bytes(b"UNIQ_KEY", "little"))  # and 0x01 as the ninth byte
_CRC_KEY = U64(int.from_bytes(b"__CRC32#", "little"))  # and 0x01 as the ninth byte
_MULTI_1 = U64(int.from_bytes(b"INNER_MU", "little"))
_MULTI_2 = U64(int.from_bytes(b"LTI_DISP", "little"))
_MULTI_3 = int.from_bytes(b"ATCH", "big")
RECORD_CRC_SIZE = 20

NO_DELAY = -1
UNREADABLE_DELAY = -2


@helper
def read_properties(log: int, start: int, end: int, cell: int, stride: int) -> int:
    """Fill the property columns of one row (``cell`` is its address in column 0) and return its marks."""
    tags_at = tags_length = keys_at = keys_length = unique_at = unique_length = 0
    delay = NO_DELAY
    marks = 0
    position = log + start
    stop = log + end
    while position < stop:
        word = word_before(position, stop)
        piece_stop = find_byte(position, stop, _TWOS)
        length = piece_stop - position
        if word & _FIVE_BYTES == _KEYS:
            if length > 5:
                keys_at, keys_length = position + 5 - log, length - 5
        elif word & _FIVE_BYTES == _TAGS:
            if length > 5:
                tags_at, tags_length = position + 5 - log, length - 5
        elif word == _UNIQ_KEY:
            if length > 9 and load_u8(position + 8) == 1:
                unique_at, unique_length = position + 9 - log, length - 9
        elif word & _SIX_BYTES == _DELAY:
            if length > 6:
                delay = _parse_level(position + 6, piece_stop)
        elif word == _MULTI_1 and length > 21:
            if (
                load_word(position + 8) == _MULTI_2
                and load_i32(position + 16) == _MULTI_3
                and load_u8(position + 20) == 1
            ):
                marks |= MARK_MULTI_DISPATCH
        position = piece_stop + 1
    if has_record_crc(log + start, stop):
        marks |= MARK_RECORD_CRC
    if end > start and not is_utf8(log + start, stop):
        marks |= MARK_BAD_TEXT
    code = 0
    if tags_length > 0:
        code = hash_text(0, log + tags_at, tags_length)
        code = 0 if code == NOT_UTF8 else signed(code)
    store_native(cell + TAGS_AT * stride, tags_at)
    store_native(cell + TAGS_LENGTH * stride, tags_length)
    store_native(cell + KEYS_AT * stride, keys_at)
    store_native(cell + KEYS_LENGTH * stride, keys_length)
    store_native(cell + UNIQUE_KEY_AT * stride, unique_at)
    store_native(cell + UNIQUE_KEY_LENGTH * stride, unique_length)
    store_native(cell + TAGS_CODE * stride, code)
    store_native(cell + DELAY_LEVEL * stride, delay)
    return marks


@helper
def stored_record_crc(record_end: int) -> int:
    """The number in the checksum property, least significant digit first; -1 if malformed."""
    if load_word(record_end - RECORD_CRC_SIZE) != _CRC_KEY or load_u8(record_end - 12) != 1:
        return -1
    value = 0
    for back in range(2, 12):
        digit = load_u8(record_end - back) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value if load_u8(record_end - 1) == 2 else -1


@helper
def has_record_crc(start: int, end: int) -> bool:
    """Whether properties end with the checksum property; its digits are not looked at.

    One flipped bit in its announcement (0x02, key, 0x01) is overlooked, as in ``message.crc``.
    """
    place = end - RECORD_CRC_SIZE
    if place < start:
        return False
    key = load_word(place) ^ _CRC_KEY
    before = U64(0)
    if place > start:
        before = U64(load_u8(place - 1) ^ 2)
    rest = (before << U64(8)) | U64(load_u8(place + 8) ^ 1)
    if key == U64(0) and load_u8(place + 8) == 1 and stored_record_crc(end) >= 0:
        return True
    if key == U64(0):
        return rest & (rest - U64(1)) == U64(0)
    return rest == U64(0) and key & (key - U64(1)) == U64(0)


@helper
def properties_plausible(start: int, end: int) -> bool:
    """Whether a put could have written this: no put takes a NUL, so a zeroed page shows."""
    return find_byte(start, end, U64(0)) == end


@helper
def _parse_level(start: int, end: int) -> int:
    """``Integer.parseInt``, negative values as NO_DELAY."""
    sign = load_u8(start)
    position = start + 1 if sign in (43, 45) else start
    if position == end:
        return UNREADABLE_DELAY
    value = 0
    while position < end:
        digit = load_u8(position) - 48
        if digit < 0 or digit > 9:
            return UNREADABLE_DELAY
        value = value * 10 + digit
        if value > 0x80000000:
            return UNREADABLE_DELAY
        position += 1
    if sign == 45:
        return NO_DELAY if value > 0 else 0
    return value if value < 0x80000000 else UNREADABLE_DELAY
