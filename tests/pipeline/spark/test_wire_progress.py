"""Progress of a stream under a group's name: at the brokers, or in a store that is closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.java_json import parse_java_json
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.spark.group_progress import ProgressWriter
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.sync import Consumer
from tests.pipeline.wire_lab import WireLab, check_progress, commit_progress, everything, rows


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[WireLab]:
    with WireLab(str(tmp_path)) as lab:
        lab.topic("orders", queues=2)
        lab.send("orders", 9)
        yield lab


def lag(lab: WireLab, group: str) -> dict[int, tuple[int, int]]:
    """Consumer offset and end by queue."""
    table = lab.admin.group_progress(group).offset_table
    return {
        queue.queue_id: (entry.consumer_offset, entry.broker_offset)
        for queue, entry in table.items()
        if queue.topic == "orders"
    }


def test_progress_shows_in_admin_tools(lab: WireLab) -> None:
    spec = SourceSpec(name_server=lab.name_server)
    check_progress(spec, "spark")
    commit_progress(spec, "spark", {"orders": {"broker-a": {0: 4, 1: 0}}})
    assert lag(lab, "spark") == {0: (4, 9), 1: (0, 0)}
    with ProgressWriter(spec, "spark") as writer:
        writer.commit({"orders": {"broker-a": {"0": 7}}})
        writer.commit({"orders": {"broker-a": {"0": 9}}})
    assert lag(lab, "spark") == {0: (9, 9), 1: (0, 0)}
    assert "spark" in lab.admin.list_groups()


def test_progress_of_several_brokers(lab: WireLab) -> None:
    lab.start("broker-b")
    lab.topic("orders", queues=2)
    commit_progress(
        SourceSpec(name_server=lab.name_server), "spark", {"orders": {"broker-a": {0: 1}, "broker-b": {1: 2}}}
    )
    for broker, queue_id, offset in (("broker-a", 0, 1), ("broker-b", 1, 2)):
        place = MessageQueue(topic="orders", broker_name=broker, queue_id=queue_id)
        assert lab.admin.committed("spark", place) == offset


def test_progress_goes_on_after_an_administrators_reset(lab: WireLab) -> None:
    spec = SourceSpec(name_server=lab.name_server)
    commit_progress(spec, "spark", {"orders": {"broker-a": {0: 4}}})
    lab.admin.reset_offset("spark", "orders", 0)
    commit_progress(spec, "spark", {"orders": {"broker-a": {0: 6}}})
    assert lag(lab, "spark")[0] == (6, 9)


def test_group_with_consumers_of_its_own_is_refused(lab: WireLab) -> None:
    refused = pytest.raises(InvalidArgumentError, match="'app' has 1 connected consumers")
    with Consumer(lab.name_server, group="app", subscribe="orders"), refused:
        check_progress(SourceSpec(name_server=lab.name_server), "app")


def test_problems_are_told_at_the_start(lab: WireLab, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'no group' is not legal"):
        check_progress(SourceSpec(name_server=lab.name_server), "no group")
    with pytest.raises(InvalidArgumentError, match="set commitNameServer"):
        check_progress(SourceSpec(archive=str(tmp_path)), "spark")
    store = SourceSpec(paths=(("broker-a", lab.store),))
    with pytest.raises(UnavailableError, match="set commitNameServer"):
        check_progress(store, "spark")
    check_progress(store, "spark", commit_name_server=lab.name_server)
    other = SourceSpec(paths=(("copy", lab.store),))
    with pytest.raises(NotFoundError, match=r"broker 'copy' is unknown .* know broker-a: set brokerName"):
        check_progress(other, "spark", commit_name_server=lab.name_server)
    with pytest.raises(UnavailableError, match="no name server"):
        check_progress(store, "spark", commit_name_server="127.0.0.1:1")


def test_group_that_may_not_be_made_or_consume_is_refused(lab: WireLab) -> None:
    from flaremq.protocol.bodies.group import SubscriptionGroupConfig

    lab.admin.create_group("off", config=SubscriptionGroupConfig(consume_enable=False))
    with pytest.raises(InvalidArgumentError, match="may not consume"):
        check_progress(SourceSpec(name_server=lab.name_server), "off")


def test_progress_in_a_closed_store_is_what_its_broker_starts_with(tmp_path: Path) -> None:
    with WireLab(str(tmp_path)) as lab:
        lab.topic("orders", queues=2)
        lab.send("orders", 9)
        commit_progress(SourceSpec(name_server=lab.name_server), "app", {"orders": {"broker-a": {0: 2}}})
        store = SourceSpec(paths=(("any name", lab.store),))
        with pytest.raises(UnavailableError, match="a broker has it open"):
            commit_progress(store, "spark", {"orders": {"any name": {0: 5}}})
    check_progress(store, "spark")
    commit_progress(store, "spark", {"orders": {"any name": {0: 5, "1": 0}, "elsewhere": {0: 7}}})
    file = tmp_path / "a" / "config" / "consumerOffset.json"
    table = parse_java_json(file.read_bytes())["offsetTable"]
    assert table["orders@app"] == {"0": 2} and table["orders@spark"] == {"0": 5, "1": 0}
    assert b"\t0:5" in file.read_bytes()  # RocketMQ's dialect
    assert "orders@spark" not in parse_java_json((file.parent / "consumerOffset.json.bak").read_bytes())["offsetTable"]
    with WireLab(str(tmp_path)) as lab:
        assert lab.admin.committed("spark", MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)) == 5
        with lab.open() as source:
            assert len(rows(source, everything(source, "orders"))) == 9


def test_progress_in_a_store_without_config_makes_it(tmp_path: Path) -> None:
    commit_progress(SourceSpec(paths=(("b", str(tmp_path)),)), "spark", {"orders": {"b": {3: 1}}})
    document = parse_java_json((tmp_path / "config" / "consumerOffset.json").read_bytes())
    assert document["offsetTable"] == {"orders@spark": {"3": 1}}
    assert document["groupTopicMap"] == {"spark": ["orders"]}


def test_damaged_offsets_of_a_closed_store_are_set_aside(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_text('{"offsetTable": 5}')
    (tmp_path / "config" / "consumerOffset.json.bak").write_text(json.dumps({"offsetTable": {"orders@app": {"0": 1}}}))
    commit_progress(SourceSpec(paths=(("b", str(tmp_path)),)), "spark", {"orders": {"b": {0: 2}}})
    assert parse_java_json(file.read_bytes())["offsetTable"] == {"orders@app": {"0": 1}, "orders@spark": {"0": 2}}
    assert (tmp_path / "config" / "consumerOffset.json.damaged").read_text() == '{"offsetTable": 5}'
