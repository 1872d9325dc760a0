"""A store closed cleanly by us opens in every pinned RocketMQ release, which reads back all of it.

Each variant is written once; each release reads a copy of it once, and the tests look at that one reading
from different sides. 4.9 knows no records of the second version, so long topics are for 5.x only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop import compare, corpus, java_store, ours
from tests.interop.java_store import Image, get_request, time_request

pytestmark = pytest.mark.interop

MESSAGES = range(700)
VARIANTS = {
    "plain": {},
    "record checksum and IPv6 store host": {"enabledAppendPropCRC": "true", "brokerIP1": "fd00::5"},
    "long topics": {},
}


@dataclass(frozen=True, slots=True)
class Written:
    root: Path
    options: dict[str, str]
    acks: list[corpus.Ack]
    image: Image
    long_topics: bool


@dataclass(frozen=True, slots=True)
class Reading:
    written: Written
    image: Image


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    @functools.cache
    def write(variant: str) -> Written:
        root = tmp_path_factory.mktemp("ours") / "store"
        options = {**ours.SMALL_FILES, **VARIANTS[variant]}
        long_topics = variant == "long topics"
        acks = ours.write(root, options, MESSAGES, long_topics=long_topics)
        with ours.open_store(root, options) as store:
            image = ours.image_of(store, root)
        return Written(root, options, acks, image, long_topics)

    return write


@pytest.fixture(scope="module")
def readings() -> dict[tuple[str, str], Reading]:
    return {}


@pytest.fixture(params=VARIANTS)
def reading(
    request: pytest.FixtureRequest,
    version: str,
    written: Callable[[str], Written],
    readings: dict[tuple[str, str], Reading],
) -> Reading:
    variant: str = request.param
    if variant == "long topics" and version.startswith("4."):
        pytest.skip("4.9 cannot read records of the second version")
    if (version, variant) not in readings:
        store = written(variant)
        questions = compare.key_requests(store.image) + _reads(store.image) + _times(store.image)
        readings[version, variant] = Reading(
            store, java_store.read(version, store.root, store.options, requests=questions)
        )
    return readings[version, variant]


def test_rocketmq_loads_our_store_as_cleanly_closed(reading: Reading) -> None:
    assert reading.image["loadResult"] is True
    assert reading.image["abortFilePresent"] is False
    assert reading.image["commitLog"] == reading.written.image["commitLog"]


def test_files_rolled_in_every_part_of_the_store(reading: Reading) -> None:
    root = reading.written.root
    assert len(list((root / "commitlog").iterdir())) > 3
    assert len(list((root / "consumequeue" / "InteropA" / "0").iterdir())) > 2
    assert len(list((root / "index").iterdir())) > 2
    assert len(reading.image["blanks"]) >= 3


def test_rocketmq_reads_every_field_of_every_message(reading: Reading) -> None:
    compare.assert_acknowledged(reading.written.acks, reading.image, long_topics=reading.written.long_topics)
    assert reading.image["messageCount"] == sum(len(ack.message_ids) for ack in reading.written.acks)
    compare.assert_same_log(reading.written.image, reading.image)


def test_rocketmq_reads_every_queue_unit(reading: Reading) -> None:
    compare.assert_queues_follow_log(reading.image)
    compare.assert_same_queues(reading.written.image, reading.image)


def test_rocketmq_finds_every_key_in_our_index(reading: Reading) -> None:
    compare.assert_java_finds_keys(reading.image)


def test_rocketmq_get_answers_with_the_messages_of_the_queue(reading: Reading) -> None:
    for name, answers in reading.image["getMessage"].items():
        high = reading.written.image["queues"][name]["max"]
        for answer in answers:
            assert (answer["minOffset"], answer["maxOffset"]) == (0, high), (name, answer)
            wanted = "OFFSET_OVERFLOW_ONE" if answer["offset"] == high else "FOUND"
            assert answer["status"] == wanted, (name, answer)
            assert (answer["messageCount"] > 0) == (answer["offset"] < high), (name, answer)


def test_rocketmq_finds_offsets_by_store_time(reading: Reading) -> None:
    times = {message["physicalOffset"]: message["storeTimestamp"] for message in reading.image["messages"]}
    for name, answers in reading.image["offsetsByTime"].items():
        units = reading.image["queues"][name]["units"]
        for answer in answers:
            if "upper" in answer:  # 5.x: the first and the last unit of that time; 4.9 answers by file times
                same = [unit[0] for unit in units if times[unit[1]] == answer["ts"]]
                assert (answer["lower"], answer["upper"]) == (same[0], same[-1]), (name, answer)


def _reads(image: Image) -> list[str]:
    lines = []
    for name, queue in image["queues"].items():
        topic, _, queue_id = name.rpartition("@")
        lines += [get_request(topic, int(queue_id), offset) for offset in (*range(0, queue["max"], 25), queue["max"])]
    return lines


def _times(image: Image) -> list[str]:
    """For some units of each queue: which offsets have this store time?"""
    times = {message["physicalOffset"]: message["storeTimestamp"] for message in image["messages"]}
    lines = []
    for name, queue in image["queues"].items():
        topic, _, queue_id = name.rpartition("@")
        lines += [time_request(topic, int(queue_id), times[unit[1]]) for unit in queue["units"][::20]]
    return lines
