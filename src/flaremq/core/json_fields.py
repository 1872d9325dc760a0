"""Named fields of JSON bodies straight into the buffers of Arrow columns: each is walked once, and checked whole.

A body is *taken* if it is one object of strict JSON in which no wanted field stands twice and each that is there is
null or of its column's type. Everything else, what lenient readers take included, is left to those: its row is *odd*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.json_layout import (
        BOOLEAN,
        DOUBLE,
        HIGH,
        KIND,
        LONG,
        LOW,
        PLAN_COUNT,
        RAW,
        SLOT,
        TEXT,
    )
    from flaremq.core.json_walk import (
        TRUE,
        after_blanks,
        number_end,
        put_text,
        text_end,
        text_stop,
        value_end,
        value_of_name,
        word_end,
    )
    from flaremq.core.memory import (
        Ints,
        Longs,
        View,
        as_i64,
        as_u64,
        bytes_at,
        copy_bytes,
        double_bits,
        ints_of,
        load_i32,
        load_u8,
        longs_of,
        same_bytes,
        store_u8,
        view_of,
        writable_ints_of,
        writable_longs_of,
        writable_view_of,
    )

_QUOTE, _OPEN, _CLOSE, _COMMA, _MINUS, _POINT = b'"{},-.'
_ABSENT, _NULL, _BROKEN = -2, -1, -1
_LONG_MAX = (1 << 63) - 1
_LONG_DIGITS = 19  # more may not fit into 64 bits
# A mantissa below 2^53 and a power of ten up to 10^22 are doubles without error, so one operation on them rounds as the
# number itself would.
_EXACT = 1 << 53
_EXACT_POWER = 22
_INFINITY = float("inf")


class Fields:
    """What is wanted, and where it goes."""

    __slots__ = (
        "count",
        "ends",
        "met",
        "name_ends",
        "names",
        "plan",
        "room",
        "rows",
        "stride",
        "texts",
        "valid",
        "values",
    )
    if not cython.compiled:
        count: int
        rows: int
        stride: int  # of ``valid``, bytes a column
        room: int  # of ``texts``, a column
        names: View
        texts: View
        valid: View
        ends: Ints
        name_ends: Ints
        met: Longs  # of each field how many bytes were found, or that there is none; then where the next ones go
        plan: Longs
        values: Longs


def scan_fields(
    data: Buffer,
    bounds: Buffer,
    first: int,
    rows: int,
    names: bytes,
    name_ends: Buffer,
    plan: Buffer,
    valid: Buffer,
    values: Buffer,
    ends: Buffer,
    texts: Buffer,
    scratch: Buffer,
    odd: Buffer | Integers,
) -> int:
    """Take bodies ``first`` to ``first + rows - 1``; returns how many are odd: their rows, from 0, are in ``odd``
    (int64) and null. ValueError if a buffer is too small.

    ``data`` and ``bounds`` are a column of binary; ``names`` end to end with their n + 1 ends (int32), ``plan`` (int64)
    as ``json_layout`` says. To write: ``valid`` (zeros; a bitmap a field, of whole eight bytes), ``values`` (int64),
    ``ends`` (int32), ``texts`` (for each column as much as the bodies have), ``scratch`` (int64, two a field).
    """
    bodies = view_of(data)
    places = ints_of(bounds)
    missed = writable_longs_of(odd)
    state = writable_longs_of(scratch)
    fields = Fields()
    fields.rows = rows
    fields.names = view_of(names)
    fields.name_ends = ints_of(name_ends)
    fields.plan = longs_of(plan)
    fields.valid = writable_view_of(valid)
    fields.values = writable_longs_of(values)
    fields.ends = writable_ints_of(ends)
    fields.texts = writable_view_of(texts)
    fields.met = state
    fields.count = fields.plan.size // PLAN_COUNT
    fields.stride = (rows + 63) // 64 * 8
    if (
        first < 0
        or rows < 0
        or first >= places.size - rows
        or missed.size < rows
        or not _fits(fields, places.data[first + rows] - places.data[first])
    ):
        raise ValueError("a buffer is too small for the bodies it is to take")
    odd_count = 0
    for row in range(rows):
        at = places.data[first + row]
        end = places.data[first + row + 1]
        if at < 0 or end < at or end > bodies.size or end > places.data[first + rows]:  # there is room for no more
            raise ValueError(f"body {row} lies outside its column")
        for field in range(fields.count):
            state.data[field] = _ABSENT
        taken = _take(fields, row, bodies, at, end)
        if not taken:
            missed.data[odd_count] = row
            odd_count += 1
        _end_row(fields, row, taken)
    return odd_count


def _fits(fields: Fields, size: int) -> bool:
    """Whether every column has its place; sets each to its begin."""
    slots = longs = 0
    if fields.met.size < 2 * fields.count or fields.name_ends.size < fields.count + 1 or fields.name_ends.data[0] < 0:
        return False
    for field in range(fields.count):
        if fields.plan.data[PLAN_COUNT * field + KIND] >= TEXT:
            slots += 1
        else:
            longs += 1
        if fields.name_ends.data[field + 1] < fields.name_ends.data[field]:
            return False
    fields.room = fields.texts.size // slots if slots > 0 else 0
    if (
        fields.name_ends.data[fields.count] > fields.names.size
        or fields.valid.size < fields.count * fields.stride
        or fields.values.size < longs * fields.rows
        or fields.ends.size < slots * (fields.rows + 1)
        or (slots > 0 and (size < 0 or fields.room < size))
    ):
        return False
    for field in range(fields.count):
        slot = fields.plan.data[PLAN_COUNT * field + SLOT]
        is_text = fields.plan.data[PLAN_COUNT * field + KIND] >= TEXT
        if slot < 0 or slot >= (slots if is_text else longs):
            return False
        if is_text:
            fields.met.data[fields.count + field] = slot * fields.room
            fields.ends.data[slot * (fields.rows + 1)] = 0
    return True


def _end_row(fields: Fields, row: int, taken: bool) -> None:
    """Keep what was found in a body, or nothing of it."""
    count = fields.count
    for field in range(count):
        length = fields.met.data[field] if taken else _ABSENT
        if length >= 0:
            place = field * fields.stride + row // 8
            store_u8(fields.valid, place, load_u8(fields.valid, place) | (1 << (row & 7)))
        if fields.plan.data[PLAN_COUNT * field + KIND] >= TEXT:
            if length > 0:
                fields.met.data[count + field] += length
            slot = fields.plan.data[PLAN_COUNT * field + SLOT]
            fields.ends.data[slot * (fields.rows + 1) + row + 1] = fields.met.data[count + field] - slot * fields.room


def _take(fields: Fields, row: int, data: View, at: int, end: int) -> bool:
    """Walk one body; what is wanted of it is in its columns then. False if the body is odd."""
    at = after_blanks(data, at, end)
    if at >= end or load_u8(data, at) != _OPEN:
        return False
    at = after_blanks(data, at + 1, end)
    if at < end and load_u8(data, at) == _CLOSE:
        return after_blanks(data, at + 1, end) == end
    expected = 0
    while at < end and load_u8(data, at) == _QUOTE:
        name = at + 1
        stop = text_stop(data, name, end)
        if stop < 0 or load_u8(data, stop) != _QUOTE:  # a name with an escape may be any name
            return False
        at = value_of_name(data, stop + 1, end)
        if at < 0:
            return False
        field = _field(fields, data, name, stop - name, expected)
        if field < 0:
            at = value_end(data, at, end)
        else:
            if fields.met.data[field] != _ABSENT:
                return False
            at = _take_value(fields, field, row, data, at, end)
            expected = field + 1
        if at < 0:
            return False
        at = after_blanks(data, at, end)
        if at >= end:
            return False
        byte = load_u8(data, at)
        at = after_blanks(data, at + 1, end)
        if byte == _CLOSE:
            return at == end
        if byte != _COMMA:
            return False
    return False


def _field(fields: Fields, data: View, at: int, length: int, expected: int) -> int:
    """The field of this name, -1 if it is not wanted. Mostly fields come in one order: the next is looked at first."""
    for step in range(fields.count):
        field = expected + step
        if field >= fields.count:
            field -= fields.count
        begin = fields.name_ends.data[field]
        if fields.name_ends.data[field + 1] - begin == length and same_bytes(data, at, fields.names, begin, length):
            return field
    return -1


def _take_value(fields: Fields, field: int, row: int, data: View, at: int, end: int) -> int:
    """Behind the value of a wanted field, which is in its column then; -1 if the column does not take it."""
    kind = fields.plan.data[PLAN_COUNT * field + KIND]
    slot = fields.plan.data[PLAN_COUNT * field + SLOT]
    byte = load_u8(data, at)
    if byte == 110:  # n
        stop = word_end(data, at, end)
        fields.met.data[field] = _NULL
        return stop
    if kind == TEXT:
        if byte != _QUOTE:
            return _BROKEN
        stop = text_end(data, at + 1, end)
        if stop < 0:
            return _BROKEN
        begin = fields.met.data[fields.count + field]
        fields.met.data[field] = put_text(fields.texts, begin, data, at + 1, stop) - begin
        return stop + 1
    if kind == BOOLEAN:
        stop = word_end(data, at, end)
        if stop >= 0:
            fields.values.data[slot * fields.rows + row] = load_i32(data, at) == TRUE
            fields.met.data[field] = 0
        return stop
    stop = value_end(data, at, end) if kind == RAW else number_end(data, at, end)
    if stop < 0:
        return _BROKEN
    fields.met.data[field] = 0
    if kind == LONG:
        return stop if _take_long(fields, field, slot * fields.rows + row, data, at, stop) else _BROKEN
    if kind == DOUBLE:
        return stop if _take_double(fields, slot * fields.rows + row, data, at, stop) else _BROKEN
    fields.met.data[field] = stop - at
    copy_bytes(fields.texts, fields.met.data[fields.count + field], data, at, stop - at)
    return stop


def _take_long(fields: Fields, field: int, place: int, data: View, at: int, stop: int) -> bool:
    """Store the int that ``data[at:stop]`` is, if it is one between those that the column takes."""
    negative = load_u8(data, at) == _MINUS
    if negative:
        at += 1
    if stop - at > _LONG_DIGITS:
        return False
    number = as_u64(0)
    while at < stop:
        digit = load_u8(data, at) - 48
        if digit < 0 or digit > 9:  # a fraction, an exponent
            return False
        number = number * 10 + digit
        at += 1
    if number > _LONG_MAX or (negative and number == 0):
        return False
    value = as_i64(number)
    if negative:
        value = -value
    if value < fields.plan.data[PLAN_COUNT * field + LOW] or value > fields.plan.data[PLAN_COUNT * field + HIGH]:
        return False
    fields.values.data[place] = value
    return True


def _take_double(fields: Fields, place: int, data: View, at: int, stop: int) -> bool:
    """Store the double nearest to the number that ``data[at:stop]`` is."""
    start = at
    negative = load_u8(data, at) == _MINUS
    if negative:
        at += 1
    mantissa = as_u64(0)
    power = 0
    has_point = False
    while at < stop and mantissa < _EXACT:
        byte = load_u8(data, at)
        if byte == _POINT:
            has_point = True
        elif byte > 57:  # e, E
            break
        else:
            mantissa = mantissa * 10 + (byte - 48)
            power -= has_point
        at += 1
    if at == stop and mantissa < _EXACT and power >= -_EXACT_POWER and (has_point or mantissa != 0 or not negative):
        value = float(mantissa)
        divisor = 1.0
        while power < 0:
            divisor *= 10.0
            power += 1
        value /= divisor
        if negative:
            value = -value
    else:
        value = float(bytes_at(data, start, stop - start))
        if value == _INFINITY or value == -_INFINITY or (value == 0 and not has_point):
            return False
    fields.values.data[place] = double_bits(value)
    return True
