"""The body of REGISTER_BROKER: everything a broker announces, as JSON or packed.

The packed form is a zlib stream; lengths and counts in it are int32:

    length + DataVersion as JSON
    count of topics, each: length + text "name read write perm filterType attributes", 4.9 without attributes
    length + list of filter servers as JSON
    from 5.0 on: count of mappings of static topics, each: length + JSON

Brokers from 5.0 on pack the body and say in the header that they did not, so the first byte decides, not the header.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from flaremq.errors import RemoteProtocolError
from flaremq.java_json import write_java_json
from flaremq.protocol.bodies.bean import Bean, parse_body
from flaremq.protocol.bodies.bean_rows import bean, texts
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper

INFLATED_SIZE_MAX: Final = 16 << 20  # as much as a frame of JSON could hold; a bomb would be a thousand times more
PACKED_ITEMS_MAX: Final = 200_000  # twice as many topics as fit a frame of JSON
_ZLIB_FIRST_BYTE: Final = 0x78
_INT = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody(Bean):
    """Topics and filter servers of a broker."""

    filter_server_list: tuple[str, ...] = texts()
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = bean(TopicConfigSerializeWrapper)

    @classmethod
    def decode(cls, data: bytes) -> RegisterBrokerBody:
        """Read either form. No body is a broker without topics and with the version 0/0/0."""
        if not data:
            return cls()
        if data[0] != _ZLIB_FIRST_BYTE:
            return cls.from_json(data)
        return _Packed(_inflate(data)).read_all()

    def encode_packed(self) -> bytes:
        """The packed form as 5.x writes it."""
        wrapper = self.topic_config_serialize_wrapper
        topics = [_topic_text(config) for config in wrapper.topic_config_table.values()]
        mappings = [write_java_json(item) for item in (wrapper.topic_queue_mapping_info_map or {}).values()]
        parts = [_sized(wrapper.data_version.to_json()), _INT.pack(len(topics))]
        parts += [_sized(text.encode()) for text in topics]
        parts += [_sized(write_java_json(self.filter_server_list)), _INT.pack(len(mappings))]
        parts += [_sized(mapping) for mapping in mappings]
        return zlib.compress(b"".join(parts), 9)


def body_crc32(data: bytes) -> int:
    """What the header's ``bodyCrc32`` holds: the checksum without its sign bit."""
    return zlib.crc32(data) & 0x7FFFFFFF


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise RemoteProtocolError(f"the packed registration cannot be inflated: {error}") from None
    if not inflater.eof:
        reason = "is cut off" if len(inflated) < INFLATED_SIZE_MAX else f"is larger than {INFLATED_SIZE_MAX} bytes"
        raise RemoteProtocolError(f"the packed registration {reason}")
    return inflated


class _Packed:
    """A cursor over the inflated bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_all(self) -> RegisterBrokerBody:
        version = DataVersion.from_json(self._read_sized())
        topics: dict[str, TopicConfig] = {}
        for config in self._read_list(_read_topic):
            topics[config.topic_name] = config
        servers = _read_json(self._read_sized())
        mappings = None
        if self._at < len(self._data):
            mappings = {str(item.get("topic")): item for item in self._read_list(_read_mapping)}
        wrapper = TopicConfigSerializeWrapper(
            data_version=version, topic_config_table=topics, topic_queue_mapping_info_map=mappings
        )
        return RegisterBrokerBody(
            filter_server_list=tuple(map(str, servers)) if isinstance(servers, list) else (),
            topic_config_serialize_wrapper=wrapper,
        )

    def _read_list(self, read: Callable[[bytes], Any]) -> list[Any]:
        count = self._read_number()
        if not 0 <= count <= PACKED_ITEMS_MAX:
            raise RemoteProtocolError(f"the packed registration has {count} items, at most {PACKED_ITEMS_MAX} are read")
        return [read(self._read_sized()) for _ in range(count)]

    def _read_sized(self) -> bytes:
        length = self._read_number()
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise RemoteProtocolError(f"the packed registration ends within an item of {length} bytes")
        item = self._data[self._at : end]
        self._at = end
        return item

    def _read_number(self) -> int:
        if self._at + _INT.size > len(self._data):
            raise RemoteProtocolError("the packed registration ends within a number")
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(number)


def _sized(item: bytes) -> bytes:
    return _INT.pack(len(item)) + item


def _topic_text(config: TopicConfig) -> str:
    queues = f"{config.read_queue_nums} {config.write_queue_nums}"
    words = f"{config.topic_name} {queues} {config.perm} {config.topic_filter_type}"
    # A name server of 4.9 takes five words and no more.
    return f"{words} {write_java_json(config.attributes).decode()}" if config.attributes else words


def _read_topic(data: bytes) -> TopicConfig:
    try:
        words = data.decode().split(" ", 5)
    except UnicodeDecodeError:
        words = []
    if len(words) < 5:
        raise RemoteProtocolError(f"a packed topic has {len(words)} words instead of 5 or 6: {data[:64]!r}")
    value: dict[str, Any] = {
        "topicName": words[0],
        "readQueueNums": words[1],
        "writeQueueNums": words[2],
        "perm": words[3],
        "topicFilterType": words[4],
    }
    if len(words) == 6 and words[5]:
        value["attributes"] = _read_json(words[5].encode())
    return TopicConfig.from_value(value)


def _read_mapping(data: bytes) -> dict[str, Any]:
    value = _read_json(data)
    if not isinstance(value, dict):
        raise RemoteProtocolError("a packed mapping of a static topic is no object")
    return value


def _read_json(data: bytes) -> Any:
    return parse_body(data, "a part of the packed registration")
