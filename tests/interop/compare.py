"""When do two readings of a store say the same? The comparisons all interop tests share.

Each takes images in manifest form (see ``java_store`` and ``ours``) and names the first difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.interop import corpus
from tests.interop.java_store import QUERY_MAX, Image, key_request

LEVEL_MS = {17: 3_600_000, 18: 7_200_000}
PREPARED, ROLLBACK = 0x4, 0xC
STORE_HOST_V6 = 0x20

# What a store adds to the properties it was given.
ADDED_BY_STORE = {"__CRC32#", "WAIT"}


def assert_acknowledged(acks: Iterable[corpus.Ack], image: Image, *, long_topics: bool = False) -> None:
    """Every acknowledged message of ours is in the log at the acknowledged place, each field as given."""
    found = {message["physicalOffset"]: message for message in image["messages"]}
    for ack in acks:
        for row in corpus.expected(ack, long_topics=long_topics):
            message = found.get(row["physicalOffset"])
            assert message is not None, f"number {ack.number}: nothing at {row['physicalOffset']}"
            properties = message["properties"]
            extra = properties.keys() - row["properties"].keys()
            assert extra <= ADDED_BY_STORE, f"number {ack.number}: unexpected properties {extra}"
            same = {name: properties.get(name) for name in row["properties"]}
            if not has_unit(message):
                row = row | {"queueOffset": 0}  # such a record has no place in a queue
            # The bit for an IPv6 store host belongs to the store, not to the message.
            message = message | {"sysFlag": message["sysFlag"] & ~STORE_HOST_V6}
            assert {name: message[name] for name in row} | {"properties": same} == row, f"number {ack.number}"


def assert_java_acknowledged(acks: Iterable[dict[str, Any]], image: Image) -> None:
    """Every put that RocketMQ acknowledged is in the log at the acknowledged place."""
    found = {message["physicalOffset"]: message for message in image["messages"]}
    for ack in acks:
        first = found.get(ack["physicalOffset"])
        assert first is not None, f"nothing at {ack['physicalOffset']}: {ack}"
        for i, message_id in enumerate(ack["msgId"].split(",")):
            message = found[int(message_id[-16:], 16)]
            assert (message["topic"], message["queueId"]) == (ack["topic"], ack["queueId"]), ack
            assert message["msgId"] == message_id
            assert message["storeTimestamp"] == ack["storeTimestamp"], ack
            if has_unit(message):
                assert message["queueOffset"] == ack["queueOffset"] + i, ack


def assert_same_log(ours: Image, theirs: Image) -> None:
    assert ours["commitLog"] == theirs["commitLog"]
    for mine, other in zip(ours["messages"], _without_bodies(theirs["messages"]), strict=False):
        assert mine == other, f"record at {mine['physicalOffset']}"
    assert len(ours["messages"]) == len(theirs["messages"])


def assert_same_queues(ours: Image, theirs: Image) -> None:
    """The same units in the same places. RocketMQ also lists queues that never had one; they do not count."""
    mine = {name: queue for name, queue in ours["queues"].items() if queue["max"] > 0}
    other = {
        name: {"min": queue["min"], "max": queue["max"], "units": [unit[:3] for unit in queue["units"]]}
        for name, queue in theirs["queues"].items()
        if queue["max"] > 0
    }
    assert mine.keys() == other.keys()
    for name in mine:
        assert mine[name] == other[name], name


def assert_queues_follow_log(image: Image, *, rebuilt_by: str = "") -> None:
    """In RocketMQ's reading the queues hold exactly one right unit for each message that gets one.

    ``rebuilt_by``: the release whose recovery after a crash wrote units. 4.9 recovers before it has read the
    delay levels, so its own units of delayed messages carry the hash of the tag instead of the due time.
    """
    wanted: dict[str, list[list[int]]] = defaultdict(list)
    for message in image["messages"]:
        if has_unit(message):
            unit = [message["queueOffset"], message["physicalOffset"], message["size"], _tags_code(message)]
            wanted[f"{message['topic']}@{message['queueId']}"].append(unit)
    found = {name: queue["units"] for name, queue in image["queues"].items() if queue["units"]}
    assert found.keys() == wanted.keys()
    for name, units in wanted.items():
        if rebuilt_by.startswith("4.") and name.startswith(corpus.SCHEDULE_TOPIC):
            assert [unit[:3] for unit in found[name]] == [unit[:3] for unit in units], name
        else:
            assert found[name] == units, name


def has_unit(message: dict[str, Any]) -> bool:
    """Half messages and rollbacks of the old design are in the log only."""
    return message["sysFlag"] & 0xC not in (PREPARED, ROLLBACK)


def _tags_code(message: dict[str, Any]) -> int:
    if message["topic"] == corpus.SCHEDULE_TOPIC:
        due: int = message["storeTimestamp"] + LEVEL_MS[int(message["properties"]["DELAY"])]
        return due
    code = 0
    units = (message["tags"] or "").encode("utf-16-be")
    for i in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def offsets_by_key(image: Image) -> dict[tuple[str, str], list[int]]:
    """Where each (topic, key) of the log is: what an index has to know."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for message in image["messages"]:
        if message["sysFlag"] & 0xC != ROLLBACK:
            keys = {message["properties"].get("UNIQ_KEY", ""), *(message["keys"] or "").split(" ")} - {""}
            for key in keys:
                places[message["topic"], key].append(message["physicalOffset"])
    return places


def key_requests(image: Image) -> list[str]:
    return [key_request(topic, key) for topic, key in offsets_by_key(image)]


def assert_java_finds_keys(image: Image) -> None:
    """RocketMQ finds each message by each of its keys. It compares hashes only, so others may come along."""
    places = offsets_by_key(image)
    answers = {(query["topic"], query["key"]): query["physicalOffsets"] for query in image["indexQueries"]}
    for question, offsets in places.items():
        right = [offset for offset in answers[question] if offset in offsets]
        if len(offsets) <= QUERY_MAX:
            assert right == offsets, question
        else:
            assert len(right) == QUERY_MAX, question


def _without_bodies(messages: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    return ({name: value for name, value in message.items() if name != "body"} for message in messages)
