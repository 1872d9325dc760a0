"""What two threads may do to one store at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flaremq import Message, MessageStore, StoreOptions
from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.storage.dispatch.dispatcher import Dispatcher
from flaremq.storage.log.flush import GroupCommit
from flaremq.storage.runtime.health import RunningFlag
from tests.support.store_lab import StoreLab

OPTIONS = StoreOptions(
    flush_disk_type="ASYNC_FLUSH",
    mapped_file_size_commit_log=16_384,
    mapped_file_size_consume_queue=2_000,
    max_hash_slot_num=16,
    max_index_num=64,
    delete_file_batch_max=100,
)


def test_two_deletions_at_once_leave_a_store_that_opens(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, OPTIONS) as store:
        for number in range(200):
            store.put(Message("t", bytes(2000), keys=str(number)))
        store.wait_for_dispatch()
        threads = [threading.Thread(target=store.delete_expired, kwargs={"force": True}) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
        assert names[0] == f"{store.min_physical_offset:020d}"
    with MessageStore.open(tmp_path, OPTIONS) as store:
        assert store.put(Message("t", b"x")).ok


def test_any_error_of_dispatch_stops_puts_until_it_works_again(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = lab.open()
    lab.put()
    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "run", _broken)
        store.put(Message("t", b"x"))
        assert store.health & RunningFlag.LOGIC_QUEUE_ERROR
        assert not store.put(Message("t", b"y")).ok
    store.tick()
    assert store.put(Message("t", b"z")).ok


def _broken(*_: object, **__: object) -> None:
    raise CorruptionError("on purpose")


def test_interrupted_waiter_hands_the_sync_on() -> None:
    started, go_on = threading.Event(), threading.Event()
    synced: list[int] = []

    def sync() -> int:
        started.set()
        go_on.wait(20)
        synced.append(1)
        return 10 * len(synced)

    commit = GroupCommit(sync, 0)
    leader = threading.Thread(target=commit.wait, args=(10,))
    leader.start()
    started.wait(20)
    waiter = threading.Thread(target=commit.wait, args=(20, 0.01))  # gives up, like one that is interrupted
    waiter.start()
    waiter.join(20)
    go_on.set()
    leader.join(20)
    assert commit.wait(20, 20)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put_many("t", ["text"]),
        lambda store: store.put(Message("t", b"x"), "0"),
        lambda store: store.query("t", "k", max_count=0),
    ],
)
def test_wrong_arguments_get_a_typed_error(lab: StoreLab, call: object) -> None:
    store = lab.open()
    lab.put()
    with pytest.raises(InvalidArgumentError):
        call(store)  # type: ignore[operator]
