"""Consumer offsets: what is kept, what is ignored, what a restart finds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.broker.catalog.offset_table import OffsetTable, Table
from flaremq.broker.options import BrokerOptions
from flaremq.java_json import parse_java_json
from tests.support.crash_fs import CrashFS
from tests.support.metadata_lab import MetadataLab


@pytest.fixture
def lab(tmp_path: Path) -> MetadataLab:
    return MetadataLab(tmp_path)


def test_unknown_queue_has_no_offset(lab: MetadataLab) -> None:
    assert lab.offsets.find("G", "T", 0) == -1


def test_committed_offset_is_found_whether_larger_or_smaller_than_before(lab: MetadataLab) -> None:
    for offset in (5, 9, 3, 0):
        assert lab.offsets.commit("G", "T", 1, offset)
        assert lab.offsets.find("G", "T", 1) == offset
    assert lab.offsets.find("G", "T", 0) == -1
    assert lab.offsets.find("H", "T", 1) == -1


def test_negative_commit_is_ignored(lab: MetadataLab) -> None:
    assert not lab.offsets.commit("G", "T", 0, -1)
    assert lab.offsets.find("G", "T", 0) == -1
    lab.offsets.commit("G", "T", 0, 7)
    assert not lab.offsets.commit("G", "T", 0, -1)
    assert lab.offsets.find("G", "T", 0) == 7


def test_reset_is_committed_and_waits_for_one_pull(lab: MetadataLab) -> None:
    lab.offsets.commit("G", "T", 0, 100)
    lab.offsets.reset("G", "T", 0, 10)
    assert lab.offsets.find("G", "T", 0) == 10
    assert lab.offsets.has_reset("G", "T", 0) and not lab.offsets.has_reset("G", "T", 1)
    assert not lab.offsets.commit("G", "T", 0, 101)  # the client does not know yet
    assert lab.offsets.commit("G", "T", 1, 50)
    assert lab.offsets.take_reset("G", "T", 0) == 10
    assert lab.offsets.take_reset("G", "T", 0) is None
    assert lab.offsets.commit("G", "T", 0, 11)
    assert lab.offsets.find("G", "T", 0) == 11


def test_groups_and_topics_are_found_from_either_side(lab: MetadataLab) -> None:
    for group, topic in (("G", "T"), ("G", "U"), ("H", "T")):
        lab.offsets.commit(group, topic, 0, 1)
    assert lab.offsets.topics_of("G") == {"T", "U"} and lab.offsets.topics_of("absent") == set()
    assert lab.offsets.groups_of("T") == {"G", "H"} and lab.offsets.groups_of("absent") == set()
    assert lab.offsets.queues_of("G", "T") == {0: 1} and lab.offsets.queues_of("absent", "T") == {}


def test_removed_group_or_topic_leaves_nothing_behind(lab: MetadataLab) -> None:
    for group, topic in (("G", "T"), ("G", "U"), ("H", "T")):
        lab.offsets.reset(group, topic, 0, 1)
    lab.offsets.remove_group("H")
    lab.offsets.remove_topic("U")
    assert lab.offsets.table() == {"T@G": {0: 1}}
    assert lab.offsets.has_reset("G", "T", 0)
    assert not lab.offsets.has_reset("H", "T", 0) and not lab.offsets.has_reset("G", "U", 0)
    lab.offsets.remove_topic("T")
    assert lab.offsets.table() == {} and lab.offsets.topics_of("G") == set()


def test_cloned_group_stands_where_its_model_stands(lab: MetadataLab) -> None:
    lab.offsets.commit("G", "T", 0, 5)
    lab.offsets.commit("G", "T", 1, 6)
    lab.offsets.commit("G", "U", 0, 7)
    lab.offsets.commit("H", "T", 2, 1)
    lab.offsets.clone("G", "H", "T")
    assert lab.offsets.queues_of("H", "T") == {0: 5, 1: 6, 2: 1}
    assert lab.offsets.topics_of("H") == {"T"}


def test_offsets_beyond_the_data_are_cut_and_reported(lab: MetadataLab) -> None:
    for queue_id, offset in ((0, 5), (1, 10), (2, 11)):
        lab.offsets.commit("G", "T", queue_id, offset)
    lab.offsets.commit("G", "gone", 0, 3)
    sentences = lab.offsets.clamp(lambda topic, queue_id: 10 if topic == "T" else 0)
    assert lab.offsets.table() == {"T@G": {0: 5, 1: 10, 2: 10}, "gone@G": {0: 0}}
    assert sentences == [
        "group G stood at 11 in queue 2 of T, which ends at 10",
        "group G stood at 3 in queue 0 of gone, which ends at 0",
    ]
    lab.offsets.save_now()
    assert lab.reopened().offsets.table() == lab.offsets.table()
    assert lab.offsets.clamp(lambda topic, queue_id: 10) == []


def test_number_of_offsets_is_limited_but_known_queues_go_on(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(consumer_offsets_max=2))
    assert lab.offsets.commit("G", "T", 0, 1) and lab.offsets.commit("G", "T", 1, 1)
    assert not lab.offsets.commit("G", "T", 2, 1) and not lab.offsets.commit("H", "T", 0, 1)
    assert lab.offsets.commit("G", "T", 0, 2)
    assert lab.offsets.table() == {"T@G": {0: 2, 1: 1}}
    lab.offsets.remove_group("G")
    assert lab.offsets.commit("H", "T", 0, 1)
    assert lab.reopened().offsets.commit("H", "T", 0, 1)


def test_only_changes_are_written(lab: MetadataLab) -> None:
    assert not asyncio.run(lab.offsets.persist_if_changed())
    lab.offsets.commit("G", "T", 0, 5)
    assert asyncio.run(lab.offsets.persist_if_changed())
    lab.offsets.commit("G", "T", 0, 5)  # the same again
    lab.offsets.commit("G", "T", 0, -1)
    assert not asyncio.run(lab.offsets.persist_if_changed())
    assert lab.reopened().offsets.find("G", "T", 0) == 5


def test_persisted_offsets_survive_a_power_cut() -> None:
    disk = CrashFS()
    lab = MetadataLab(Path("/store"), files=disk)
    lab.offsets.commit("G", "T", 0, 5)
    asyncio.run(lab.offsets.persist_if_changed())
    lab.offsets.commit("G", "T", 0, 6)
    for seed in range(20):
        assert MetadataLab(Path("/store"), files=disk.crash(seed)).offsets.find("G", "T", 0) == 5


def test_file_of_rocketmq_4_9_and_of_5_are_read_alike(lab: MetadataLab) -> None:
    folder = lab.folder / "config"
    folder.mkdir()
    for text in (
        '{\n\t"offsetTable":{\n\t\t"T@G":{0:543,1:540\n\t\t},\n\t\t"%RETRY%G@G":{0:0\n\t\t}\n\t}\n}',
        '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"groupTopicMap":{"G":["T"]},'
        '"offsetTable":{"T@G":{"0":543,"1":540},"%RETRY%G@G":{"0":0}}}',
    ):
        (folder / "consumerOffset.json").write_text(text)
        assert lab.reopened().offsets.table() == {"T@G": {0: 543, 1: 540}, "%RETRY%G@G": {0: 0}}


def test_keys_that_are_no_pair_are_left_out(lab: MetadataLab) -> None:
    folder = lab.folder / "config"
    folder.mkdir()
    (folder / "consumerOffset.json").write_text('{"offsetTable":{"T":{0:1},"@G":{0:1},"T@":{0:1},"T@G":{0:1,1:-1}}}')
    assert lab.reopened().offsets.table() == {"T@G": {0: 1}}


@pytest.mark.parametrize("text", ['{"offsetTable":[]}', '{"offsetTable":{"T@G":5}}', '{"offsetTable":{"T@G":{"x":1}}}'])
def test_file_of_another_shape_counts_as_damaged(lab: MetadataLab, text: str) -> None:
    folder = lab.folder / "config"
    folder.mkdir()
    (folder / "consumerOffset.json").write_text(text)
    (folder / "consumerOffset.json.bak").write_text('{"offsetTable":{"T@G":{0:4}}}')
    assert lab.reopened().offsets.find("G", "T", 0) == 4


def test_written_file_has_the_form_of_rocketmq_5(lab: MetadataLab) -> None:
    lab.offsets.commit("G", "T", 1, 5)
    lab.offsets.commit("G", "T", 0, 6)
    lab.offsets.save_now()
    assert (lab.folder / "config" / "consumerOffset.json").read_text() == (
        '{\n\t"dataVersion":{\n\t\t"counter":0,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000\n\t},\n'
        '\t"groupTopicMap":{\n\t\t"G":[\n\t\t\t"T"\n\t\t]\n\t},\n'
        '\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t1:5,\n\t\t\t0:6\n\t\t}\n\t},\n\t"pullOffsetTable":{}\n}'
    )


def test_place_of_pulls_is_saved_with_the_offsets(lab: MetadataLab) -> None:
    assert lab.offsets.find_pulled("G", "T", 0) == -1
    lab.offsets.note_pulled("G", "T", 0, 8)
    lab.offsets.note_pulled("G", "T", 0, 9)
    lab.offsets.note_pulled("G", "U", 1, 3)
    assert lab.offsets.find_pulled("G", "T", 0) == 9 and lab.offsets.find("G", "T", 0) == -1
    assert not asyncio.run(lab.offsets.persist_if_changed())  # not worth a write of its own
    lab.offsets.commit("G", "T", 0, 5)
    lab.offsets.save_now()
    again = lab.reopened().offsets
    assert (again.find_pulled("G", "T", 0), again.find_pulled("G", "U", 1)) == (9, 3)
    again.remove_topic("T")
    assert again.find_pulled("G", "T", 0) == -1 and again.find_pulled("G", "U", 1) == 3
    again.remove_group("G")
    assert again.find_pulled("G", "U", 1) == -1


def test_number_of_places_of_pulls_is_limited(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(consumer_offsets_max=1))
    lab.offsets.note_pulled("G", "T", 0, 1)
    lab.offsets.note_pulled("G", "T", 1, 1)
    lab.offsets.note_pulled("G", "T", 0, 2)
    assert lab.offsets.find_pulled("G", "T", 1) == -1 and lab.offsets.find_pulled("G", "T", 0) == 2
    lab.offsets.remove_topic("T")
    lab.offsets.note_pulled("G", "T", 1, 1)
    assert lab.offsets.find_pulled("G", "T", 1) == 1


def test_version_goes_up_every_so_many_commits(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(consumer_offset_update_version_step=3))
    for offset in range(7):
        lab.offsets.commit("G", "T", 0, offset)
    assert lab.offsets.data_version.counter == 2


def test_slaves_read_bare_integer_keys(lab: MetadataLab) -> None:
    lab.offsets.commit("G", "T", 0, 5)
    body = lab.offsets.renderer()()
    assert b'"offsetTable":{"T@G":{0:5}}' in body
    assert parse_java_json(body)["offsetTable"] == {"T@G": {"0": 5}}


names = st.sampled_from(["A", "B", "%RETRY%A"])
commits = st.tuples(names, names, st.integers(0, 3), st.integers(-2, 2**63 - 1))


@given(st.lists(commits))
def test_a_restart_finds_the_last_commit_of_each_queue(history: list[tuple[str, str, int, int]]) -> None:
    lab = MetadataLab(Path("/store"), files=CrashFS())
    model: dict[tuple[str, str, int], int] = {}
    for group, topic, queue_id, offset in history:
        lab.offsets.commit(group, topic, queue_id, offset)
        if offset >= 0:
            model[group, topic, queue_id] = offset
    lab.offsets.save_now()
    again = lab.reopened().offsets
    assert {(g, t, q): again.find(g, t, q) for g, t, q in model} == model
    assert sum(map(len, again.table().values())) == len(model)


# Snapshots

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove group", "remove topic", "snapshot"]),
        st.sampled_from("GH"),
        st.sampled_from("TU"),
        st.integers(0, 2),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(CHANGES)
def test_a_snapshot_stays_as_it_was_whatever_happens_to_the_table(
    changes: list[tuple[str, str, str, int, int]],
) -> None:
    table = OffsetTable({"G": {"T": {0: 7}}})
    model: dict[tuple[str, str, int], int] = {("G", "T", 0): 7}
    snapshots: list[tuple[Table, dict[tuple[str, str, int], int]]] = []

    def flat(groups: Table) -> dict[tuple[str, str, int], int]:
        return {(g, t, q): o for g, topics in groups.items() for t, queues in topics.items() for q, o in queues.items()}

    for change, group, topic, queue_id, offset in changes:
        if change == "put":
            table.put(group, topic, queue_id, offset)
            model[group, topic, queue_id] = offset
        elif change == "remove group":
            table.remove_group(group)
            model = {key: value for key, value in model.items() if key[0] != group}
        elif change == "remove topic":
            table.remove_topic(topic)
            model = {key: value for key, value in model.items() if key[1] != topic}
        else:
            snapshots.append((table.snapshot(), dict(model)))
        assert flat(table.groups) == model and table.count == len(model)
    for snapshot, then in snapshots:
        assert flat(snapshot) == then


def test_a_snapshot_shares_what_has_not_changed_since_the_last_one() -> None:
    table = OffsetTable({"G": {"T": {0: 1}, "U": {0: 1}}, "H": {"T": {0: 1}}})
    first = table.snapshot()
    table.put("G", "T", 0, 2)
    second = table.snapshot()
    assert second["H"] is first["H"] and second["G"]["U"] is first["G"]["U"]
    assert (first["G"]["T"], second["G"]["T"]) == ({0: 1}, {0: 2})
