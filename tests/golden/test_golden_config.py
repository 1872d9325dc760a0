"""The files in ``config`` of golden stores: read whatever RocketMQ wrote, written as RocketMQ 5.5 writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from tests.support.golden import golden_names, open_golden
from tests.support.metadata_lab import MetadataLab

NAMES = golden_names()
VERSION = re.compile(r'"counter":\d+,\n\t\t"stateVersion":0,\n\t\t"timestamp":\d+')


def config(lab: MetadataLab, name: str) -> Any:
    """What Java wrote, or nothing: a broker that was killed early has no such file."""
    path = lab.folder / "config" / f"{name}.json"
    return parse_java_json(path.read_bytes()) if path.exists() else {}


@pytest.fixture(params=NAMES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> MetadataLab:
    return MetadataLab(open_golden(request.param, tmp_path).root)


def test_every_topic_is_read_as_it_was_written(lab: MetadataLab) -> None:
    written = config(lab, "topics").get("topicConfigTable", {})
    assert len(written) >= 10
    for name, value in written.items():
        found = lab.topics.find(name)
        assert found is not None
        assert found.to_value() == {"attributes": {}, **value}


def test_every_group_is_read_as_it_was_written(lab: MetadataLab) -> None:
    for name, value in config(lab, "subscriptionGroup").get("subscriptionGroupTable", {}).items():
        found = lab.groups.get(name)
        assert found is not None
        assert value.items() <= found.to_value().items()


def test_every_offset_is_read_as_it_was_written(lab: MetadataLab) -> None:
    written = config(lab, "consumerOffset").get("offsetTable", {})
    read = {
        key: {str(queue): offset for queue, offset in queues.items()} for key, queues in lab.offsets.table().items()
    }
    assert read == {key: queues for key, queues in written.items() if queues}


def test_every_request_mode_is_read_as_it_was_written(lab: MetadataLab) -> None:
    for topic, groups in config(lab, "messageRequestMode").get("messageRequestModeMap", {}).items():
        for group, value in groups.items():
            assert lab.modes.find(topic, group).to_value() == value


def test_backups_are_as_good_as_the_files(lab: MetadataLab) -> None:
    folder = lab.folder / "config"
    backups = [path for path in folder.glob("*.json.bak") if path.name.startswith(("topics", "consumerOffset"))]
    for backup in backups:
        backup.with_suffix("").write_bytes(b"")
    again = lab.reopened()
    assert len(again.topics) >= 10
    assert set(again.offsets.table()) <= set(lab.offsets.table())


def test_what_is_written_again_says_the_same(lab: MetadataLab) -> None:
    touch(lab)
    again = lab.reopened()
    assert again.topics.all() == lab.topics.all()
    assert again.groups.all() == lab.groups.all()
    assert again.offsets.table() == lab.offsets.table()


@pytest.mark.parametrize("name", ["topics", "subscriptionGroup"])
def test_file_of_5_5_is_written_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    root = open_golden("rmq55-clean", tmp_path).root
    path = root / "config" / f"{name}.json"
    before = path.read_text()
    touch(MetadataLab(root))
    after = path.read_text()
    assert after != before  # the version
    assert VERSION.sub("", after) == VERSION.sub("", before)
    assert path.with_suffix(".json.bak").read_text() == before


def test_offsets_of_5_5_are_written_again_line_for_line(tmp_path: Path) -> None:
    root = open_golden("rmq55-clean", tmp_path).root
    path = root / "config" / "consumerOffset.json"
    before = path.read_text()
    touch(MetadataLab(root))
    after = path.read_text()
    assert after != before
    assert lines(after) == lines(before)


def lines(text: str) -> list[str]:
    """Without the order of entries, which is Java's hash order."""
    return sorted(line.rstrip(",") for line in VERSION.sub("", text).splitlines())


def touch(lab: MetadataLab) -> None:
    """Change every table to and fro, and save it."""
    lab.topics.update(TopicConfig(topic_name="to-and-fro"))
    lab.topics.delete("to-and-fro")
    lab.groups.update(SubscriptionGroupConfig(group_name="to-and-fro"))
    lab.groups.delete("to-and-fro")
    lab.offsets.commit("to-and-fro", "to-and-fro", 0, 1)
    lab.offsets.remove_group("to-and-fro")
    for table in (lab.topics, lab.groups, lab.offsets):
        table.save_now()
