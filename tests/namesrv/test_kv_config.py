from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError, StoreIOError
from flaremq.namesrv.kv_config import ORDER_TOPIC_CONFIG, SIZE_MAX, KVConfig


def test_values_survive_a_restart_in_the_form_of_rocketmq(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"

    async def change() -> None:
        config = KVConfig.load(str(path))
        await config.put(ORDER_TOPIC_CONFIG, "T", "broker-a:4;broker-b:4")
        await config.put("ns", "k", "v")
        await config.put("ns", "gone", "x")
        await config.delete("ns", "gone")

    asyncio.run(change())
    assert json.loads(path.read_text()) == {
        "configTable": {ORDER_TOPIC_CONFIG: {"T": "broker-a:4;broker-b:4"}, "ns": {"k": "v"}}
    }
    again = KVConfig.load(str(path))
    assert again.find(ORDER_TOPIC_CONFIG, "T") == "broker-a:4;broker-b:4"
    assert again.find_namespace("ns") == {"k": "v"}
    assert again.find("ns", "gone") is None
    assert again.find_namespace("nowhere") is None


def test_file_of_java_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"AdminT":"broker-a:3"},"GOLD_NS":{}}}')
    config = KVConfig.load(str(path))
    assert config.find(ORDER_TOPIC_CONFIG, "AdminT") == "broker-a:3"
    assert config.find_namespace("GOLD_NS") == {}


@pytest.mark.parametrize("text", ["", "{}", "\n"])
def test_empty_file_is_an_empty_table(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(text)
    assert KVConfig.load(str(path)).find("a", "b") is None


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"configTable":1}', '{"configTable":{"a":1}}'])
def test_damaged_file_is_reported_instead_of_forgotten(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(text)
    with pytest.raises(CorruptionError, match="kvConfig"):
        KVConfig.load(str(path))
    assert path.read_text() == text


def test_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kvConfig.json"

    async def change() -> KVConfig:
        config = KVConfig.load(str(path))
        await config.put("ns", "k", "old")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _no_space)
            with pytest.raises(StoreIOError):
                await config.put("ns", "k", "new")
        return config

    assert asyncio.run(change()).find("ns", "k") == "old"
    assert KVConfig.load(str(path)).find("ns", "k") == "old"


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_new_content_is_synced_before_it_replaces_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        done.append("sync of " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def note_replace(source: str, target: str) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    asyncio.run(KVConfig(str(tmp_path / "kv.json")).put("ns", "k", "v"))
    assert [step.partition(" of kv.json.")[0] for step in done] == ["sync", "rename", f"sync of {tmp_path.name}"]
    assert os.listdir(tmp_path) == ["kv.json"]


def test_concurrent_changes_are_all_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "kv.json")

    async def change() -> None:
        config = KVConfig.load(path)
        await asyncio.gather(*(config.put("ns", f"k{n}", str(n)) for n in range(50)))

    asyncio.run(change())
    assert KVConfig.load(path).find_namespace("ns") == {f"k{n}": str(n) for n in range(50)}


def test_table_has_a_maximum(tmp_path: Path) -> None:
    config = KVConfig(str(tmp_path / "kv.json"))

    async def change() -> None:
        await config.put("ns", "k", "v")
        with pytest.raises(InvalidArgumentError):
            await config.put("ns", "large", "x" * SIZE_MAX)

    asyncio.run(change())
    assert config.find_namespace("ns") == {"k": "v"}
