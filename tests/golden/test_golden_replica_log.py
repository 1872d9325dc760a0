"""Logs of real masters in a replica of ours: the same bytes, and after a failover the cut that RocketMQ makes."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.replica_lab import Log, feed, log_of

HA = Path(__file__).parent / "ha"
FILE_SIZE = 1 << 20
OPTIONS = StoreOptions(
    broker_role="SLAVE", mapped_file_size_commit_log=FILE_SIZE, max_hash_slot_num=2000, max_index_num=8000
)
EPOCH_2 = 1_144_516  # where the second master of the controller recording began


def recorded(name: str) -> bytes:
    """A log as it was recorded, without the zeros that some recordings have behind it."""
    data, at = lzma.decompress((HA / name).read_bytes()), 0
    while at < len(data) and (size := int.from_bytes(data[at : at + 4], "big")):
        at += size
    return data[:at]


@pytest.mark.parametrize("name", sorted(path.name for path in HA.glob("*.log.xz")))
def test_the_log_of_a_real_master_is_kept_byte_for_byte(tmp_path: Path, name: str) -> None:
    data = recorded(name)
    for _ in range(2):  # the second time it is all there
        with MessageStore.open(tmp_path, OPTIONS, threads=False, driven=True) as store:
            driver = store.driver()
            feed(driver, Log(0, data, FILE_SIZE), records_max=40)
            driver.sync()
            driver.dispatch()
            assert log_of(driver).data == data
            assert sum(store.max_offset(*key) for key in store.queues()) > 40
            assert store.check() == []
    files = sorted((tmp_path / "commitlog").iterdir())
    assert b"".join(path.read_bytes() for path in files).rstrip(b"\0") == data.rstrip(b"\0")


def test_a_returning_master_is_cut_where_rocketmq_cuts_it_and_follows(tmp_path: Path) -> None:
    successor = recorded("55-controller.log.xz")
    lost = recorded("55-controller-lost-tail.xz")
    with MessageStore.open(tmp_path, OPTIONS, threads=False, driven=True) as store:
        feed(store.driver(), Log(0, successor[:EPOCH_2] + lost, FILE_SIZE))
        store.driver().sync()
        store.driver().dispatch()
        before = {key: store.max_offset(*key) for key in store.queues()}
    with MessageStore.open(tmp_path, OPTIONS, threads=False, driven=True, cut_at=EPOCH_2) as store:
        driver = store.driver()
        assert driver.appended == EPOCH_2
        assert sum(before.values()) - sum(store.max_offset(*key) for key in store.queues()) == 20
        feed(driver, Log(0, successor, FILE_SIZE))
        driver.sync()
        driver.dispatch()
        assert log_of(driver).data == successor
        assert store.check() == []
    [saved] = (tmp_path / "flaremq.saved").iterdir()
    assert saved.read_bytes() == lost
