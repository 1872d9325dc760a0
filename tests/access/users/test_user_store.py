"""The file of users: durable before it is seen, refused when damaged or readable by others, followed when edited."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from flaremq.access.users.policy import Acl, parse_policies
from flaremq.access.users.tables import Tables
from flaremq.access.users.user import User, UserStatus, UserType
from flaremq.access.users.user_store import UserStore
from flaremq.errors import CorruptionError, FlareMQError, InvalidArgumentError, StoreIOError

SECRET = "marked-secret-51"
ENTRY = {"resource": "Topic:a*", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"], "decision": "Deny"}


def fill(tables: Tables) -> Tables:
    policies = parse_policies([{"policyType": "Default", "entries": [ENTRY]}, {"entries": [ENTRY, ENTRY]}])
    users = [User("root", SECRET, UserType.SUPER), User("äpp", "geheim-ß", status=UserStatus.DISABLE)]
    return Tables.of(users, [Acl("äpp", policies)])


@pytest.fixture
def store(tmp_path: Path) -> UserStore:
    store = UserStore(tmp_path)
    store.change(fill)
    return store


def document(store: UserStore) -> dict[str, Any]:
    return json.loads(Path(store.path).read_bytes())  # type: ignore[no-any-return]


def rewrite(store: UserStore, data: bytes) -> None:
    """As an editor does: in place, so that the mode stays."""
    Path(store.path).write_bytes(data)


# Writing


def test_what_was_written_is_read_back(store: UserStore, tmp_path: Path) -> None:
    again = UserStore(tmp_path).tables
    assert (again.users, again.acls) == (store.tables.users, store.tables.acls)
    assert again.accounts["root"].secret == SECRET.encode() and again.accounts["root"].is_super
    assert not again.accounts["äpp"].is_enabled


def test_the_file_is_its_owners_alone(store: UserStore) -> None:
    assert os.stat(store.path).st_mode & 0o777 == 0o600


def test_a_folder_without_a_file_has_no_users_and_gets_no_file(tmp_path: Path) -> None:
    store = UserStore(tmp_path / "new")
    assert not store.tables.users and not store.tables.has_super
    store.change(lambda tables: tables)
    assert not Path(store.path).exists()
    store.change(fill)
    assert UserStore(tmp_path / "new").tables.has_super


def test_the_first_change_makes_the_folder_durable_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    UserStore(tmp_path / "one" / "two").change(fill)
    assert {str(tmp_path), str(tmp_path / "one"), str(tmp_path / "one" / "two")} <= set(synced)


def test_an_edit_that_fails_changes_neither_file_nor_tables(store: UserStore) -> None:
    before, data = store.tables, Path(store.path).read_bytes()

    def fail(tables: Tables) -> Tables:
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        store.change(fail)
    assert store.tables is before and Path(store.path).read_bytes() == data


def test_tables_change_only_after_the_file_is_in_place(store: UserStore, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watched(path: str, data: bytes) -> None:
        seen.append("new" in store.tables.users)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("flaremq.access.users.user_store.replace_file", watched)
    with pytest.raises(StoreIOError, match="Input/output"):
        store.change(lambda tables: tables.with_user(User("new", "p")))
    assert seen == [False] and "new" not in store.tables.users


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_breaks_off_leaves_the_old_file_whole(
    store: UserStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = Path(store.path).read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(StoreIOError):
            store.change(lambda tables: tables.with_user(User("new", "p")))
    assert Path(store.path).read_bytes() == before
    assert os.listdir(tmp_path) == ["users.json"]
    assert UserStore(tmp_path).tables.users == store.tables.users


# Reading


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_file_that_others_may_use_is_refused_with_what_to_do(store: UserStore, tmp_path: Path, mode: int) -> None:
    os.chmod(store.path, mode)
    with pytest.raises(InvalidArgumentError, match=f"mode 0{mode:o}.*chmod 600 {store.path}"):
        UserStore(tmp_path)


def test_a_file_cut_anywhere_is_refused(store: UserStore, tmp_path: Path) -> None:
    data = Path(store.path).read_bytes()
    for length in range(len(data) - 1):  # the last byte is a line feed
        rewrite(store, data[:length])
        with pytest.raises(CorruptionError) as caught:
            UserStore(tmp_path)
        assert store.path in str(caught.value) and SECRET not in str(caught.value)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with one value replaced, or with ... removed."""
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place: Any = document
    for key in keys:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("version", 2, "version that is not 1"),
        ("version", ..., "no version"),
        ("users", ..., "no users"),
        ("users", {}, "users is not a list"),
        ("acls", ..., "no acls"),
        ("user", [], "not known: 'user'"),
        ("users.0", SECRET, r"users\[0\]: a user is not an object"),
        ("users.0.password", ..., r"users\[0\]: a user has no password"),
        ("users.0.password", 5, r"users\[0\]: password is not a text"),
        ("users.0.password", " ", r"users\[0\]: password can not be blank"),
        ("users.0.password", "******", r"users\[0\]: \*\*\*\*\*\* stands for a password"),
        ("users.0.username", "", r"users\[0\]: username"),
        ("users.0.pasword", SECRET, r"users\[0\]: a user has a key that is not known: 'pasword'"),
        ("users.1.userStatus", "disabled", r"users\[1\]: .*enable or disable"),
        ("users.1.userType", "Root", r"users\[1\]: .*Super or Normal"),
        ("users.1.username", "root", r"users\[1\]: the user 'root' once more"),
        ("acls.0.subject", "Role:x", r"acls\[0\]: the subject"),
        ("acls.0.subject", "User:gone", r"acls\[0\]: policies of the user 'gone', who does not exist"),
        ("acls.0.policies", [], r"acls\[0\]: The policies is empty"),
        ("acls.0.policies.0.policyType", "Costum", r"acls\[0\]: .*Custom nor Default"),
        ("acls.0.policies.0.entries.0.decision", "Alow", r"acls\[0\]: The decision"),
        ("acls.0.policies.0.entries.0.actions", ["Pub", "Fly"], r"acls\[0\]: The action"),
        ("acls.0.policies.0.entries.0.resource", "Any:x", r"acls\[0\]: The resource"),
        ("acls.0.policies.0.entries.0.sourceIp", ["10.0.0.1"], r"acls\[0\]: .*not known: 'sourceIp'"),
    ],
)
def test_a_file_that_says_anything_unknown_is_refused_as_a_whole(
    store: UserStore, tmp_path: Path, path: str, value: Any, reason: str
) -> None:
    rewrite(store, json.dumps(changed(document(store), path, value)).encode())
    with pytest.raises(CorruptionError, match=reason) as caught:
        UserStore(tmp_path)
    assert store.path in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"version":1,"users":[],"users":[],"acls":[]}']
)
def test_what_is_no_such_document_is_refused(store: UserStore, tmp_path: Path, data: bytes) -> None:
    rewrite(store, data)
    with pytest.raises(CorruptionError, match=r"users\.json"):
        UserStore(tmp_path)


# Edited by hand


def test_an_edited_file_is_taken_over_as_a_whole(store: UserStore) -> None:
    assert not store.poll()
    rewrite(store, json.dumps(changed(document(store), "users.1.userStatus", "Enable")).encode())
    assert store.poll() and not store.poll()
    assert store.tables.accounts["äpp"].is_enabled
    edited = document(store)
    del edited["users"][1], edited["acls"][0]
    rewrite(store, json.dumps(edited).encode())
    assert store.poll()
    assert store.tables.users.keys() == store.tables.accounts.keys() == {"root"} and not store.tables.rules


def test_a_change_of_ours_is_not_taken_for_one_by_hand(store: UserStore) -> None:
    store.change(lambda tables: tables.with_user(User("new", "p")))
    assert not store.poll()


def test_a_broken_edit_keeps_the_old_users_and_is_reported_once_per_error(
    store: UserStore, caplog: pytest.LogCaptureFixture
) -> None:
    before, good = store.tables, Path(store.path).read_bytes()
    for data in (good[:-20], good[:-20], b"null", b"null "):
        rewrite(store, data)
        assert not store.poll() and not store.poll()
    assert store.tables is before
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2
    assert SECRET not in caplog.text
    rewrite(store, good)
    assert store.poll() and store.tables.users == before.users


def test_no_change_is_made_on_top_of_a_broken_edit(store: UserStore) -> None:
    good = Path(store.path).read_bytes()
    for polled in (False, True):
        rewrite(store, good[:-20])
        if polled:
            store.poll()
        with pytest.raises(FlareMQError):
            store.change(lambda tables: tables.with_user(User("new", "p")))
        assert Path(store.path).read_bytes() == good[:-20] and "new" not in store.tables.users


def test_a_change_keeps_what_was_edited_just_before(store: UserStore) -> None:
    rewrite(store, json.dumps(changed(document(store), "users.1.userStatus", "enable")).encode())
    store.change(lambda tables: tables.with_user(User("new", "p")))
    assert store.tables.accounts["äpp"].is_enabled and "new" in store.tables.users


def test_a_mode_that_is_repaired_is_noticed(store: UserStore, caplog: pytest.LogCaptureFixture) -> None:
    edited = json.dumps(changed(document(store), "users.1.userStatus", "enable")).encode()
    os.chmod(store.path, 0o644)
    rewrite(store, edited)
    assert not store.poll() and "chmod 600" in caplog.text
    os.chmod(store.path, 0o600)
    assert store.poll() and store.tables.accounts["äpp"].is_enabled


def test_a_file_that_is_gone_keeps_the_users_and_comes_back_with_the_next_change(
    store: UserStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.unlink(store.path)
    assert not store.poll() and not store.poll()
    assert caplog.text.count("is gone") == 1 and "root" in store.tables.users
    store.change(lambda tables: tables.with_user(User("new", "p")))
    assert UserStore(tmp_path).tables.users.keys() == {"root", "äpp", "new"}
