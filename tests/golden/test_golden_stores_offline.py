"""The offline view of every golden store is what RocketMQ itself reads from it, and leaves no trace.

The manifests hold what the Java version that wrote a store reads back, for killed stores after its own
recovery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.outlook import outlook_of
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.cli import flaremq
from tests.support.golden import GoldenStore, golden_names, open_golden

GoldenOpener = Callable[[str], GoldenStore]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenOpener:
    """Golden stores unpacked once; these tests only read them."""
    unpacked: dict[str, GoldenStore] = {}

    def opener(name: str) -> GoldenStore:
        if name not in unpacked:
            unpacked[name] = open_golden(name, tmp_path_factory.mktemp(name))
        return unpacked[name]

    return opener


every_store = pytest.mark.parametrize("name", golden_names())


@every_store
def test_dump_prints_every_message_of_the_manifest_field_for_field(name: str, golden: GoldenOpener) -> None:
    store = golden(name)
    done = flaremq("store", "dump", store.root)
    assert (done.code, done.err) == (0, "")
    printed = [json.loads(line) for line in done.out.splitlines()]
    assert len(printed) == len(store.messages)
    for found, expected in zip(printed, store.messages, strict=True):
        if "body" not in expected:  # the manifests leave out long bodies, the dump does not
            found.pop("body", None)
        assert found == expected


@every_store
def test_log_extent_and_fillers_are_those_of_the_manifest(name: str, golden: GoldenOpener) -> None:
    manifest = golden(name).manifest
    with StoreReader.open(golden(name).root) as reader:
        survey = reader.survey
        assert reader.log_end == survey.end
    assert (survey.min_offset, survey.end) == (
        manifest["commitLog"]["minPhyOffset"],
        manifest["commitLog"]["maxPhyOffset"],
    )
    assert survey.records == manifest["messageCount"]
    assert survey.damaged == ()
    assert [{"physicalOffset": b.physical_offset, "size": b.size} for b in survey.blanks] == manifest["blanks"]


@every_store
def test_info_tells_the_queue_ranges_of_the_manifest(name: str, golden: GoldenOpener) -> None:
    store = golden(name)
    done = flaremq("store", "info", store.root)
    assert done.code == 0
    info = json.loads(done.out)
    found = {f"{q['topic']}@{q['queueId']}": (q["minOffset"], q["maxOffset"]) for q in info["queues"]}
    # Java makes a queue object for every queue it is asked about; those without a folder are empty.
    expected = {key: (queue["min"], queue["max"]) for key, queue in store.manifest["queues"].items()}
    assert {key: found.get(key, (0, 0)) for key in expected} == expected
    assert found.keys() <= expected.keys()
    assert info["commitLog"]["maxOffset"] == store.manifest["commitLog"]["maxPhyOffset"]
    assert info["closedCleanly"] is not store.manifest["abortFilePresent"]
    assert list(info["checkpoint"].values()) == store.manifest["checkpointRawFirst6"]
    assert info["recovery"]["needed"] is store.manifest["abortFilePresent"]


@every_store
def test_queue_units_are_those_of_the_manifest(name: str, golden: GoldenOpener) -> None:
    store = golden(name)
    with StoreReader.open(store.root) as reader:
        outlook = outlook_of(reader)
        for queue in reader.queues:
            expected = store.manifest["queues"][f"{queue.topic}@{queue.queue_id}"]
            first = outlook.queues[queue.topic, queue.queue_id].min_offset
            units = [
                [u.queue_offset, u.physical_offset, u.size, u.tags_code, *([u.message_count] * (u.message_count > 1))]
                for u in queue.units()
                if u.is_real and u.queue_offset >= first
            ]
            if reader.closed_cleanly:
                assert units == expected["units"]
            else:  # recovery dispatches what the queue does not have yet
                assert units == expected["units"][: len(units)]
        assert outlook.undispatched_messages == sum(
            len(expected["units"]) for expected in store.manifest["queues"].values()
        ) - sum(
            len([u for u in queue.units() if u.is_real and _is_served(u, outlook, queue)]) for queue in reader.queues
        )


def _is_served(unit: Any, outlook: Any, queue: Any) -> bool:
    return bool(unit.queue_offset >= outlook.queues[queue.topic, queue.queue_id].min_offset)


@every_store
def test_queries_find_exactly_the_messages_with_the_key(name: str, golden: GoldenOpener) -> None:
    """RocketMQ's answers, without its hash collisions and without what it misses by rounding to seconds."""
    store = golden(name)
    with StoreReader.open(store.root) as reader:
        for query in store.manifest["indexQueries"]:
            key = query["key"]
            expected = [
                message["physicalOffset"]
                for message in store.messages
                if message["topic"] == query["topic"]
                and query["begin"] <= message["storeTimestamp"] <= query["end"]
                and key in (message["properties"].get("UNIQ_KEY"), *message["properties"].get("KEYS", "").split(" "))
            ][-query["maxNum"] :]
            found = reader.query(query["topic"], key, query["maxNum"], query["begin"], query["end"])
            assert [message.physical_offset for message in found] == expected


@every_store
def test_index_sizes_are_found_without_options(name: str, golden: GoldenOpener) -> None:
    with StoreReader.open(golden(name).root) as reader:
        assert {index.geometry for index in reader.indexes} == {IndexGeometry(200, 800)}


@every_store
def test_verify_finds_nothing_wrong(name: str, golden: GoldenOpener) -> None:
    store = golden(name)
    with StoreReader.open(store.root) as reader:
        verifier = StoreVerifier(reader)
        findings = list(verifier.findings())
    assert [finding for finding in findings if finding.severity is not Severity.NOTE] == []
    assert verifier.summary.records == store.manifest["messageCount"]
    if store.manifest["abortFilePresent"]:
        assert "not-closed" in {finding.kind for finding in findings}
    else:
        assert findings == []


@every_store
def test_reading_a_store_changes_nothing_in_it(name: str, golden: GoldenOpener) -> None:
    root = golden(name).root
    before = _picture(root)
    first = golden(name).messages[0]
    for arguments in (
        ("info", root, "--page-cache"),
        ("dump", root, "--body", "none"),
        ("verify", root),
        ("query", root, "--topic", first["topic"], "--key", first["properties"].get("UNIQ_KEY", "none")),
        ("recover", root, "--dry-run"),
    ):
        assert flaremq("store", *arguments).code == 0
    assert _picture(root) == before


def test_a_log_in_two_folders_is_found_without_options_and_with_them(golden: GoldenOpener) -> None:
    store = golden("rmq53-multipath")
    given = flaremq("store", "info", store.root, "--set", f"storePathCommitLog={store.options['storePathCommitLog']}")
    found = flaremq("store", "info", store.root)
    assert json.loads(given.out) == json.loads(found.out)
    assert len(json.loads(found.out)["commitLog"]["paths"]) == 2


@pytest.mark.parametrize("name", [name for name in golden_names() if name.endswith("-killed")])
def test_recovery_of_a_killed_store_does_what_was_foretold(name: str, tmp_path: Path) -> None:
    store = open_golden(name, tmp_path)
    foretold = json.loads(flaremq("store", "recover", store.root, "--dry-run").out)
    done = json.loads(flaremq("store", "recover", store.root).out)
    for key in ("logEnd", "truncatedBytes", "damagedRanges"):
        assert done[key] == foretold[key]
    assert done["dispatchedFrom"] == foretold["redispatchFrom"]
    with StoreReader.open(store.root) as reader:
        assert list(StoreVerifier(reader).findings()) == []
        assert [MessageExt(record).physical_offset for _, record in reader.records()] == [
            message["physicalOffset"] for message in store.messages
        ]


def _picture(root: Path) -> dict[str, tuple[int, int, str]]:
    """Names, lengths, modification times and contents of everything below a folder."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and path.stat().st_size < 1 << 20 else "",
        )
        for path in sorted(root.rglob("*"))
    }
