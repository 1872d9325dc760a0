"""Compiled sends: sends as they came off the wire become records and replies, no Python object per message.

``parse_sends`` takes frames from the start of a read as long as they are plain: SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE
in either header encoding, all of them batches or none, one topic, ASCII header, no property that makes a message take
another way. The first frame that is anything else ends the run, and plain code decides about it; so this module needs
to know only what it is sure of. ``append_sends`` or ``append_batches`` writes the records, ``encode_acks`` the replies.
Plain code gives the same bytes; tests compare them.
Part of the compiled core (``docs/compiled-core.md``): C types are in the ``.pxd`` beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from array import array

    from flaremq.storage.log.append import TopicEntry
    from flaremq.storage.log.commit_log import CommitLog

if not cython.compiled:
    from flaremq.broker.ingest.columns import (
        BODY_AT,
        BODY_LENGTH,
        BORN,
        COLUMN_COUNT,
        FLAG,
        KEY_AT,
        KEY_LENGTH,
        KIND,
        LETTERS,
        MESSAGE_FLAG,
        MESSAGES,
        OPAQUE,
        PROPERTIES_AT,
        PROPERTIES_LENGTH,
        QUEUE_ID,
        QUEUE_OFFSET,
        RAW_LENGTH,
        RECORD_OFFSET,
        RUN_MESSAGES_MAX,
        SIGNATURE_AT,
        SIGNATURE_LENGTH,
        SYS_FLAG,
        TOPIC_AT,
        TOPIC_LENGTH,
    )
    from flaremq.core.memory import (
        Longs,
        View,
        bytes_view,
        copy_bytes,
        find_byte,
        load_i16,
        load_i32,
        load_u8,
        longs_of,
        same_bytes,
        store_i32,
        store_u8,
        view_of,
        writable_longs_of,
        writable_view_of,
    )
    from flaremq.core.write import Head, bare_size, write_head
    from flaremq.storage.log.append import BATCH_ITEM_BYTES, count_batch, next_offset, write_batch_item

Buffer = bytes | bytearray | memoryview
IS_COMPILED: bool = cython.compiled  # interpreted, plain code is faster

_CODE, _BATCH_CODE = 310, 320
_ONEWAY = 2
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _ESCAPE = 0x22, 0x2C, 0x3A, 0x7B, 0x7D, 0x5C
_NAME_END, _VALUE_END = 1, 2
_FRAME_MAX = 16 << 20
_PROPERTIES_MAX = 32767
_KEY_MAX = 64  # bytes of a batch's unique key, so that replies are bounded; clients make 32
_NOTHING = -1


def _word(text: bytes) -> int:
    """Up to eight letters as one number, for comparing names."""
    return int.from_bytes(text, "big")


_N_CODE, _N_FLAG, _N_OPAQUE, _N_VERSION = _word(b"code"), _word(b"flag"), _word(b"opaque"), _word(b"version")
_N_EXT = _word(b"extField")
_N_DELAY, _N_TRAN, _N_CLUSTER, _N_TRACE = _word(b"DELAY"), _word(b"TRAN_MSG"), _word(b"CLUSTER"), _word(b"TRACE_ON")
_N_POP, _N_WAIT, _N_TRUE, _N_KEY = _word(b"POP_CK"), _word(b"WAIT"), _word(b"true"), _word(b"UNIQ_KEY")
_N_TIMER, _N_INNER, _N_REGION = _word(b"TIMER_"), _word(b"INNER_"), _word(b"MSG_REGI")
_N_FALSE = _word(b"false")
_STEERED, _BARE, _KEYED = range(3)
_N_ACCESS, _N_SIGNATURE = _word(b"AccessKe"), _word(b"Signatur")


def _name(view: View, at: int, length: int) -> int:
    """The first eight bytes of a text as a number."""
    value = 0
    for place in range(min(length, 8)):
        value = value << 8 | load_u8(view, at + place)
    return value


def _number(view: View, at: int, length: int) -> int:
    """A number of digits only; -1 if it is anything else."""
    if length <= 0 or length > 18:
        return _NOTHING
    value = 0
    for place in range(length):
        digit = load_u8(view, at + place) - 48
        if digit < 0 or digit > 9:
            return _NOTHING
        value = value * 10 + digit
    return value


def _string_end(view: View, at: int, end: int) -> int:
    """Where a string without escapes ends (its closing quote), -1 for one that is not so simple."""
    while at < end:
        byte = load_u8(view, at)
        if byte == _QUOTE:
            return at
        if byte == _ESCAPE or byte < 32 or byte > 126:
            return _NOTHING
        at += 1
    return _NOTHING


def _hex(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 32
    if 97 <= byte <= 102:
        return byte - 87
    return _NOTHING


def _unescape(view: View, at: int, end: int, target: View, target_at: int, room: int, cells: Longs, row: int) -> int:
    """Copy a string of ASCII, its escapes undone; its closing quote, -1 if it is none. The row gets its length."""
    written = 0
    while at < end:
        byte = load_u8(view, at)
        if byte == _QUOTE:
            cells.data[row + PROPERTIES_LENGTH] = written
            return at
        if byte < 32 or byte > 126 or written >= room:
            return _NOTHING
        if byte == _ESCAPE:
            if end - at < 6:
                return _NOTHING
            byte = load_u8(view, at + 1)
            if byte == 117:  # \u00xx
                high, low = _hex(load_u8(view, at + 4)), _hex(load_u8(view, at + 5))
                if load_u8(view, at + 2) != 48 or load_u8(view, at + 3) != 48 or high < 0 or low < 0 or high > 7:
                    return _NOTHING
                byte = high << 4 | low
                if byte == 0:
                    return _NOTHING
                at += 6
            elif byte == _QUOTE or byte == _ESCAPE or byte == 47:
                at += 2
            else:
                return _NOTHING
        else:
            at += 1
        store_u8(target, target_at + written, byte)
        written += 1
    return _NOTHING


def _kind_of(view: View, at: int, length: int) -> int:
    """Whether properties have one that decides where a message goes, or else whether they have a unique key."""
    end = at + length
    kind = _BARE
    while at < end:
        name_end = at
        while name_end < end and load_u8(view, name_end) != _NAME_END:
            if load_u8(view, name_end) == _VALUE_END:
                return _STEERED
            name_end += 1
        value_end = name_end + 1
        while value_end < end and load_u8(view, value_end) != _VALUE_END:
            if load_u8(view, value_end) == _NAME_END:
                return _STEERED
            value_end += 1
        size = name_end - at
        value_size = value_end - name_end - 1
        if size <= 0 or value_size <= 0:
            return _STEERED
        first = _name(view, at, size)
        if load_u8(view, at) == 95:  # "_": reserved names, the record checksum among them
            return _STEERED
        if size == 8 and first == _N_KEY:
            kind = _KEYED
        elif (size == 5 and first == _N_DELAY) or (size == 8 and (first == _N_TRAN or first == _N_TRACE)):
            return _STEERED
        elif (size == 7 and first == _N_CLUSTER) or (size == 6 and first == _N_POP):
            return _STEERED
        elif size >= 6 and (_name(view, at, 6) == _N_TIMER or _name(view, at, 6) == _N_INNER):
            return _STEERED
        elif size == 10 and first == _N_REGION:
            return _STEERED
        elif size == 4 and first == _N_WAIT and not (value_size == 4 and _name(view, name_end + 1, 4) == _N_TRUE):
            return _STEERED
        for place in range(at, name_end - 2):  # no name that looks like the record checksum's
            if load_u8(view, place) == 67 and load_u8(view, place + 1) == 82 and load_u8(view, place + 2) == 67:
                return _STEERED
        at = value_end + 1
    return kind


def _note_key(view: View, at: int, length: int, cells: Longs, row: int) -> bool:
    """Put into a batch's row where the value of its unique key is; False if it cannot stand in a reply as it is."""
    end = at + length
    while at < end:
        stop = find_byte(view, at, end, _VALUE_END)
        if stop - at > 9 and _name(view, at, 8) == _N_KEY and load_u8(view, at + 8) == _NAME_END:
            cells.data[row + PROPERTIES_AT] = at + 9  # of two the last, as everywhere
            cells.data[row + PROPERTIES_LENGTH] = stop - at - 9
        at = stop + 1
    at = cells.data[row + PROPERTIES_AT]
    end = at + cells.data[row + PROPERTIES_LENGTH]
    for place in range(at, end):
        byte = load_u8(view, place)
        if byte == _QUOTE or byte == _ESCAPE or byte < 32 or byte > 126:
            return False
    return end - at <= _KEY_MAX


def _take_field(view: View, letter: int, at: int, length: int, cells: Longs, row: int) -> bool:
    """One ext field but the properties; False if it makes the send anything but plain."""
    if letter < 97 or letter > 110:
        return False
    cells.data[row + LETTERS + 2 * (letter - 97)] = at
    cells.data[row + LETTERS + 2 * (letter - 97) + 1] = length
    if letter == 98:  # b, the topic
        if length <= 0 or length > 127:
            return False
        cells.data[row + TOPIC_AT] = at
        cells.data[row + TOPIC_LENGTH] = length
        return True
    if letter == 101 or letter == 102 or letter == 103 or letter == 104 or letter == 106:
        number = _number(view, at, length)
        if number < 0:
            return False
        if letter == 101:
            cells.data[row + QUEUE_ID] = number
            return number < 0x7FFFFFFF
        if letter == 102:
            cells.data[row + SYS_FLAG] = number
            return number & ~0x701 == 0
        if letter == 103:
            cells.data[row + BORN] = number
            return True
        if letter == 104:
            cells.data[row + MESSAGE_FLAG] = number
            return number <= 0x7FFFFFFF
        return number == 0
    if letter == 109:  # m, batch
        if length == 4 and _name(view, at, 4) == _N_TRUE:
            cells.data[row + MESSAGES] = 1  # counted later
            return True
        return length == 5 and _name(view, at, 5) == _N_FALSE
    # group, default topic and its queues, unit mode, broker name
    return letter == 97 or letter == 99 or letter == 100 or letter == 107 or letter == 110


def _take_proof(view: View, name_at: int, at: int, length: int, cells: Longs, row: int) -> bool:
    """A field of nine letters that may stand in a plain send: its account or its signature."""
    name = _name(view, name_at, 8)
    if name == _N_ACCESS and load_u8(view, name_at + 8) == 121:
        cells.data[row + KEY_AT] = at
        cells.data[row + KEY_LENGTH] = length
        return True
    if name == _N_SIGNATURE and load_u8(view, name_at + 8) == 101:
        cells.data[row + SIGNATURE_AT] = at
        cells.data[row + SIGNATURE_LENGTH] = length
        return True
    return False


def _is_whole(cells: Longs, row: int) -> bool:
    """Whether a send has all the fields it needs, and no flag but that of one-way sends."""
    return (
        cells.data[row + TOPIC_AT] >= 0
        and cells.data[row + QUEUE_ID] >= 0
        and cells.data[row + SYS_FLAG] >= 0
        and cells.data[row + BORN] >= 0
        and cells.data[row + MESSAGE_FLAG] >= 0
        and cells.data[row + FLAG] & ~_ONEWAY == 0
    )


def _is_like_first(view: View, cells: Longs, row: int) -> bool:
    """Whether a send may be in one run with the first: kind, topic and the account that signed it are the same."""
    length = cells.data[TOPIC_LENGTH]
    if (
        (cells.data[row + MESSAGES] > 0) != (cells.data[MESSAGES] > 0)
        or cells.data[row + TOPIC_LENGTH] != length
        or not same_bytes(view, cells.data[row + TOPIC_AT], view, cells.data[TOPIC_AT], length)
        or cells.data[row + KEY_LENGTH] != cells.data[KEY_LENGTH]
    ):
        return False
    return cells.data[KEY_LENGTH] < 0 or same_bytes(
        view, cells.data[row + KEY_AT], view, cells.data[KEY_AT], cells.data[KEY_LENGTH]
    )


def _parse_json(
    view: View, at: int, end: int, cells: Longs, row: int, scratch: View, scratch_at: int, room: int
) -> int:
    """The fields of a JSON header; bytes of properties in the scratch, -1 if it is not plain."""
    properties = _NOTHING
    has_code = has_opaque = False
    if end - at < 2 or load_u8(view, at) != _OPEN:
        return _NOTHING
    at += 1
    while True:
        if at >= end or load_u8(view, at) != _QUOTE:
            return _NOTHING
        name_end = _string_end(view, at + 1, end)
        if name_end < 0 or end - name_end < 3 or load_u8(view, name_end + 1) != _COLON:
            return _NOTHING
        name_at, size = at + 1, name_end - at - 1
        name = _name(view, name_at, size)
        at = name_end + 2
        first = load_u8(view, at)
        if first == _QUOTE:  # language, serialize type: not looked at
            stop = _string_end(view, at + 1, end)
            if stop < 0 or (size == 6 and name == _N_OPAQUE) or (size == 4 and (name == _N_CODE or name == _N_FLAG)):
                return _NOTHING
            at = stop + 1
        elif first == _OPEN:
            if size != 9 or name != _N_EXT or properties != _NOTHING:
                return _NOTHING
            at += 1
            while True:
                if end - at < 6 or load_u8(view, at) != _QUOTE:
                    return _NOTHING
                letter, proof_at = load_u8(view, at + 1), _NOTHING
                if load_u8(view, at + 2) != _QUOTE:  # a longer name
                    proof_at = at + 1
                    at += 8
                    if end - at < 6 or load_u8(view, at + 2) != _QUOTE:
                        return _NOTHING
                if load_u8(view, at + 3) != _COLON or load_u8(view, at + 4) != _QUOTE:
                    return _NOTHING
                at += 5
                if proof_at >= 0:
                    stop = _string_end(view, at, end)
                    if stop < 0 or not _take_proof(view, proof_at, at, stop - at, cells, row):
                        return _NOTHING
                elif letter == 105:  # i, the properties
                    if properties != _NOTHING:
                        return _NOTHING
                    stop = _unescape(view, at, end, scratch, scratch_at, room, cells, row)
                    if stop < 0:
                        return _NOTHING
                    properties = cells.data[row + PROPERTIES_LENGTH]
                else:
                    stop = _string_end(view, at, end)
                    if stop < 0 or not _take_field(view, letter, at, stop - at, cells, row):
                        return _NOTHING
                at = stop + 1
                if at >= end:
                    return _NOTHING
                byte = load_u8(view, at)
                at += 1
                if byte == _CLOSE:
                    break
                if byte != _COMMA:
                    return _NOTHING
        else:
            stop = at
            while stop < end and 48 <= load_u8(view, stop) <= 57:
                stop += 1
            number = _number(view, at, stop - at)
            if number < 0 or number > 0x7FFFFFFF:
                return _NOTHING
            if size == 4 and name == _N_CODE:
                has_code = number == _CODE or number == _BATCH_CODE
                if number == _BATCH_CODE:
                    cells.data[row + MESSAGES] = 1
            elif size == 4 and name == _N_FLAG:
                cells.data[row + FLAG] = number
            elif size == 6 and name == _N_OPAQUE:
                cells.data[row + OPAQUE] = number
                has_opaque = True
            elif size != 7 or name != _N_VERSION:
                return _NOTHING
            at = stop
        if at >= end:
            return _NOTHING
        byte = load_u8(view, at)
        at += 1
        if byte == _CLOSE:
            break
        if byte != _COMMA:
            return _NOTHING
    if at != end or not has_code or not has_opaque:
        return _NOTHING
    return properties


def _parse_compact(
    view: View, at: int, end: int, cells: Longs, row: int, scratch: View, scratch_at: int, room: int
) -> int:
    """The fields of a compact header; bytes of properties in the scratch, -1 if it is not plain."""
    properties = _NOTHING
    if (
        end - at < 21
        or (load_i16(view, at) != _CODE and load_i16(view, at) != _BATCH_CODE)
        or load_i32(view, at + 13) != 0
        or load_i32(view, at + 17) != end - at - 21
    ):
        return _NOTHING
    if load_i16(view, at) == _BATCH_CODE:
        cells.data[row + MESSAGES] = 1
    cells.data[row + OPAQUE] = load_i32(view, at + 5)
    cells.data[row + FLAG] = load_i32(view, at + 9)
    at += 21
    while at < end:
        if end - at < 7:
            return _NOTHING
        size = load_i16(view, at)
        name_at = at + 2
        if (size != 1 and size != 9) or end - at < size + 6:
            return _NOTHING
        letter, length = load_u8(view, name_at), load_i32(view, name_at + size)
        at += size + 6
        if length < 0 or length > end - at or (length == 0 and letter != 105):
            return _NOTHING
        for place in range(at, at + length):
            byte = load_u8(view, place)
            if byte > 126 or (byte < 32 and letter != 105) or byte == 0:
                return _NOTHING
        if size == 9:
            if not _take_proof(view, name_at, at, length, cells, row):
                return _NOTHING
        elif letter == 105:
            if length > room or properties != _NOTHING:
                return _NOTHING
            copy_bytes(scratch, scratch_at, view, at, length)
            properties = length
        elif not _take_field(view, letter, at, length, cells, row):
            return _NOTHING
        at += length
    return properties


def parse_sends(
    data: Buffer, start: int, body_max: int, stamp: Buffer, scratch: bytearray, table: array[int]
) -> tuple[int, int, int]:
    """(sends, where the first frame that is none starts, bytes of their bodies and properties).

    ``scratch`` gets the properties of each as they are stored, ``stamp`` at their end. Of a batch, which stores none,
    the row has the place of their unique key instead; batches have at most ``RUN_MESSAGES_MAX`` messages together.
    """
    read, marks, notes, cells = view_of(data), view_of(stamp), writable_view_of(scratch), writable_longs_of(table)
    at, used, count, total, messages = start, 0, 0, 0, 0
    while (count + 1) * COLUMN_COUNT <= cells.size and read.size - at >= 8:
        length = load_i32(read, at)
        word = load_i32(read, at + 4)
        kind = word >> 24
        header = word & 0xFFFFFF
        if length < 4 or length > _FRAME_MAX - 4 or length > read.size - at - 4 or header > length - 4:
            break
        if kind != 0 and kind != 1:
            break
        row = count * COLUMN_COUNT
        for column in range(COLUMN_COUNT):
            cells.data[row + column] = _NOTHING
        cells.data[row + FLAG] = 0
        cells.data[row + MESSAGES] = 0
        cells.data[row + KIND] = kind
        room = min(notes.size - used, _PROPERTIES_MAX) - marks.size - 1
        if room <= 0:
            break
        header_at = at + 8
        if kind == 0:
            size = _parse_json(read, header_at, header_at + header, cells, row, notes, used, room)
        else:
            size = _parse_compact(read, header_at, header_at + header, cells, row, notes, used, room)
        is_batch = cells.data[row + MESSAGES]
        body_length = length - 4 - header
        if (
            size < 0
            or body_length > body_max
            or not _is_whole(cells, row)
            or _kind_of(notes, used, size) < (_BARE if is_batch else _KEYED)
            or (count and not _is_like_first(read, cells, row))
        ):
            break
        header_at += header
        cells.data[row + PROPERTIES_AT] = used
        if is_batch:
            cells.data[row + PROPERTIES_LENGTH] = 0
            found = count_batch(read, header_at, header_at + body_length, RUN_MESSAGES_MAX - messages)
            if found <= 0 or found > RUN_MESSAGES_MAX - messages or not _note_key(notes, used, size, cells, row):
                break
            cells.data[row + MESSAGES] = found
            messages += found
            total -= found * BATCH_ITEM_BYTES
        else:
            cells.data[row + RAW_LENGTH] = size
            if load_u8(notes, used + size - 1) != _VALUE_END:
                store_u8(notes, used + size, _VALUE_END)
                size += 1
            copy_bytes(notes, used + size, marks, 0, marks.size)
            size += marks.size
            cells.data[row + PROPERTIES_LENGTH] = size
            total += size
        cells.data[row + BODY_AT] = header_at
        cells.data[row + BODY_LENGTH] = body_length
        used += size
        total += body_length
        count += 1
        at += 4 + length
    return count, at, total


def write_signed(data: Buffer, scratch: Buffer, table: array[int], count: int, out: bytearray, ends: array[int]) -> int:
    """What each of the parsed sends signs, one behind the other; ``ends`` gets where. -1: ``out`` is too small.

    The values of the fields in the order of their names: the account, "a" to "n"; then the body.
    """
    read, notes, target = view_of(data), view_of(scratch), writable_view_of(out)
    cells, places = longs_of(table), writable_longs_of(ends)
    total = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        total += cells.data[row + BODY_LENGTH] + cells.data[row + RAW_LENGTH] + max(cells.data[row + KEY_LENGTH], 0)
        for letter in range(14):
            total += max(cells.data[row + LETTERS + 2 * letter + 1], 0)
    if total > target.size or count > places.size:
        return -1
    done = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        length = cells.data[row + KEY_LENGTH]
        if length > 0:
            copy_bytes(target, done, read, cells.data[row + KEY_AT], length)
            done += length
        for letter in range(14):
            if letter == 8:  # i, the properties, whose escapes are undone
                length = cells.data[row + RAW_LENGTH]
                copy_bytes(target, done, notes, cells.data[row + PROPERTIES_AT], length)
                done += length
                continue
            at = cells.data[row + LETTERS + 2 * letter]
            length = cells.data[row + LETTERS + 2 * letter + 1]
            if at >= 0:
                copy_bytes(target, done, read, at, length)
                done += length
        length = cells.data[row + BODY_LENGTH]
        copy_bytes(target, done, read, cells.data[row + BODY_AT], length)
        done += length
        places.data[number] = done
    return done


# Eight parameters on purpose: the log and what all records share, then the read and what was found in it.
def append_sends(
    log: CommitLog,
    entry: TopicEntry,
    born_host: bytes,
    store_host: bytes,
    data: Buffer,
    scratch: Buffer,
    table: array[int],
    count: int,
) -> None:
    """Append the records of parsed sends, under ``log.lock``; their places and queue offsets are put into the table.

    Raises StoreIOError, with nothing changed, when there is no space.
    """
    read, notes, cells = view_of(data), view_of(scratch), writable_longs_of(table)
    fixed = bare_size(len(born_host) + len(store_host), len(entry.prefix))
    total = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        total += fixed + cells.data[row + BODY_LENGTH] + cells.data[row + PROPERTIES_LENGTH]
    at = log.claim(total)
    now = log.store_time()
    base = log.current.start  # type: ignore[union-attr]  # claimed
    following: dict[int, int] = {}  # taken over once the records are written
    for number in range(count):
        row = number * COLUMN_COUNT
        queue_id = cells.data[row + QUEUE_ID]
        found = following.get(queue_id)
        queue_offset = next_offset(entry.queue_offsets, queue_id) if found is None else found
        following[queue_id] = queue_offset + 1
        head = Head(
            entry.magic,
            bytes_view(entry.prefix),
            queue_id,
            cells.data[row + SYS_FLAG],
            cells.data[row + BORN],
            bytes_view(born_host),
            now,
            bytes_view(store_host),
            0,
            0,
        )
        length = cells.data[row + BODY_LENGTH]
        text = cells.data[row + PROPERTIES_LENGTH]
        cells.data[row + RECORD_OFFSET] = base + at
        cells.data[row + QUEUE_OFFSET] = queue_offset
        flag = cells.data[row + MESSAGE_FLAG]
        at = write_head(log.view, at, base, head, queue_offset, flag, read, cells.data[row + BODY_AT], length, text)
        copy_bytes(log.view, at, notes, cells.data[row + PROPERTIES_AT], text)
        at += text
    entry.queue_offsets.update(following)
    log.publish(at, now)


# Eight parameters on purpose, as those of ``append_sends``.
def append_batches(
    log: CommitLog,
    entry: TopicEntry,
    born_host: bytes,
    store_host: bytes,
    data: Buffer,
    table: array[int],
    count: int,
    places: array[int],
) -> None:
    """``append_sends`` of parsed batches; ``places`` gets where each of their messages begins in the log."""
    read, cells, offsets = view_of(data), writable_longs_of(table), writable_longs_of(places)
    extra = bare_size(len(born_host) + len(store_host), len(entry.prefix)) - BATCH_ITEM_BYTES  # over its message
    total = done = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        total += cells.data[row + BODY_LENGTH] + cells.data[row + MESSAGES] * extra
        done += cells.data[row + MESSAGES]
    assert done <= offsets.size, "parsed batches are bounded"
    at = log.claim(total)
    now = log.store_time()
    base = log.current.start  # type: ignore[union-attr]  # claimed
    following: dict[int, int] = {}  # taken over once the records are written
    done = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        queue_id = cells.data[row + QUEUE_ID]
        found = following.get(queue_id)
        queue_offset = next_offset(entry.queue_offsets, queue_id) if found is None else found
        head = Head(
            entry.magic,
            bytes_view(entry.prefix),
            queue_id,
            cells.data[row + SYS_FLAG],
            cells.data[row + BORN],
            bytes_view(born_host),
            now,
            bytes_view(store_host),
            0,
            0,
        )
        cells.data[row + RECORD_OFFSET] = base + at
        cells.data[row + QUEUE_OFFSET] = queue_offset
        item = cells.data[row + BODY_AT]
        for place in range(cells.data[row + MESSAGES]):
            offsets.data[done + place] = base + at
            end = write_batch_item(log.view, at, base, head, queue_offset + place, read, item)
            item += end - at - extra
            at = end
        done += cells.data[row + MESSAGES]
        following[queue_id] = queue_offset + cells.data[row + MESSAGES]
    entry.queue_offsets.update(following)
    log.publish(at, now)


def count_sizes(table: array[int], count: int, end: int, bounds: array[int], counts: array[int]) -> int:
    """Put the sizes of appended records into the buckets of a histogram, of a batch their mean; the sum of these.

    ``end``: where the last of them ends.
    """
    cells, limits, found = longs_of(table), longs_of(bounds), writable_longs_of(counts)
    if found.size <= limits.size or count * COLUMN_COUNT > cells.size:
        return 0
    total = 0
    for number in range(count):
        row = number * COLUMN_COUNT
        following = end
        if number + 1 < count:
            following = cells.data[row + COLUMN_COUNT + RECORD_OFFSET]
        size = following - cells.data[row + RECORD_OFFSET]
        if cells.data[row + MESSAGES] > 0:
            size //= cells.data[row + MESSAGES]
        bucket = 0
        while bucket < limits.size and size > limits.data[bucket]:
            bucket += 1
        found.data[bucket] += 1
        total += size
    return total


def _write_number(target: View, at: int, number: int) -> int:
    """Decimal digits of a number that is not negative; the place after them."""
    digits = 1
    rest = number // 10
    while rest:
        digits += 1
        rest //= 10
    for place in range(digits - 1, -1, -1):
        store_u8(target, at + place, 48 + number % 10)
        number //= 10
    return at + digits


def _write_hex(target: View, at: int, number: int) -> int:
    """Sixteen hexadecimal digits; the place after them."""
    for place in range(15, -1, -1):
        digit = number & 15
        store_u8(target, at + place, digit + 48 if digit < 10 else digit + 55)
        number >>= 4
    return at + 16


def _write_text(target: View, at: int, text: View, start: int, end: int) -> int:
    copy_bytes(target, at, text, start, end - start)
    return at + end - start


def _write_ids(target: View, at: int, host: View, cells: Longs, row: int, offsets: Longs, first: int) -> int:
    """The id of a message, or the ids of a batch with commas between them; the place after them."""
    at = _write_text(target, at, host, 0, host.size)
    at = _write_hex(target, at, cells.data[row + RECORD_OFFSET])
    for number in range(1, cells.data[row + MESSAGES]):
        store_u8(target, at, _COMMA)
        at = _write_text(target, at + 1, host, 0, host.size)
        at = _write_hex(target, at, offsets.data[first + number])
    return at


# Ten parameters on purpose, here and below: the pieces, and what is put between them.
def _write_json_ack(
    target: View,
    at: int,
    text: View,
    ends: Longs,
    host: View,
    notes: View,
    cells: Longs,
    row: int,
    offsets: Longs,
    first: int,
) -> int:
    at = _write_text(target, at, text, 0, ends.data[0])
    at = _write_number(target, at, cells.data[row + QUEUE_ID])
    at = _write_text(target, at, text, ends.data[0], ends.data[1])
    at = _write_ids(target, at, host, cells, row, offsets, first)
    at = _write_text(target, at, text, ends.data[1], ends.data[2])
    at = _write_number(target, at, cells.data[row + QUEUE_OFFSET])
    if cells.data[row + MESSAGES] and cells.data[row + PROPERTIES_LENGTH]:
        at = _write_text(target, at, text, ends.data[4], ends.data[5])
        copy_bytes(target, at, notes, cells.data[row + PROPERTIES_AT], cells.data[row + PROPERTIES_LENGTH])
        at += cells.data[row + PROPERTIES_LENGTH]
    at = _write_text(target, at, text, ends.data[2], ends.data[3])
    at = _write_number(target, at, cells.data[row + OPAQUE])
    return _write_text(target, at, text, ends.data[3], ends.data[4])


def _write_compact_ack(
    target: View,
    at: int,
    text: View,
    ends: Longs,
    host: View,
    notes: View,
    cells: Longs,
    row: int,
    offsets: Longs,
    first: int,
) -> int:
    at = _write_text(target, at, text, 0, ends.data[0])  # code, language, version
    store_i32(target, at, cells.data[row + OPAQUE])
    store_i32(target, at + 4, 1)
    store_i32(target, at + 8, 0)
    block = at + 12
    at = _write_text(target, at + 16, text, ends.data[0], ends.data[1])
    end = _write_number(target, at + 4, cells.data[row + QUEUE_ID])
    store_i32(target, at, end - at - 4)
    at = _write_text(target, end, text, ends.data[1], ends.data[2])
    end = _write_ids(target, at + 4, host, cells, row, offsets, first)
    store_i32(target, at, end - at - 4)
    at = _write_text(target, end, text, ends.data[2], ends.data[3])
    end = _write_number(target, at + 4, cells.data[row + QUEUE_OFFSET])
    store_i32(target, at, end - at - 4)
    at = _write_text(target, end, text, ends.data[3], ends.data[4])
    if cells.data[row + MESSAGES] and cells.data[row + PROPERTIES_LENGTH]:
        at = _write_text(target, at, text, ends.data[4], ends.data[5])
        store_i32(target, at, cells.data[row + PROPERTIES_LENGTH])
        copy_bytes(target, at + 4, notes, cells.data[row + PROPERTIES_AT], cells.data[row + PROPERTIES_LENGTH])
        at += 4 + cells.data[row + PROPERTIES_LENGTH]
    store_i32(target, block, at - block - 4)
    return at


def acks_bytes_max(count: int, messages: int, pieces: int, host: int) -> int:
    """The most that replies to so many sends take, batches of so many messages among them: the numbers in a reply, its
    frame and a key, and the lengths of all constant pieces and of the host in an id."""
    return count * (pieces + host + 160 + _KEY_MAX) + messages * (host + 17)


# Ten parameters on purpose: what was stored, and the pieces of both kinds of replies.
def encode_acks(
    table: array[int],
    count: int,
    scratch: Buffer,
    json: Buffer,
    json_ends: array[int],
    compact: Buffer,
    compact_ends: array[int],
    host: Buffer,
    places: array[int],
    out: bytearray,
) -> int:
    """The replies of appended sends, frame after frame; the bytes, -1 if ``out`` may be too small.

    ``json`` holds the constant pieces around queue id, host + offset, queue offset and opaque, each ending at its
    entry of ``json_ends``; ``compact`` the code to version, and the pieces before the three values and behind them;
    both end with what is before the transaction id of a batch. ``places`` is what ``append_batches`` made it.
    """
    cells, target, store_host, offsets = longs_of(table), writable_view_of(out), view_of(host), longs_of(places)
    text, text_ends, notes = view_of(json), longs_of(json_ends), view_of(scratch)
    fields, field_ends = view_of(compact), longs_of(compact_ends)
    if count * COLUMN_COUNT > cells.size or text_ends.size != 6 or field_ends.size != 6:
        return -1
    messages = 0
    for number in range(count):
        messages += cells.data[number * COLUMN_COUNT + MESSAGES]
    room = acks_bytes_max(count, messages, text.size + fields.size, store_host.size)
    if target.size < room or messages > offsets.size:
        return -1
    done = messages = 0
    for number in range(count):
        row, first = number * COLUMN_COUNT, messages
        messages += cells.data[row + MESSAGES]
        if cells.data[row + FLAG] & _ONEWAY:
            continue
        start = done + 8
        if cells.data[row + KIND] == 0:
            place = _write_json_ack(target, start, text, text_ends, store_host, notes, cells, row, offsets, first)
            store_i32(target, done + 4, place - start)
        else:
            place = _write_compact_ack(target, start, fields, field_ends, store_host, notes, cells, row, offsets, first)
            store_i32(target, done + 4, 1 << 24 | place - start)
        store_i32(target, done, place - done - 4)
        done = place
    return done
