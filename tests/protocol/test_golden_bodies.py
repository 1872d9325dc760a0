"""Every recorded JSON body is read into its class and written as Java wrote it.

Bodies of 5.5 come back byte for byte, with two exceptions that lie in the text, not in the meaning: sets of tags and
hashes are sorted (Java: order of its hashes), broker ids are quoted (Java: bare in cluster information). Bodies of 4.9
come back as 5.5 would write them: with properties 4.9 does not know, at their defaults.
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.bean import Bean
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.register import RegisterBrokerBody
from flaremq.protocol.bodies.route import ClusterInfo
from flaremq.protocol.codes import RequestCode
from tests.support.body_table import REQUEST_BODIES, RESPONSE_BODIES
from tests.support.golden_frames import RECORDINGS, golden_frames, golden_pairs

VERSION_5_5_0 = 513


def recorded_bodies(recording: str) -> list[tuple[type[Bean], bytes, int]]:
    """Class, text and the version of its writer."""
    found = []
    for frame in golden_frames(recording):
        command = frame.command
        kind = None if command.is_response else REQUEST_BODIES.get(RequestCode(command.code))
        if kind is not None and command.body_bytes[:1] == b"{":
            found.append((kind, command.body_bytes, command.version))
    for request, reply in golden_pairs(recording):
        command = reply.command
        kind = RESPONSE_BODIES.get(RequestCode(request.command.code))
        if kind is not None and command.code == 0 and command.body_bytes:
            found.append((kind, command.body_bytes, command.version))
    return found


def plain(value: Any) -> Any:
    """A parsed text without what order and quotes add to it."""
    if isinstance(value, dict):
        return {
            tuple(sorted(parse_java_json(key).items())) if key.startswith("{") else key: (
                sorted(item) if key in ("codeSet", "tagsSet") else plain(item)
            )
            for key, item in value.items()
        }
    return [plain(item) for item in value] if isinstance(value, list) else value


def assert_part_of(part: Any, whole: Any) -> None:
    """Everything in ``part`` is in ``whole``, which may have more properties."""
    if isinstance(part, dict):
        for key, item in part.items():
            assert_part_of(item, whole[key])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for item, other in zip(part, whole, strict=True):
            assert_part_of(item, other)
    else:
        assert part == whole


def test_every_json_body_in_the_recordings_has_a_class() -> None:
    for recording in RECORDINGS:
        for frame in golden_frames(recording):
            command = frame.command
            if not command.is_response and command.body_bytes[:1] == b"{":
                assert command.code in REQUEST_BODIES
        for request, reply in golden_pairs(recording):
            if reply.command.body_bytes[:1] == b"{":
                assert request.command.code in RESPONSE_BODIES


@pytest.mark.parametrize("recording", RECORDINGS)
def test_bodies_come_back_as_they_were(recording: str) -> None:
    bodies = recorded_bodies(recording)
    assert bodies or recording == "compressed-register-55"
    for kind, data, version in bodies:
        body = kind.from_json(data)
        written = body.to_json()
        assert kind.from_json(written) == body
        if version < VERSION_5_5_0:
            assert_part_of(plain(parse_java_json(data)), plain(parse_java_json(written)))
        elif kind in (HeartbeatData, ClusterInfo):
            assert plain(parse_java_json(written)) == plain(parse_java_json(data))
        else:
            assert written == data


def test_written_bodies_have_no_blanks_outside_of_texts() -> None:
    for recording in RECORDINGS:
        for kind, data, _ in recorded_bodies(recording):
            written = kind.from_json(data).to_json()
            assert all(b" " not in part for part in written.split(b'"')[::2])


def test_packed_registrations_of_both_versions_are_read_whatever_the_header_says() -> None:
    seen = set()
    for recording in ("binary-client-49", "compressed-register-55"):
        for frame in golden_frames(recording):
            command = frame.command
            if command.is_response or command.code != RequestCode.REGISTER_BROKER:
                continue
            body = command.body_bytes
            assert body[:1] == b"x"
            seen.add((command.version, command.field("compressed")))
            read = RegisterBrokerBody.decode(body)
            topics = read.topic_config_serialize_wrapper.topic_config_table
            assert topics["BenchmarkTest"].read_queue_nums == 1024
            assert topics["TBW102"].perm == 7
            assert all(name == config.topic_name for name, config in topics.items())
            again = read.encode_packed()
            assert RegisterBrokerBody.decode(again).topic_config_serialize_wrapper.topic_config_table == topics
            if command.version == VERSION_5_5_0:
                # 5.5 adds a word for attributes even when there are none; 4.9 would not read that, so we do not.
                assert zlib.decompress(again) == _without_empty_attributes(zlib.decompress(body))
    assert seen == {(407, "true"), (513, "false")}


def _without_empty_attributes(packed: bytes) -> bytes:
    """The same registration with ` {}` taken from each topic, lengths put right."""
    size = int.from_bytes(packed[:4], "big")
    count = int.from_bytes(packed[4 + size : 8 + size], "big")
    parts, at = [packed[: 8 + size]], 8 + size
    for _ in range(count):
        length = int.from_bytes(packed[at : at + 4], "big")
        text = packed[at + 4 : at + 4 + length].removesuffix(b" {}")
        parts.append(len(text).to_bytes(4, "big") + text)
        at += 4 + length
    return b"".join([*parts, packed[at:]])


def test_a_map_keyed_by_queues_is_read_by_queue() -> None:
    (reply,) = [
        reply
        for request, reply in golden_pairs("json-55")
        if request.command.code == RequestCode.GET_TOPIC_STATS_INFO and request.step == "admin-topicStatus"
    ]
    kind = RESPONSE_BODIES[RequestCode.GET_TOPIC_STATS_INFO]
    table = kind.from_json(reply.command.body_bytes).offset_table  # type: ignore[attr-defined]
    queue = MessageQueue("GoldA", "broker-a", 2)
    assert (table[queue].min_offset, table[queue].max_offset) == (0, 4)
    assert sorted(table) == [MessageQueue("GoldA", "broker-a", number) for number in range(4)]
