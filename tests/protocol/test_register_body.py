"""The packed form of a registration: both ways, broken in every place, and as a bomb."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import RemoteProtocolError
from flaremq.protocol.bodies.register import INFLATED_SIZE_MAX, PACKED_ITEMS_MAX, RegisterBrokerBody, body_crc32
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def body(*topics: TopicConfig) -> RegisterBrokerBody:
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=3, timestamp=5),
        topic_config_table={config.topic_name: config for config in topics},
        topic_queue_mapping_info_map={},
    )
    return RegisterBrokerBody(filter_server_list=("f:1",), topic_config_serialize_wrapper=wrapper)


SAMPLE = body(
    TopicConfig(topic_name="T", attributes={"message.type": "FIFO", "a b": "c d"}), TopicConfig(topic_name="U")
)
INFLATED = zlib.decompress(SAMPLE.encode_packed())


def test_no_body_is_a_broker_without_topics_and_version() -> None:
    empty = RegisterBrokerBody.decode(b"")
    assert empty.topic_config_serialize_wrapper.data_version == DataVersion()
    assert empty.topic_config_serialize_wrapper.topic_config_table == {}


def test_both_forms_carry_the_same() -> None:
    assert RegisterBrokerBody.decode(SAMPLE.encode_packed()) == SAMPLE
    assert RegisterBrokerBody.decode(SAMPLE.to_json()) == SAMPLE


def test_the_form_of_4_9_has_five_words_a_topic_and_no_mappings() -> None:
    packed = sized(b'{"counter":1,"timestamp":2}') + struct.pack(">i", 1) + sized(b"T 4 8 6 SINGLE_TAG") + sized(b"[]")
    read = RegisterBrokerBody.decode(zlib.compress(packed)).topic_config_serialize_wrapper
    assert read.data_version == DataVersion(counter=1, timestamp=2)
    assert read.topic_config_table == {"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8)}
    assert read.topic_queue_mapping_info_map is None


def test_mappings_of_static_topics_are_passed_on() -> None:
    mapping = {"topic": "T", "bname": "b", "totalQueues": 3, "currIdMap": {"0": 1}}
    wrapper = TopicConfigSerializeWrapper(topic_queue_mapping_info_map={"T": mapping})
    read = RegisterBrokerBody.decode(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode_packed())
    assert read.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {"T": mapping}


def test_the_checksum_has_no_sign_bit() -> None:
    assert body_crc32(b"a") == 1756872259
    assert body_crc32(b"hello") == 907060870


def test_a_packed_body_cut_anywhere_is_refused() -> None:
    whole = SAMPLE.encode_packed()
    for end in range(1, len(whole)):
        with pytest.raises(RemoteProtocolError):
            RegisterBrokerBody.decode(whole[:end])


def test_an_inflated_body_cut_anywhere_is_refused_but_for_missing_mappings() -> None:
    for end in range(len(INFLATED)):
        cut = zlib.compress(INFLATED[:end])
        if end == len(INFLATED) - 4:  # all of the older form
            assert RegisterBrokerBody.decode(cut).filter_server_list == ("f:1",)
        else:
            with pytest.raises(RemoteProtocolError):
                RegisterBrokerBody.decode(cut)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        sized(b"[]"),
        sized(b"{}") + struct.pack(">i", -1),
        sized(b"{}") + struct.pack(">i", 2**31 - 1),
        sized(b"{}") + struct.pack(">ii", 1, -1),
        sized(b"{}") + struct.pack(">ii", 1, 2**31 - 1),
        sized(b"{}") + struct.pack(">i", 1) + sized(b"T 4 8"),
        sized(b"{}") + struct.pack(">i", 1) + sized(b"T four 8 6 SINGLE_TAG"),
        sized(b"{}") + struct.pack(">i", 1) + sized(b"T 4 8 6 SINGLE_TAG {"),
        sized(b"{}") + struct.pack(">i", 1) + sized(b"T 4 8 6 SINGLE_TAG []"),
        sized(b"{}") + struct.pack(">i", 1) + sized(b"\xff 4 8 6 SINGLE_TAG"),
        sized(b"{}") + struct.pack(">i", 0) + sized(b"["),
        sized(b"{}") + struct.pack(">i", 0) + sized(b"[]") + struct.pack(">i", 1) + sized(b"5"),
        sized(b"{}") + struct.pack(">i", PACKED_ITEMS_MAX + 1) + sized(b"T 1 1 6 X") * 10,
    ],
    ids=lambda packed: packed[-12:].hex(),
)
def test_nonsense_inside_is_refused(packed: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode(zlib.compress(packed))


@pytest.mark.slow
def test_a_bomb_is_stopped_at_the_limit() -> None:
    bomb = zlib.compress(bytes(20 * INFLATED_SIZE_MAX), 9)
    assert len(bomb) < INFLATED_SIZE_MAX // 40
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="larger than"):
            RegisterBrokerBody.decode(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * INFLATED_SIZE_MAX


NAME = st.text("abcXYZ%-_|09", min_size=1, max_size=20)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
TOPIC = st.builds(
    TopicConfig,
    topic_name=NAME,
    read_queue_nums=INT,
    write_queue_nums=INT,
    perm=INT,
    topic_filter_type=st.sampled_from(("SINGLE_TAG", "MULTI_TAG")),
    attributes=st.dictionaries(TEXT, TEXT, max_size=3),
)


@given(st.lists(TOPIC, max_size=5))
def test_any_topics_come_back_from_the_packed_form(topics: list[TopicConfig]) -> None:
    assert RegisterBrokerBody.decode(body(*topics).encode_packed()) == body(*topics)


@given(st.binary(max_size=200))
def test_arbitrary_inflated_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        RegisterBrokerBody.decode(zlib.compress(data))
    except RemoteProtocolError:
        return
