"""Files of ``config``: what a crash, a bad disk or a mistake of ours leaves of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import CorruptionError, RemoteProtocolError, StoreIOError
from flaremq.java_json import parse_java_json
from flaremq.storage.config.config_file import ConfigFile, render, render_entry, render_integers
from flaremq.storage.files.filesystem import LocalFileSystem
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash

PATH = "/store/config/x.json"


def as_is(document: dict[str, Any]) -> dict[str, Any]:
    return document


def opened(folder: Path) -> ConfigFile:
    return ConfigFile(LocalFileSystem(), str(folder / "x.json"))


def test_first_load_finds_nothing_and_says_nothing(tmp_path: Path) -> None:
    file = opened(tmp_path)
    assert file.load(as_is) is None
    assert file.complaints == []


def test_saved_document_is_loaded_again(tmp_path: Path) -> None:
    file = opened(tmp_path / "config")
    file.load(as_is)
    file.save({"a": 1})
    assert opened(tmp_path / "config").load(as_is) == {"a": 1}


def test_previous_version_stays_as_the_backup(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.load(as_is)
    for number in range(3):
        file.save({"a": number})
    assert parse_java_json((tmp_path / "x.json").read_bytes()) == {"a": 2}
    assert parse_java_json((tmp_path / "x.json.bak").read_bytes()) == {"a": 1}


def test_save_of_the_same_content_keeps_the_backup_apart(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.load(as_is)
    file.save({"a": 1})
    file.save({"a": 2})
    file.save({"a": 2})
    assert parse_java_json((tmp_path / "x.json.bak").read_bytes()) == {"a": 1}


def test_save_before_load_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":1}')
    with pytest.raises(AssertionError, match="before it was loaded"):
        opened(tmp_path).save({})
    assert (tmp_path / "x.json").read_text() == '{"a":1}'


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\x00\x00\x00", b'{"a":"\xff"}', b'{"bad":true}'])
def test_damaged_file_gives_way_to_its_backup_and_says_so(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x.json").write_bytes(damage)
    (tmp_path / "x.json.bak").write_text('{"a":1}')
    file = opened(tmp_path)
    assert file.load(picky) == {"a": 1}
    assert len(file.complaints) == 1
    assert "x.json.bak was loaded instead" in file.complaints[0]


def picky(document: dict[str, Any]) -> dict[str, Any]:
    if "bad" in document:
        raise RemoteProtocolError("bad must not be")
    return document


def test_missing_file_gives_way_to_its_backup_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.json.bak").write_text('{"a":1}')
    file = opened(tmp_path)
    assert file.load(as_is) == {"a": 1}
    assert "does not exist" in file.complaints[0]


def test_damaged_file_never_becomes_the_backup(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"{damaged")
    (tmp_path / "x.json.bak").write_text('{"a":1}')
    file = opened(tmp_path)
    file.load(as_is)
    file.save({"a": 2})
    assert parse_java_json((tmp_path / "x.json").read_bytes()) == {"a": 2}
    assert parse_java_json((tmp_path / "x.json.bak").read_bytes()) == {"a": 1}
    assert (tmp_path / "x.json.damaged").read_bytes() == b"{damaged"


def test_damaged_file_without_backup_starts_empty_and_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"{damaged")
    file = opened(tmp_path)
    assert file.load(as_is) is None
    assert "it starts empty" in file.complaints[0]
    file.save({"a": 1})
    assert (tmp_path / "x.json.damaged").read_bytes() == b"{damaged"
    assert not (tmp_path / "x.json.bak").exists()


@pytest.mark.parametrize("main", [None, b"{damaged"])
def test_damaged_backup_stops_the_start(tmp_path: Path, main: bytes | None) -> None:
    if main is not None:
        (tmp_path / "x.json").write_bytes(main)
    (tmp_path / "x.json.bak").write_bytes(b"{damaged too")
    with pytest.raises(CorruptionError, match=r"x\.json\.bak"):
        opened(tmp_path).load(as_is)


def test_good_file_does_not_care_about_its_backup(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":1}')
    (tmp_path / "x.json.bak").write_bytes(b"{damaged")
    file = opened(tmp_path)
    assert file.load(as_is) == {"a": 1}
    assert file.complaints == []


def test_power_cut_at_any_call_leaves_the_old_or_the_new_content() -> None:
    """Three saves, a crash at each call of the third, and every subset of what was not durable yet."""
    at = 0
    survivors = set()
    while True:
        at += 1
        disk = CrashFS()
        file = ConfigFile(disk, PATH)
        file.load(as_is)
        file.save({"a": 1})
        file.save({"a": 2})
        disk.faults = [Fault(kind="crash", at=disk.calls + at)]
        try:
            file.save({"a": 3})
            finished = True
        except SimulatedCrash:
            finished = False
        for seed in range(40):
            after = ConfigFile(disk.crash(seed), PATH)
            document = after.load(as_is)
            assert document in ([{"a": 3}] if finished else [{"a": 2}, {"a": 3}]), f"crash at {at}, seed {seed}"
            assert after.complaints == []
            survivors.add(document["a"])
        if finished:
            break
    assert survivors == {2, 3}


def test_full_disk_leaves_the_old_content_and_the_next_save_succeeds() -> None:
    disk = CrashFS()
    file = ConfigFile(disk, PATH)
    file.load(as_is)
    file.save({"a": 1})
    disk.faults = [Fault(kind="enospc", at=disk.calls + 1)]
    with pytest.raises(StoreIOError):
        file.save({"a": 2})
    assert ConfigFile(disk, PATH).load(as_is) == {"a": 1}
    disk.faults = []
    file.save({"a": 2})
    assert ConfigFile(disk, PATH).load(as_is) == {"a": 2}


def test_document_is_printed_as_rocketmq_5_prints_it() -> None:
    document = {
        "dataVersion": {"counter": 3, "stateVersion": 0},
        "empty": {},
        "list": ["x", "y"],
        "none": [],
        "offsetTable": {"T@G": {0: 5, 1: 7}},
        "text": 'a"b\\c\u00fc',
        "yes": True,
    }
    assert render(document) == (
        '{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0\n\t},\n\t"empty":{},\n'
        '\t"list":[\n\t\t"x",\n\t\t"y"\n\t],\n\t"none":[],\n'
        '\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:5,\n\t\t\t1:7\n\t\t}\n\t},\n'
        '\t"text":"a\\"b\\\\c\u00fc",\n\t"yes":true\n}'
    )


def test_rendered_entry_stands_as_if_it_were_rendered_with_the_rest() -> None:
    entry = {"a": [1], "b": {"c": 2}}
    assert render({"table": {"x": render_entry(entry)}}) == render({"table": {"x": entry}})


@pytest.mark.parametrize("numbers", [{}, {0: 5}, {3: -1, 1: 2**62}])
def test_rendered_numbers_stand_as_if_they_were_rendered_with_the_rest(numbers: dict[int, int]) -> None:
    assert render({"table": {"x": render_integers(numbers)}}) == render({"table": {"x": numbers}})
