"""Ingest kernels: sends as they came off the wire become records and replies, no Python object per message.

``parse_sends`` takes frames from the start of a read as long as they are plain: SEND_MESSAGE_V2 in either header
encoding, one topic, ASCII header, no property that makes a message take another way. The first frame that is anything
else ends the run, and plain code decides about it; so these kernels need to know only what they are sure of.
``append_sends`` writes the records, ``encode_acks`` the replies. Plain code gives the same bytes; tests compare them.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    TABLE,
    WRITE_BYTES,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
)
from flaremq.storage.kernels.crc import crc32_at
from flaremq.storage.kernels.memory import (
    address_of,
    copy_bytes,
    load_i16,
    load_i32,
    load_u8,
    same_bytes,
    store_i32,
    store_i64,
    store_u8,
)

# Columns of the table: one row a send. Places are offsets in the read, for properties in the scratch.
KIND, OPAQUE, FLAG, TOPIC_AT, TOPIC_LENGTH, QUEUE_ID, SYS_FLAG, BORN, MESSAGE_FLAG = range(9)
PROPERTIES_AT, PROPERTIES_LENGTH, BODY_AT, BODY_LENGTH, RECORD_OFFSET, QUEUE_OFFSET = range(9, 15)
COLUMNS = 15

_CODE = 310
_ONEWAY = 2
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _ESCAPE = 0x22, 0x2C, 0x3A, 0x7B, 0x7D, 0x5C
_NAME_END, _VALUE_END = 1, 2
_FRAME_MAX = 16 << 20
_PROPERTIES_MAX = 32767
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


@helper
def _name(at: int, length: int) -> int:
    """The first eight bytes of a text as a number."""
    value = 0
    for place in range(min(length, 8)):
        value = value << 8 | load_u8(at + place)
    return value


@helper
def _number(at: int, length: int) -> int:
    """A number of digits only; -1 if it is anything else."""
    if length <= 0 or length > 18:
        return _NOTHING
    value = 0
    for place in range(length):
        digit = load_u8(at + place) - 48
        if digit < 0 or digit > 9:
            return _NOTHING
        value = value * 10 + digit
    return value


@helper
def _string_end(at: int, end: int) -> int:
    """Where a string without escapes ends (its closing quote), -1 for one that is not so simple."""
    while at < end:
        byte = load_u8(at)
        if byte == _QUOTE:
            return at
        if byte == _ESCAPE or byte < 32 or byte > 126:
            return _NOTHING
        at += 1
    return _NOTHING


@helper
def _hex(byte: int) -> int:
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 32
    if 97 <= byte <= 102:
        return byte - 87
    return _NOTHING


@helper
def _unescape(at: int, end: int, target: int, room: int) -> tuple[int, int]:
    """Copy a string of ASCII, its escapes undone: (closing quote, bytes written), or (-1, 0)."""
    written = 0
    while at < end:
        byte = load_u8(at)
        if byte == _QUOTE:
            return at, written
        if byte < 32 or byte > 126 or written >= room:
            return _NOTHING, 0
        if byte == _ESCAPE:
            if end - at < 6:
                return _NOTHING, 0
            byte = load_u8(at + 1)
            if byte == 117:  # \u00xx
                high, low = _hex(load_u8(at + 4)), _hex(load_u8(at + 5))
                if load_u8(at + 2) != 48 or load_u8(at + 3) != 48 or high < 0 or low < 0 or high > 7:
                    return _NOTHING, 0
                byte = high << 4 | low
                if byte == 0:
                    return _NOTHING, 0
                at += 6
            elif byte == _QUOTE or byte == _ESCAPE or byte == 47:
                at += 2
            else:
                return _NOTHING, 0
        else:
            at += 1
        store_u8(target + written, byte)
        written += 1
    return _NOTHING, 0


@helper
def _is_plain(at: int, length: int) -> bool:
    """Whether properties have a unique key, and none that decides where a message goes."""
    end = at + length
    has_key = False
    while at < end:
        name_end = at
        while name_end < end and load_u8(name_end) != _NAME_END:
            if load_u8(name_end) == _VALUE_END:
                return False
            name_end += 1
        value_end = name_end + 1
        while value_end < end and load_u8(value_end) != _VALUE_END:
            if load_u8(value_end) == _NAME_END:
                return False
            value_end += 1
        size = name_end - at
        value_size = value_end - name_end - 1
        if size <= 0 or value_size <= 0:
            return False
        first = _name(at, size)
        if load_u8(at) == 95:  # "_": reserved names, the record checksum among them
            return False
        if size == 8 and first == _N_KEY:
            has_key = True
        elif (size == 5 and first == _N_DELAY) or (size == 8 and (first == _N_TRAN or first == _N_TRACE)):
            return False
        elif (size == 7 and first == _N_CLUSTER) or (size == 6 and first == _N_POP):
            return False
        elif size >= 6 and (_name(at, 6) == _N_TIMER or _name(at, 6) == _N_INNER):
            return False
        elif size == 10 and first == _N_REGION:
            return False
        elif size == 4 and first == _N_WAIT and not (value_size == 4 and _name(name_end + 1, 4) == _N_TRUE):
            return False
        for place in range(at, name_end - 2):  # no name that looks like the record checksum's
            if load_u8(place) == 67 and load_u8(place + 1) == 82 and load_u8(place + 2) == 67:
                return False
        at = value_end + 1
    return has_key


@helper
def _take_field(letter: int, at: int, length: int, base: int, row: int, table: Integers) -> bool:
    """One ext field but the properties; False if it makes the send anything but plain."""
    if letter == 98:  # b, the topic
        if length <= 0 or length > 127:
            return False
        table[row, TOPIC_AT] = at - base
        table[row, TOPIC_LENGTH] = length
        return True
    if letter == 101 or letter == 102 or letter == 103 or letter == 104 or letter == 106:
        number = _number(at, length)
        if number < 0:
            return False
        if letter == 101:
            table[row, QUEUE_ID] = number
            return number < 0x7FFFFFFF
        if letter == 102:
            table[row, SYS_FLAG] = number
            return number & ~0x701 == 0
        if letter == 103:
            table[row, BORN] = number
            return True
        if letter == 104:
            table[row, MESSAGE_FLAG] = number
            return number <= 0x7FFFFFFF
        return number == 0
    if letter == 109:  # m, batch
        return length == 5 and _name(at, 5) == _N_FALSE
    # group, default topic and its queues, unit mode, broker name
    return letter == 97 or letter == 99 or letter == 100 or letter == 107 or letter == 110


@helper
def _parse_json(at: int, end: int, base: int, row: int, table: Integers, scratch: int, room: int) -> int:
    """The fields of a JSON header; bytes of properties in the scratch, -1 if it is not plain."""
    properties = _NOTHING
    has_code = has_opaque = False
    if end - at < 2 or load_u8(at) != _OPEN:
        return _NOTHING
    at += 1
    while True:
        if at >= end or load_u8(at) != _QUOTE:
            return _NOTHING
        name_end = _string_end(at + 1, end)
        if name_end < 0 or end - name_end < 3 or load_u8(name_end + 1) != _COLON:
            return _NOTHING
        name_at, size = at + 1, name_end - at - 1
        name = _name(name_at, size)
        at = name_end + 2
        first = load_u8(at)
        if first == _QUOTE:  # language, serialize type: not looked at
            stop = _string_end(at + 1, end)
            if stop < 0 or (size == 6 and name == _N_OPAQUE) or (size == 4 and (name == _N_CODE or name == _N_FLAG)):
                return _NOTHING
            at = stop + 1
        elif first == _OPEN:
            if size != 9 or name != _N_EXT or properties != _NOTHING:
                return _NOTHING
            at += 1
            while True:
                if end - at < 6 or load_u8(at) != _QUOTE or load_u8(at + 2) != _QUOTE or load_u8(at + 3) != _COLON:
                    return _NOTHING
                letter = load_u8(at + 1)
                if load_u8(at + 4) != _QUOTE:
                    return _NOTHING
                at += 5
                if letter == 105:  # i, the properties
                    if properties != _NOTHING:
                        return _NOTHING
                    stop, properties = _unescape(at, end, scratch, room)
                    if stop < 0:
                        return _NOTHING
                else:
                    stop = _string_end(at, end)
                    if stop < 0 or not _take_field(letter, at, stop - at, base, row, table):
                        return _NOTHING
                at = stop + 1
                if at >= end:
                    return _NOTHING
                byte = load_u8(at)
                at += 1
                if byte == _CLOSE:
                    break
                if byte != _COMMA:
                    return _NOTHING
        else:
            stop = at
            while stop < end and 48 <= load_u8(stop) <= 57:
                stop += 1
            number = _number(at, stop - at)
            if number < 0 or number > 0x7FFFFFFF:
                return _NOTHING
            if size == 4 and name == _N_CODE:
                has_code = number == _CODE
            elif size == 4 and name == _N_FLAG:
                table[row, FLAG] = number
            elif size == 6 and name == _N_OPAQUE:
                table[row, OPAQUE] = number
                has_opaque = True
            elif size != 7 or name != _N_VERSION:
                return _NOTHING
            at = stop
        if at >= end:
            return _NOTHING
        byte = load_u8(at)
        at += 1
        if byte == _CLOSE:
            break
        if byte != _COMMA:
            return _NOTHING
    if at != end or not has_code or not has_opaque:
        return _NOTHING
    return properties


@helper
def _parse_compact(at: int, end: int, base: int, row: int, table: Integers, scratch: int, room: int) -> int:
    """The fields of a compact header; bytes of properties in the scratch, -1 if it is not plain."""
    properties = _NOTHING
    if end - at < 21 or load_i16(at) != _CODE or load_i32(at + 13) != 0 or load_i32(at + 17) != end - at - 21:
        return _NOTHING
    table[row, OPAQUE] = load_i32(at + 5)
    table[row, FLAG] = load_i32(at + 9)
    at += 21
    while at < end:
        if end - at < 7 or load_i16(at) != 1:
            return _NOTHING
        letter, length = load_u8(at + 2), load_i32(at + 3)
        at += 7
        if length <= 0 or length > end - at:
            return _NOTHING
        for place in range(at, at + length):
            byte = load_u8(place)
            if byte > 126 or (byte < 32 and letter != 105) or byte == 0:
                return _NOTHING
        if letter == 105:
            if length > room or properties != _NOTHING:
                return _NOTHING
            copy_bytes(scratch, at, length)
            properties = length
        elif not _take_field(letter, at, length, base, row, table):
            return _NOTHING
        at += length
    return properties


@kernel(several(3, I64), READ_BYTES, I64, I64, READ_BYTES, WRITE_BYTES, TABLE)
def parse_sends(
    data: Bytes, start: int, body_max: int, stamp: Bytes, scratch: Bytes, table: Integers
) -> tuple[int, int, int]:
    """(sends, where the first frame that is none starts, bytes of their bodies and properties).

    ``scratch`` gets the properties of each as they are stored, ``stamp`` at their end.
    """
    base = address_of(data)
    notes = address_of(scratch)
    at, used, count, total = start, 0, 0, 0
    while count < table.shape[0] and data.size - at >= 8:
        length = load_i32(base + at)
        word = load_i32(base + at + 4)
        kind = word >> 24
        header = word & 0xFFFFFF
        if length < 4 or length > _FRAME_MAX - 4 or length > data.size - at - 4 or header > length - 4:
            break
        if kind != 0 and kind != 1:
            break
        for column in range(COLUMNS):
            table[count, column] = _NOTHING
        table[count, FLAG] = 0
        table[count, KIND] = kind
        room = min(scratch.size - used, _PROPERTIES_MAX) - stamp.size - 1
        if room <= 0:
            break
        header_at = base + at + 8
        if kind == 0:
            size = _parse_json(header_at, header_at + header, base, count, table, notes + used, room)
        else:
            size = _parse_compact(header_at, header_at + header, base, count, table, notes + used, room)
        body_length = length - 4 - header
        if size <= 0 or body_length > body_max or not _is_plain(notes + used, size):
            break
        if (
            table[count, TOPIC_AT] < 0
            or table[count, QUEUE_ID] < 0
            or table[count, SYS_FLAG] < 0
            or table[count, BORN] < 0
            or table[count, MESSAGE_FLAG] < 0
            or table[count, FLAG] & ~_ONEWAY != 0
        ):
            break
        if count and (
            table[count, TOPIC_LENGTH] != table[0, TOPIC_LENGTH]
            or not same_bytes(base + table[count, TOPIC_AT], base + table[0, TOPIC_AT], table[0, TOPIC_LENGTH])
        ):
            break
        if load_u8(notes + used + size - 1) != _VALUE_END:
            store_u8(notes + used + size, _VALUE_END)
            size += 1
        copy_bytes(notes + used + size, address_of(stamp), stamp.size)
        size += stamp.size
        table[count, PROPERTIES_AT] = used
        table[count, PROPERTIES_LENGTH] = size
        table[count, BODY_AT] = at + 8 + header
        table[count, BODY_LENGTH] = body_length
        used += size
        total += size + body_length
        count += 1
        at += 4 + length
    return count, at, total


@kernel(I64, WRITE_BYTES, I64, I64, READ_BYTES, READ_BYTES, READ_BYTES, READ_BYTES, TABLE, I64)
def append_sends(
    log: Bytes,
    at: int,
    base: int,
    prefix: Bytes,
    topic: Bytes,
    data: Bytes,
    scratch: Bytes,
    table: Integers,
    count: int,
) -> int:
    """Write the records of parsed sends from file offset ``at`` on; the file offset after the last, -1 for no room.

    ``prefix`` is the 88 bytes before a body with the fields they share; queue offsets are in the table, and each
    record's physical offset is put there.
    """
    fixed = prefix.size + topic.size + 2
    total = 0
    for row in range(count):
        total += fixed + table[row, BODY_LENGTH] + table[row, PROPERTIES_LENGTH]
    if at < 0 or total > log.size - at or prefix.size != 88:
        return -1
    start = address_of(log)
    for row in range(count):
        body = address_of(data) + table[row, BODY_AT]
        length = table[row, BODY_LENGTH]
        properties = table[row, PROPERTIES_LENGTH]
        record = start + at
        copy_bytes(record, address_of(prefix), 88)
        store_i32(record, fixed + length + properties)
        store_i32(record + 8, crc32_at(body, length) & 0x7FFFFFFF)
        store_i32(record + 12, table[row, QUEUE_ID])
        store_i32(record + 16, table[row, MESSAGE_FLAG])
        store_i64(record + 20, table[row, QUEUE_OFFSET])
        store_i64(record + 28, base + at)
        store_i32(record + 36, table[row, SYS_FLAG])
        store_i64(record + 40, table[row, BORN])
        store_i32(record + 84, length)
        place = record + 88
        copy_bytes(place, body, length)
        place += length
        copy_bytes(place, address_of(topic), topic.size)
        place += topic.size
        store_u8(place, properties >> 8)
        store_u8(place + 1, properties & 0xFF)
        copy_bytes(place + 2, address_of(scratch) + table[row, PROPERTIES_AT], properties)
        table[row, RECORD_OFFSET] = base + at
        at += fixed + length + properties
    return at


@helper
def _write_number(target: int, number: int) -> int:
    """Decimal digits of a number that is not negative; how many."""
    digits = 1
    rest = number // 10
    while rest:
        digits += 1
        rest //= 10
    for place in range(digits - 1, -1, -1):
        store_u8(target + place, 48 + number % 10)
        number //= 10
    return digits


@helper
def _write_hex(target: int, number: int) -> None:
    for place in range(15, -1, -1):
        digit = number & 15
        store_u8(target + place, digit + 48 if digit < 10 else digit + 55)
        number >>= 4


@helper
def _write_text(target: int, text: Bytes, start: int, end: int) -> int:
    copy_bytes(target, address_of(text) + start, end - start)
    return end - start


@kernel(I64, TABLE, I64, READ_BYTES, READ_INTEGERS, READ_BYTES, READ_INTEGERS, READ_BYTES, WRITE_BYTES)
def encode_acks(
    table: Integers,
    count: int,
    json: Bytes,
    json_ends: Integers,
    compact: Bytes,
    compact_ends: Integers,
    host: Bytes,
    out: Bytes,
) -> int:
    """The replies of appended sends, frame after frame; the bytes, -1 if ``out`` may be too small.

    ``json`` holds the constant pieces around queue id, host + offset, queue offset and opaque, each ending at its
    entry of ``json_ends``; ``compact`` the code to version, and the pieces before the three values and behind them.
    """
    if out.size < count * (json.size + compact.size + host.size + 160):
        return -1
    target = address_of(out)
    done = 0
    for row in range(count):
        if table[row, FLAG] & _ONEWAY:
            continue
        head = target + done
        place = head + 8
        if table[row, KIND] == 0:
            place += _write_text(place, json, 0, json_ends[0])
            place += _write_number(place, table[row, QUEUE_ID])
            place += _write_text(place, json, json_ends[0], json_ends[1])
            place += _write_text(place, host, 0, host.size)
            _write_hex(place, table[row, RECORD_OFFSET])
            place += 16
            place += _write_text(place, json, json_ends[1], json_ends[2])
            place += _write_number(place, table[row, QUEUE_OFFSET])
            place += _write_text(place, json, json_ends[2], json_ends[3])
            place += _write_number(place, table[row, OPAQUE])
            place += _write_text(place, json, json_ends[3], json_ends[4])
            store_i32(head + 4, place - head - 8)
        else:
            place += _write_text(place, compact, 0, compact_ends[0])  # code, language, version
            store_i32(place, table[row, OPAQUE])
            store_i32(place + 4, 1)
            store_i32(place + 8, 0)
            block = place + 12
            place += 16
            place += _write_text(place, compact, compact_ends[0], compact_ends[1])
            size = _write_number(place + 4, table[row, QUEUE_ID])
            store_i32(place, size)
            place += 4 + size
            place += _write_text(place, compact, compact_ends[1], compact_ends[2])
            store_i32(place, host.size + 16)
            place += 4
            place += _write_text(place, host, 0, host.size)
            _write_hex(place, table[row, RECORD_OFFSET])
            place += 16
            place += _write_text(place, compact, compact_ends[2], compact_ends[3])
            size = _write_number(place + 4, table[row, QUEUE_OFFSET])
            store_i32(place, size)
            place += 4 + size
            place += _write_text(place, compact, compact_ends[3], compact_ends[4])
            store_i32(block, place - block - 4)
            store_i32(head + 4, 1 << 24 | place - head - 8)
        store_i32(head, place - head - 4)
        done += place - head
    return done
