from __future__ import annotations

import random
import zlib

import pytest

from flaremq.message.hosts import encode_host
from flaremq.message.record.codec import CheckReason, check_record, encode_blank
from flaremq.message.record.crc import crc_property
from tests.message.records import VECTOR, flip, make_record

IPV6 = make_record(born_host=encode_host("[::1]:5"), store_host=encode_host("[::2]:6"))
LONG = make_record(topic=b"%RETRY%" + b"t" * 150)
WITH_CRC = make_record(append_crc=True)
RECORDS = [VECTOR, IPV6, LONG, WITH_CRC, make_record(body=b""), make_record(properties=b"")]


@pytest.mark.parametrize("record", RECORDS)
def test_good_record_is_good_under_every_option(record: bytes) -> None:
    for strict in (False, True):
        assert check_record(record, physical_offset=1234, strict=strict) == (CheckReason.OK, len(record))


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_checked_where_it_lies(record: bytes) -> None:
    for data in (b"xyz" + record + b"more", memoryview(b"xyz" + record), bytearray(b"xyz" + record)):
        check = check_record(data, 3, strict=True)
        assert check.ok and check.size == len(record)


@pytest.mark.parametrize("record", RECORDS)
def test_every_truncation_is_noticed(record: bytes) -> None:
    for length in range(len(record)):
        assert check_record(record[:length]).reason is CheckReason.TRUNCATED


def test_other_place_in_the_log_is_noticed() -> None:
    assert check_record(VECTOR, physical_offset=1235).reason is CheckReason.PHYSICAL_OFFSET


def test_blank_is_told_from_records_and_damage() -> None:
    assert check_record(encode_blank(100)) == (CheckReason.BLANK, 100)
    assert check_record(encode_blank(7)).reason is CheckReason.BAD_SIZE
    assert not check_record(encode_blank(100)).ok


def test_unwritten_space_is_told_from_damage() -> None:
    assert check_record(bytes(1000)).reason is CheckReason.EMPTY
    assert check_record(b"\x00\x00\x00\x05" + bytes(100)).reason is CheckReason.UNKNOWN_MAGIC
    assert check_record(b"").reason is CheckReason.TRUNCATED


@pytest.mark.parametrize("size", [-1, 0, 8, 90])
def test_impossible_size_is_noticed(size: int) -> None:
    assert check_record(size.to_bytes(4, "big", signed=True) + VECTOR[4:]).reason is CheckReason.BAD_SIZE


def test_record_too_small_for_its_ipv6_hosts_is_noticed() -> None:
    record = bytearray(make_record(topic=b"t", body=b"", properties=b""))
    record[39] |= 0x30
    assert check_record(record).reason is CheckReason.BAD_SIZE


def test_announced_gigabytes_are_not_allocated() -> None:
    assert check_record((0x7FFFFFFF).to_bytes(4, "big") + VECTOR[4:]) == (CheckReason.TRUNCATED, 0x7FFFFFFF)


@pytest.mark.parametrize("length", [-1, 4, 6, 37, 0x7FFFFFFF, -(1 << 31)])
def test_wrong_body_length_is_noticed(length: int) -> None:
    record = VECTOR[:84] + length.to_bytes(4, "big", signed=True) + VECTOR[88:]
    assert check_record(record, check_body_crc=False).reason is CheckReason.LENGTH_MISMATCH


@pytest.mark.parametrize("length", [0, 8, 10, 127, 128, 255])
def test_wrong_topic_length_is_noticed(length: int) -> None:
    record = VECTOR[:93] + bytes([length]) + VECTOR[94:]
    assert check_record(record).reason is CheckReason.LENGTH_MISMATCH


def test_negative_topic_length_of_a_v2_record_is_noticed() -> None:
    at = 88 + 5
    record = LONG[:at] + b"\xff\xff" + LONG[at + 2 :]
    assert check_record(record).reason is CheckReason.LENGTH_MISMATCH


def test_negative_properties_length_means_no_properties() -> None:
    record = make_record(properties=b"")
    assert check_record(record[:-2] + b"\xff\xff", strict=True).ok


def test_damaged_body_is_noticed_unless_told_otherwise() -> None:
    record = flip(VECTOR, 90)
    assert check_record(record).reason is CheckReason.BODY_CRC
    assert check_record(record, check_body_crc=False).ok


@pytest.mark.parametrize("at", range(len(WITH_CRC)))
def test_record_checksum_notices_any_flipped_bit_before_its_key(at: int) -> None:
    for bit in range(8):
        check = check_record(flip(WITH_CRC, at, bit), require_record_crc=True)
        assert not check.ok
    if at < len(WITH_CRC) - 21 or at >= len(WITH_CRC) - 11:
        # Without the demand the property still protects all but the ten bytes that announce it.
        assert not check_record(flip(WITH_CRC, at), check_body_crc=False).ok


def test_property_of_an_application_is_not_taken_for_the_checksum() -> None:
    assert check_record(make_record(properties=b"x__CRC32#\x01abcdefghij\x02"), strict=True).ok


def test_missing_record_checksum_is_damage_only_on_demand() -> None:
    assert check_record(VECTOR).ok
    assert check_record(VECTOR, require_record_crc=True).reason is CheckReason.RECORD_CRC
    assert check_record(WITH_CRC, require_record_crc=True).ok


def test_record_whose_checksum_is_zero_is_good() -> None:
    """RocketMQ rejected its own record when the checksum happened to be 0."""
    record = record_with_checksum(0)
    assert record.endswith(crc_property(0))
    assert check_record(record, require_record_crc=True).ok


def record_with_checksum(wanted: int) -> bytes:
    """A record whose covered part has a given checksum, by choosing four bytes of FLAG: CRC-32 is linear."""
    covered = bytearray(make_record(append_crc=True)[:-20])
    flag_at = 16
    base = zlib.crc32(covered)
    effects = []
    for bit in range(32):
        covered[flag_at + bit // 8] ^= 1 << bit % 8
        effects.append(zlib.crc32(covered) ^ base)
        covered[flag_at + bit // 8] ^= 1 << bit % 8
    rows = [(effect, 1 << bit) for bit, effect in enumerate(effects)]
    target, choice = base ^ wanted, 0
    for pivot in range(31, -1, -1):  # Gaussian elimination over GF(2)
        found = next(row for row in rows if row[0] >> pivot == 1)
        rows = [(e ^ found[0], c ^ found[1]) if e >> pivot & 1 else (e, c) for e, c in rows if (e, c) != found]
        if target >> pivot & 1:
            target, choice = target ^ found[0], choice ^ found[1]
    for bit in range(32):
        if choice >> bit & 1:
            covered[flag_at + bit // 8] ^= 1 << bit % 8
    return bytes(covered) + crc_property(zlib.crc32(covered) & 0x7FFFFFFF)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (make_record(topic=b"with space"), CheckReason.TOPIC),
        (make_record(topic=b""), CheckReason.TOPIC),
        (make_record(topic=b"\x00" * 9), CheckReason.TOPIC),
        (make_record(properties=bytes(20)), CheckReason.PROPERTIES),
        (make_record(properties=b"k\x01v\x00\x02"), CheckReason.PROPERTIES),
        (make_record(store_timestamp=0), CheckReason.FIELD),
        (make_record(store_timestamp=-1), CheckReason.FIELD),
        (make_record(queue_id=-1), CheckReason.FIELD),
        (make_record(queue_offset=-1), CheckReason.FIELD),
        (make_record(born_host=b"\x01\x02\x03\x04\x00\x01\x00\x00"), CheckReason.FIELD),
        (make_record(store_host=b"\x01\x02\x03\x04\xff\xff\xff\xff"), CheckReason.FIELD),
    ],
)
def test_strict_refuses_what_no_writer_would_write(record: bytes, reason: CheckReason) -> None:
    assert check_record(record).ok
    assert check_record(record, strict=True).reason is reason


def test_garbage_gets_an_answer_and_never_an_exception() -> None:
    chance = random.Random(20)
    magics = [VECTOR[4:8], LONG[4:8], encode_blank(8)[4:]]
    for _ in range(3000):
        data = bytearray(chance.randbytes(chance.randrange(200)))
        if len(data) >= 8 and chance.random() < 0.8:
            data[4:8] = chance.choice(magics)
            data[0:4] = chance.randrange(220).to_bytes(4, "big")
        assert isinstance(check_record(bytes(data), strict=True).reason, CheckReason)


def test_damaged_records_get_an_answer_and_never_an_exception() -> None:
    chance = random.Random(21)
    for _ in range(3000):
        data = bytearray(chance.choice(RECORDS))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        check = check_record(data, physical_offset=1234, strict=True)
        assert check.reason is not CheckReason.BLANK
