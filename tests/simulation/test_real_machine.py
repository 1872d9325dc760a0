"""The same promises on the machine's own file system: killed processes and a disk that is really full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from tests.simulation.world import small_options

_ROOT = Path(__file__).parents[2]
_SOAK_KILLS = int(os.environ.get("FLAREMQ_KILLS", "500"))


def _run(command: list[str], timeout: int) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    return subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=timeout)


def _kill(folder: Path, kills: int, seed: int, record_property: Callable[[str, object], None]) -> None:
    command = [sys.executable, "-m", "tests.simulation.kill_loop", str(folder / "store")]
    done = _run([*command, "--kills", str(kills), "--seed", str(seed)], timeout=60 + 5 * kills)
    assert done.returncode == 0, f"repeat: {' '.join(command)} --kills {kills} --seed {seed}\n{done.stderr[-3000:]}"
    record_property("kills", kills)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_process_loses_nothing_acknowledged(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    _kill(tmp_path, 10, seed, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_killed_processes_lose_nothing_acknowledged(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    _kill(tmp_path, _SOAK_KILLS // 10, seed, record_property)


def test_a_store_that_is_abandoned_and_opened_again_has_everything_it_acknowledged(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "store", small_options())
    offsets = [
        store.put(Message("orders", b"%d" % number, keys=[f"k{number}"])).physical_offset for number in range(50)
    ]
    store.abandon()
    with MessageStore.open(tmp_path / "store", small_options()) as store:
        assert store.recovery.closed_cleanly is False
        store.wait_for_dispatch(10)
        bodies = [message.body for at in offsets if (message := store.read(at)) is not None]
        assert bodies == [b"%d" % number for number in range(50)]
        assert [message.physical_offset for message in store.query("orders", "k7")] == [offsets[7]]


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="this machine allows no private mount")
def test_a_really_full_disk_refuses_puts_serves_reads_and_recovers(tmp_path: Path) -> None:
    done = _run(["unshare", "-rm", sys.executable, "-m", "tests.simulation.full_disk", str(tmp_path)], timeout=120)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-3000:]}"
    assert "survived" in done.stdout
