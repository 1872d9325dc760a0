"""The verbs of ``flaremq store``: what they print, in which form, with which exit code."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.cli import failure
from flaremq.storage.message_store import MessageStore
from tests.support.cli import flaremq
from tests.support.store_lab import TOPIC, StoreLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[StoreLab]:
    bench = StoreLab(tmp_path / "store")
    yield bench
    bench.finish()


@pytest.fixture
def closed(lab: StoreLab) -> StoreLab:
    """Six messages in two queues, one of them not text, closed cleanly."""
    lab.open()
    for number in range(5):
        lab.put(b"body %d" % number, queue_id=number % 2, tags="t", keys=["k", f"k{number}"])
    lab.put(b"\xff\xfe", topic="raw")
    lab.close()
    return lab


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# dump


def test_dump_prints_json_lines_in_physical_order(closed: StoreLab) -> None:
    done = flaremq("store", "dump", closed.root)
    assert (done.code, done.err) == (0, "")
    found = rows(done.out)
    assert [row["physicalOffset"] for row in found] == sorted(int(str(row["physicalOffset"])) for row in found)
    assert [row.get("body") for row in found] == ["body 0", "body 1", "body 2", "body 3", "body 4", None]


def test_dump_filters_by_topic_queue_and_physical_range(closed: StoreLab) -> None:
    every = rows(flaremq("store", "dump", closed.root).out)
    by_queue = rows(flaremq("store", "dump", closed.root, "--topic", TOPIC, "--queue-id", 1).out)
    assert by_queue == [row for row in every if (row["topic"], row["queueId"]) == (TOPIC, 1)]
    start, end = every[1]["physicalOffset"], every[4]["physicalOffset"]
    assert rows(flaremq("store", "dump", closed.root, "--from", start, "--to", end).out) == every[1:4]


def test_dump_shows_bodies_as_asked(closed: StoreLab) -> None:
    encoded = rows(flaremq("store", "dump", closed.root, "--body", "base64").out)
    assert base64.b64decode(str(encoded[-1]["body"])) == b"\xff\xfe"
    assert all("body" not in row for row in rows(flaremq("store", "dump", closed.root, "--body", "none").out))


def test_dump_as_json_is_one_array(closed: StoreLab) -> None:
    assert len(json.loads(flaremq("store", "dump", closed.root, "-o", "json").out)) == 6
    assert json.loads(flaremq("store", "dump", closed.root, "-o", "json", "--topic", "none").out) == []


def test_dump_steps_over_damage_names_it_and_ends_with_4(closed: StoreLab) -> None:
    closed.broken_on_purpose = True
    victim = rows(flaremq("store", "dump", closed.root).out)[2]
    closed.damage_log(int(str(victim["physicalOffset"])) + 90)
    done = flaremq("store", "dump", closed.root)
    assert done.code == 4
    assert len(rows(done.out)) == 5
    assert f"physical offsets {victim['physicalOffset']} to" in done.err and "Traceback" not in done.err


def test_markup_in_a_body_is_shown_as_it_is(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"[bold]not bold[/bold]")
    lab.close()
    assert "[bold]" in flaremq("store", "dump", lab.root, "-o", "table").out


# info


def test_info_has_the_documented_shape(closed: StoreLab) -> None:
    info = json.loads(flaremq("store", "info", closed.root).out)
    assert {"minOffset", "maxOffset", "files"} <= info["commitLog"].keys()
    assert [(q["topic"], q["queueId"], q["minOffset"], q["maxOffset"]) for q in info["queues"]] == [
        (TOPIC, 0, 0, 3),
        (TOPIC, 1, 0, 2),
        ("raw", 0, 0, 1),
    ]
    assert info["closedCleanly"] is True and info["recovery"]["needed"] is False
    assert info["checkpoint"]["physicMsgTimestamp"] > 0
    assert info["index"]["files"][0]["used"] == 10


def test_info_of_a_killed_store_says_what_opening_would_do(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    lab.kill()
    info = json.loads(flaremq("store", "info", lab.root).out)
    assert info["closedCleanly"] is False
    assert info["recovery"]["needed"] is True
    assert info["recovery"]["logEnd"] == info["commitLog"]["maxOffset"]


def test_info_with_page_cache_tells_the_share_in_memory(closed: StoreLab) -> None:
    info = json.loads(flaremq("store", "info", closed.root, "--page-cache").out)
    shares = [file["inMemory"] for file in info["commitLog"]["files"]]
    shares += [queue["inMemory"] for queue in info["queues"]]
    assert shares and all(0.0 <= share <= 1.0 for share in shares)


def test_info_as_table_and_as_one_line(closed: StoreLab) -> None:
    table = flaremq("store", "info", closed.root, "-o", "table").out
    assert "closed cleanly" in table and "maxOffset" in table and TOPIC in table
    assert len(flaremq("store", "info", closed.root, "-o", "jsonl").out.splitlines()) == 1


# verify


def test_verify_of_a_healthy_store_ends_with_0(closed: StoreLab) -> None:
    done = flaremq("store", "verify", closed.root)
    assert done.code == 0
    result = json.loads(done.out)
    assert result["findings"] == [] and result["summary"]["healthy"] is True
    assert result["summary"]["records"] == 6


def test_verify_of_a_damaged_store_ends_with_4_and_names_the_place(closed: StoreLab) -> None:
    closed.broken_on_purpose = True
    closed.damage_log(90)
    done = flaremq("store", "verify", closed.root)
    assert done.code == 4
    finding = json.loads(done.out)["findings"][0]
    assert (finding["kind"], finding["path"], finding["offset"]) == (
        "record-damaged",
        str(closed.log_files()[0]),
        0,
    )
    table = flaremq("store", "verify", closed.root, "-o", "table")
    assert table.code == 4 and "record-damaged" in table.out
    lines = rows(flaremq("store", "verify", closed.root, "-o", "jsonl").out)
    assert lines[-1].keys() == {"summary"} and lines[0]["kind"] == "record-damaged"


def test_verify_with_warnings_only_ends_with_1(closed: StoreLab) -> None:
    closed.broken_on_purpose = True
    (closed.root / "commitlog" / "stranger").write_bytes(b"x")
    assert flaremq("store", "verify", closed.root).code == 1


# query


def test_query_prints_the_messages_with_a_key(closed: StoreLab) -> None:
    done = flaremq("store", "query", closed.root, "--topic", TOPIC, "--key", "k", "--max", 2)
    assert done.code == 0
    assert [row["body"] for row in rows(done.out)] == ["body 3", "body 4"]
    none = flaremq("store", "query", closed.root, "--topic", TOPIC, "--key", "absent")
    assert (none.code, none.out) == (1, "") and f"no message of topic {TOPIC} has the key absent" in none.err


def test_query_takes_times_as_people_write_them(closed: StoreLab) -> None:
    ask = ("store", "query", closed.root, "--topic", TOPIC, "--key", "k")
    everything = flaremq(*ask).out
    assert everything and flaremq(*ask, "--begin", "earliest", "--end", "2126-01-01T00:00Z").out == everything
    assert flaremq(*ask, "--end", "1971-01-01").out == ""
    assert flaremq(*ask, "--begin", "soon").code == 2


def test_query_takes_a_time_range(closed: StoreLab) -> None:
    times = [row["storeTimestamp"] for row in rows(flaremq("store", "dump", closed.root).out)]
    done = flaremq(
        "store", "query", closed.root, "--topic", TOPIC, "--key", "k", "--begin", times[1], "--end", times[2]
    )
    assert [row["body"] for row in rows(done.out)] == ["body 1", "body 2"]


def test_index_sizes_come_from_set_or_from_a_broker_conf(closed: StoreLab, tmp_path: Path) -> None:
    ask = ("store", "query", closed.root, "--topic", TOPIC, "--key", "k1")
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\nmaxHashSlotNum=16\nmaxIndexNum=64\n")
    assert len(rows(flaremq(*ask, "-c", conf).out)) == 1
    assert len(rows(flaremq(*ask, "--set", "maxHashSlotNum=16", "--set", "maxIndexNum=64").out)) == 1
    wrong = flaremq(*ask, "--set", "maxHashSlotNum=17")
    assert wrong.code == 2 and "17 slots" in wrong.err


# recover and rescue


def test_recover_repairs_a_killed_store_and_reports(lab: StoreLab) -> None:
    lab.open()
    put = lab.put_many(3)[-1]
    lab.kill()
    before = {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()}
    dry = flaremq("store", "recover", lab.root, "--dry-run")
    assert dry.code == 0 and json.loads(dry.out)["dryRun"] is True
    assert {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()} == before
    done = flaremq("store", "recover", lab.root)
    assert done.code == 0
    assert json.loads(done.out)["logEnd"] == put.physical_offset + put.size
    assert not lab.abort.exists()
    assert flaremq("store", "verify", lab.root).code == 0


def test_recover_keeps_damage_in_the_middle_and_ends_with_4(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(4)
    lab.kill()
    lab.broken_on_purpose = True
    (lab.root / "flaremq.offsets").unlink()
    lab.damage_log(puts[1].physical_offset + 90)
    done = flaremq("store", "recover", lab.root)
    assert done.code == 4
    assert json.loads(done.out)["damagedRanges"][0]["start"] == puts[1].physical_offset
    with MessageStore.open(lab.root, lab.options, threads=False) as store:
        assert store.max_offset(TOPIC, 0) == 4


def test_rescue_writes_a_healthy_store_elsewhere(closed: StoreLab, tmp_path: Path) -> None:
    closed.broken_on_purpose = True
    closed.damage_log(90)
    done = flaremq("store", "rescue", closed.root, "--to", tmp_path / "new")
    assert done.code == 1, "a message is lost"
    assert done.err.startswith("flaremq: 1 message(s) are lost, 1 range(s) of the log hold no record: lostRanges")
    report = json.loads(done.out)
    assert (report["records"], report["lostMessages"]) == (5, 1)
    assert flaremq("store", "verify", tmp_path / "new").code == 0
    again = flaremq("store", "rescue", closed.root, "--to", tmp_path / "new")
    assert again.code == 2 and "not empty" in again.err
    table = flaremq("store", "rescue", closed.root, "--to", tmp_path / "other", "-o", "table")
    assert table.code == 1 and "lostRanges" in table.out


# What is refused


@pytest.mark.parametrize("verb", ["info", "dump", "verify", "recover"])
def test_a_store_in_use_is_refused_with_3(lab: StoreLab, verb: str) -> None:
    lab.open()
    lab.put()
    command = [sys.executable, "-m", "flaremq", "store", verb, str(lab.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert str(lab.root) in done.stderr and "stop it first" in done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", [f"commitlog/{0:020d}", f"consumequeue/{TOPIC}/0/{0:020d}", "checkpoint"])
def test_a_pipe_in_the_place_of_a_file_is_damage_and_blocks_nobody(closed: StoreLab, name: str) -> None:
    closed.broken_on_purpose = True
    (closed.root / name).unlink()
    os.mkfifo(closed.root / name)
    command = [sys.executable, "-m", "flaremq", "store", "verify", str(closed.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (failure.FAILED, failure.DAMAGED), done.stdout + done.stderr
    assert name in done.stdout + done.stderr


def test_a_path_that_is_no_store_is_wrong_usage(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        done = flaremq("store", "info", path)
        assert (done.code, done.out) == (2, "")
        assert str(path) in done.err and done.err.count("\n") == 1


def test_unknown_options_and_bad_values_are_refused_with_a_hint(closed: StoreLab) -> None:
    unknown = flaremq("store", "info", closed.root, "--set", "maxHashSlotNumm=1")
    assert unknown.code == 2 and "did you mean maxHashSlotNum" in unknown.err
    bad = flaremq("store", "info", closed.root, "--set", "maxHashSlotNum=many")
    assert bad.code == 2 and "maxHashSlotNum" in bad.err
    no_value = flaremq("store", "info", closed.root, "--set", "maxHashSlotNum")
    assert no_value.code == 2 and "key=value" in no_value.err


def test_no_verb_that_reads_needs_permission_to_write(closed: StoreLab) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    for path in [closed.root, *closed.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert flaremq("store", "verify", closed.root).code == 0
    finally:
        for path in [closed.root, *closed.root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("verb", [["info"], ["query", "--topic", TOPIC, "--key", "none"]], ids=lambda verb: verb[0])
def test_looking_into_a_clean_store_loads_no_library_of_arrays(verb: list[str], lab: StoreLab) -> None:
    # They take longer to load than the look itself.
    lab.open()
    lab.put_many(3)
    lab.close()
    code = "import sys; from flaremq.cli.main import run; run(sys.argv[1:]); "
    code += "sys.exit(str({'numpy', 'pyarrow', 'asyncio', 'rich'} & sys.modules.keys()))"
    line = [sys.executable, "-c", code, "store", verb[0], str(lab.root), *verb[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "set()", done.stderr
