"""Files of accounts that several servers share, and those that are somebody else's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq.access.files.folder_lock import folder_lock
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.changes import AccountChange
from flaremq.access.users.changes import create_user
from flaremq.access.users.user_store import UserStore
from flaremq.clock import ManualClock
from flaremq.errors import InvalidArgumentError, UnavailableError

_EACH = 25


def _at_once(*workers: Callable[[], None]) -> None:
    threads = [threading.Thread(target=worker) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_servers_of_one_process_that_share_users_see_a_new_one_at_once(tmp_path: Path) -> None:
    broker, name_server, elsewhere = UserStore(tmp_path), UserStore(tmp_path), UserStore(tmp_path / "elsewhere")
    broker.change(lambda tables: create_user(tables, "app", {"password": "x"}))
    assert "app" in name_server.tables.users
    assert "app" not in elsewhere.tables.users


def test_no_user_that_one_of_two_servers_made_is_lost(tmp_path: Path) -> None:
    def make(first: str) -> Callable[[], None]:
        store = UserStore(tmp_path)

        def work() -> None:
            for number in range(_EACH):
                name = f"{first}{number}"
                store.change(lambda tables, name=name: create_user(tables, name, {"password": "x"}))

        return work

    _at_once(make("a"), make("b"))
    assert len(UserStore(tmp_path).tables.users) == 2 * _EACH


def test_no_account_that_one_of_two_servers_made_is_lost(tmp_path: Path) -> None:
    def make(first: str) -> Callable[[], None]:
        store = PlainAclStore(tmp_path, ManualClock())

        def work() -> None:
            for number in range(_EACH):
                store.put_account(AccountChange(access_key=f"account-{first}{number}", secret_key="secret-1"))

        return work

    _at_once(make("a"), make("b"))
    assert len(PlainAclStore(tmp_path, ManualClock()).snapshot.accounts) == 2 * _EACH


def test_who_holds_the_folder_for_ever_stops_changes_and_nothing_else(tmp_path: Path) -> None:
    with folder_lock(str(tmp_path)):
        with pytest.raises(UnavailableError, match="too long"), folder_lock(str(tmp_path), wait_seconds=0):
            pass
        assert UserStore(tmp_path).poll() is False
    with folder_lock(str(tmp_path), wait_seconds=0):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    store.change(lambda tables: create_user(tables, "app", {"password": "x"}))
    os.chown(store.path, 12345, -1)
    with pytest.raises(InvalidArgumentError, match="belongs to user 12345"):
        UserStore(tmp_path)
    plain = PlainAclStore(tmp_path, ManualClock())
    os.chown(plain.default_path, 12345, -1)
    with pytest.raises(InvalidArgumentError, match="belongs to user 12345"):
        PlainAclStore(tmp_path, ManualClock())


def test_what_is_no_file_or_huge_is_refused_and_nobody_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    os.mkfifo(path, 0o600)
    with pytest.raises(InvalidArgumentError, match="not a file"):
        UserStore(tmp_path)
    path.unlink()
    path.touch(0o600)
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidArgumentError, match="at most"):
        UserStore(tmp_path)
