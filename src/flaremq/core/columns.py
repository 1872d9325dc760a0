"""Records straight into the buffers of Arrow columns: each is checked and copied while it lies in the cache.

Numbers go into a table of int64, a column each. Texts and bodies go end to end into one buffer, each column into its
own part of it, with the 32-bit offsets Arrow wants in another; so do keys and values of the map of properties. Hosts
and message ids are formatted here: the host of the record before is mostly that of this one, its text still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import ArrowOffsets, Buffer, Integers

if not cython.compiled:
    from flaremq.core.column_layout import (
        BAD_TEXT,
        BEGIN,
        BODY,
        BORN_HOST,
        BORN_TIMESTAMP,
        DIFFERS,
        DONE,
        ENDS,
        FLAG,
        KEYS,
        LAYOUT_COUNT,
        LIMIT,
        MAP_KEYS,
        MAP_VALUES,
        MESSAGE_ID,
        NEXT,
        NO_ROOM,
        NUMBER_COUNT,
        PHYSICAL_OFFSET,
        PREPARED_OFFSET,
        QUEUE_ID,
        QUEUE_OFFSET,
        RECONSUME_TIMES,
        SIZE,
        SPECIAL,
        STORE_HOST,
        STORE_TIMESTAMP,
        SYS_FLAG,
        TAGS,
        TEXT_COUNT,
        TOPIC,
        TRANSACTION_ID,
    )
    from flaremq.core.frame import Frame, frame_at, queue_hash
    from flaremq.core.gather import drop_repeated, new_scratch, split_pieces
    from flaremq.core.memory import (
        Ints,
        Longs,
        Table,
        View,
        copy_bytes,
        load_i32,
        load_i64,
        load_u8,
        load_u16,
        longs_of,
        prefetch_read,
        same_bytes,
        store_u8,
        table_of,
        view_of,
        writable_ints_of,
        writable_longs_of,
        writable_view_of,
    )
    from flaremq.core.table import OK
    from flaremq.core.text import is_utf8

_LARGEST = 2**31 - 1
_TAGS_KEY = int.from_bytes(b"TAGS", "big")
_KEYS_KEY = int.from_bytes(b"KEYS", "big")
_TRANSACTION_KEY = b"__transactionId__"
_FETCHED_AHEAD = 1024
_HOST_ROOM = 80  # for the text of a host: its length, the bytes it was made of, the text
_TEXT_AT = 24


# Long on purpose: what a record costs is decided here, and each step is a few lines.
def fill_columns(
    log: Buffer,
    at: Integers,
    physical: Integers,
    sizes: Integers,
    queue_offsets: Integers,
    hashes: Integers,
    queue_id: int,
    flags: int,
    special: int,
    numbers: Integers,
    layout: Integers,
    ends: ArrowOffsets,
    texts: Buffer,
) -> tuple[int, int, int]:
    """Fill a row for each record: (rows, entries of maps, why it stopped).

    Record ``i`` starts at ``log[at[i]]`` and must have these offsets and this size. It must be of the queue whose hash
    of topic and id is ``hashes[i]``, or, where there are no hashes, have this queue id. ``flags`` say what is checked
    besides, ``special`` which bits of SYSFLAG end it. With anything but DONE nothing is promised about the buffers.
    """
    view = view_of(log)
    places = longs_of(at)
    offsets = longs_of(physical)
    expected = longs_of(sizes)
    numbered = longs_of(queue_offsets)
    hashed = longs_of(hashes)
    cells = table_of(numbers, NUMBER_COUNT)
    plan = writable_longs_of(layout)
    bounds = writable_ints_of(ends)
    out = writable_view_of(texts)
    transaction = view_of(_TRANSACTION_KEY)
    scratch = new_scratch()
    pieces = writable_longs_of(scratch)
    born_scratch, store_scratch = bytearray(_HOST_ROOM), bytearray(_HOST_ROOM)
    born, store = writable_view_of(born_scratch), writable_view_of(store_scratch)
    count = places.size
    row = entries = 0
    code = DONE
    if min(min(offsets.size, expected.size), min(numbered.size, cells.stride)) < count:
        return 0, 0, DIFFERS
    if (hashed.size > 0 and hashed.size < count) or not _fits(plan, count, bounds, out):
        return 0, 0, DIFFERS
    wants_properties = (
        _is_wanted(plan, TAGS)
        or _is_wanted(plan, KEYS)
        or _is_wanted(plan, TRANSACTION_ID)
        or _is_wanted(plan, MAP_KEYS)
    )
    with cython.nogil:
        while row < count and code == DONE:
            place = places.data[row]
            if place < 0 or place >= view.size:
                code = DIFFERS
                break
            if row + 1 < count:  # the next record comes from memory while this one is worked on
                length = min(expected.data[row + 1], _FETCHED_AHEAD)
                while length > 0:
                    length -= 64
                    prefetch_read(view, places.data[row + 1] + length)
            frame = frame_at(view, place, view.size, offsets.data[row] - place, flags)
            if frame.code != OK or frame.size != expected.data[row] or load_i64(view, place + 20) != numbered.data[row]:
                code = DIFFERS
                break
            if hashed.size > 0:
                found = queue_hash(view, frame.topic_at, frame.topic_length, load_i32(view, place + 12))
                if found != hashed.data[row]:
                    code = DIFFERS
                    break
            elif load_i32(view, place + 12) != queue_id:
                code = DIFFERS
                break
            sys_flag = load_i32(view, place + 36)
            if sys_flag & special:
                code = SPECIAL
                break
            if not is_utf8(view, frame.topic_at, frame.topic_at + frame.topic_length):
                code = BAD_TEXT
                break
            _numbers(view, place, frame, sys_flag, cells, row)
            left = _put(out, plan, bounds, BODY, row, view, frame.body_at, frame.body_length)
            left &= _put(out, plan, bounds, TOPIC, row, view, frame.topic_at, frame.topic_length)
            if _is_wanted(plan, BORN_HOST):
                length = 20 if sys_flag & 0x10 else 8
                left &= _put_host(out, plan, bounds, BORN_HOST, row, view, place + 48, length, born)
            host_at = place + (76 if sys_flag & 0x10 else 64)
            length = 20 if sys_flag & 0x20 else 8
            if _is_wanted(plan, STORE_HOST):
                left &= _put_host(out, plan, bounds, STORE_HOST, row, view, host_at, length, store)
            if _is_wanted(plan, MESSAGE_ID):
                left &= _put_id(out, plan, bounds, row, view, host_at, length, place + 28)
            if wants_properties:
                end = frame.properties_at + frame.properties_length
                if not is_utf8(view, frame.properties_at, end):
                    code = BAD_TEXT
                    break
                number = split_pieces(view, frame.properties_at, end, pieces)
                left &= _put_known(out, plan, bounds, row, view, pieces, number, transaction)
                if _is_wanted(plan, MAP_KEYS):
                    drop_repeated(view, pieces, number, row)
                    entries = _put_map(out, plan, bounds, row, entries, view, pieces, number)
                    left &= entries >= 0
            if not left:
                code = NO_ROOM
                break
            row += 1
    return row, entries, code


def _fits(plan: Longs, count: int, bounds: Ints, out: View) -> bool:
    """Whether every column that is wanted has its places within the buffers."""
    if plan.size < LAYOUT_COUNT * (TEXT_COUNT + 1):
        return False
    for column in range(TEXT_COUNT + 1):
        at = plan.data[LAYOUT_COUNT * column + ENDS]
        if at < 0:
            continue
        rows = count  # a map has its own number of entries, compared where they are written
        if column == MAP_KEYS or column == MAP_VALUES:
            rows = 0
        begin = plan.data[LAYOUT_COUNT * column + BEGIN]
        limit = plan.data[LAYOUT_COUNT * column + LIMIT]
        if at + rows >= bounds.size or begin < 0 or limit < begin or limit > out.size or limit - begin > _LARGEST:
            return False
        plan.data[LAYOUT_COUNT * column + NEXT] = begin
        bounds.data[at] = 0
    # A map is wanted with all it consists of: its offsets, keys and values, in this order, none behind the buffer.
    if _is_wanted(plan, MAP_KEYS):
        return _is_wanted(plan, MAP_VALUES) and _is_wanted(plan, TEXT_COUNT)
    return True


def _is_wanted(plan: Longs, column: int) -> bool:
    return plan.data[LAYOUT_COUNT * column + ENDS] >= 0


def _numbers(log: View, at: int, frame: Frame, sys_flag: int, table: Table, row: int) -> None:
    cells = table.data
    stride = table.stride
    cells[QUEUE_ID * stride + row] = load_i32(log, at + 12)
    cells[QUEUE_OFFSET * stride + row] = load_i64(log, at + 20)
    cells[PHYSICAL_OFFSET * stride + row] = load_i64(log, at + 28)
    cells[SIZE * stride + row] = frame.size
    cells[FLAG * stride + row] = load_i32(log, at + 16)
    cells[SYS_FLAG * stride + row] = sys_flag
    cells[BORN_TIMESTAMP * stride + row] = load_i64(log, at + 40)
    cells[STORE_TIMESTAMP * stride + row] = load_i64(log, at + (68 if sys_flag & 0x10 else 56))
    cells[RECONSUME_TIMES * stride + row] = load_i32(log, frame.body_at - 16)
    cells[PREPARED_OFFSET * stride + row] = load_i64(log, frame.body_at - 12)


def _put(out: View, plan: Longs, bounds: Ints, column: int, row: int, source: View, at: int, length: int) -> bool:
    """Add an entry to a column; False if there is no room. A column that nobody wants takes anything."""
    place = plan.data[LAYOUT_COUNT * column + ENDS]
    if place < 0:
        return True
    done = plan.data[LAYOUT_COUNT * column + NEXT]
    if length > plan.data[LAYOUT_COUNT * column + LIMIT] - done:
        return False
    copy_bytes(out, done, source, at, length)
    done += length
    plan.data[LAYOUT_COUNT * column + NEXT] = done
    bounds.data[place + row + 1] = done - plan.data[LAYOUT_COUNT * column + BEGIN]
    return True


def _put_known(
    out: View, plan: Longs, bounds: Ints, row: int, log: View, pieces: Longs, count: int, transaction: View
) -> bool:
    """Tags, keys and transaction id, the last of several; nothing where there is none."""
    tags_at = tags_length = keys_at = keys_length = id_at = id_length = 0
    for piece in range(count):
        start = pieces.data[3 * piece]
        separator = pieces.data[3 * piece + 1]
        length = pieces.data[3 * piece + 2] - separator - 1
        if separator - start == 4:
            key = load_i32(log, start)
            if key == _TAGS_KEY:
                tags_at, tags_length = separator + 1, length
            elif key == _KEYS_KEY:
                keys_at, keys_length = separator + 1, length
        elif separator - start == transaction.size and same_bytes(log, start, transaction, 0, transaction.size):
            id_at, id_length = separator + 1, length
    return (
        _put(out, plan, bounds, TAGS, row, log, tags_at, tags_length)
        and _put(out, plan, bounds, KEYS, row, log, keys_at, keys_length)
        and _put(out, plan, bounds, TRANSACTION_ID, row, log, id_at, id_length)
    )


def _put_map(out: View, plan: Longs, bounds: Ints, row: int, entries: int, log: View, pieces: Longs, count: int) -> int:
    """The entries of one map; how many all maps have then, -1 if there is no room."""
    keys_end = plan.data[LAYOUT_COUNT * MAP_VALUES + ENDS] - plan.data[LAYOUT_COUNT * MAP_KEYS + ENDS] - 1
    values_end = bounds.size - plan.data[LAYOUT_COUNT * MAP_VALUES + ENDS] - 1
    room = min(keys_end, values_end)
    for piece in range(count):
        start = pieces.data[3 * piece]
        separator = pieces.data[3 * piece + 1]
        length = pieces.data[3 * piece + 2] - separator - 1
        if length < 0:  # set again later
            continue
        if entries >= room:
            return -1
        if not _put(out, plan, bounds, MAP_KEYS, entries, log, start, separator - start):
            return -1
        if not _put(out, plan, bounds, MAP_VALUES, entries, log, separator + 1, length):
            return -1
        entries += 1
    bounds.data[plan.data[LAYOUT_COUNT * TEXT_COUNT + ENDS] + row + 1] = entries
    return entries


def _put_host(
    out: View, plan: Longs, bounds: Ints, column: int, row: int, log: View, at: int, length: int, kept: View
) -> bool:
    """The text of a host: ``kept`` has that of the one before, behind its length and bytes."""
    if load_u8(kept, 0) != length or not same_bytes(kept, 1, log, at, length):
        store_u8(kept, 0, length)
        copy_bytes(kept, 1, log, at, length)
        store_u8(kept, _TEXT_AT - 1, _format_host(kept, _TEXT_AT, log, at, length) - _TEXT_AT)
    return _put(out, plan, bounds, column, row, kept, _TEXT_AT, load_u8(kept, _TEXT_AT - 1))


def _format_host(out: View, done: int, log: View, at: int, length: int) -> int:
    """``1.2.3.4:10911`` or ``[0:0:0:0:0:0:0:1]:10911``, as ``message.hosts``; where the text ends."""
    if length == 8:
        for byte in range(4):
            if byte > 0:
                done = _character(out, done, 46)
            done = _decimal(out, done, load_u8(log, at + byte))
    else:
        done = _character(out, done, 91)
        for group in range(8):
            if group > 0:
                done = _character(out, done, 58)
            value = load_u16(log, at + 2 * group)
            shift = 12
            while shift > 0 and value >> shift == 0:
                shift -= 4
            while shift >= 0:
                done = _character(out, done, _digit((value >> shift) & 15) | 0x20)
                shift -= 4
        done = _character(out, done, 93)
    done = _character(out, done, 58)
    port = load_i32(log, at + length - 4)
    if port < 0:
        done = _character(out, done, 45)
        port = -port
    return _decimal(out, done, port)


def _character(out: View, at: int, code: int) -> int:
    store_u8(out, at, code)
    return at + 1


def _decimal(out: View, at: int, value: int) -> int:
    power = 1
    while value // power >= 10:
        power *= 10
    while power > 0:
        at = _character(out, at, 48 + value // power % 10)
        power //= 10
    return at


def _digit(value: int) -> int:
    """A hexadecimal digit in upper case; with bit 0x20 in lower."""
    return 48 + value if value < 10 else 55 + value


def _put_id(
    out: View, plan: Longs, bounds: Ints, row: int, log: View, host_at: int, host_length: int, offset_at: int
) -> bool:
    """The offset id: host and physical offset in upper-case hex."""
    done = plan.data[LAYOUT_COUNT * MESSAGE_ID + NEXT]
    end = done + 2 * host_length + 16
    if end > plan.data[LAYOUT_COUNT * MESSAGE_ID + LIMIT]:
        return False
    for byte in range(host_length + 8):
        value = load_u8(log, host_at + byte) if byte < host_length else load_u8(log, offset_at + byte - host_length)
        store_u8(out, done, _digit(value >> 4))
        store_u8(out, done + 1, _digit(value & 15))
        done += 2
    plan.data[LAYOUT_COUNT * MESSAGE_ID + NEXT] = end
    at = plan.data[LAYOUT_COUNT * MESSAGE_ID + ENDS] + row + 1
    bounds.data[at] = end - plan.data[LAYOUT_COUNT * MESSAGE_ID + BEGIN]
    return True
