"""Changes by requests: what they do to the files, and when they take effect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from flaremq.access.needs import Action
from flaremq.access.plain import acl_file
from flaremq.access.plain.changes import AccountChange
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, StoreIOError
from tests.access.plain.acl_lab import ONE, PLAIN, AclLab, group, topic

NEW = AccountChange(
    access_key="rocketmq-new1",
    secret_key="12345678",
    white_remote_address="192.168.0.*",
    default_topic_perm="DENY",
    default_group_perm="SUB",
    topic_perms=("topicA=DENY", "topicB=PUB|SUB"),
    group_perms=("groupA=SUB",),
)


def content(lab: AclLab, name: str) -> dict[str, Any]:
    """A file as any YAML parser sees it."""
    document = yaml.safe_load(lab.path(name).read_text())
    assert isinstance(document, dict)
    return document


def account(lab: AclLab, key: str, name: str = "plain_acl.yml") -> dict[str, Any]:
    return next(entry for entry in content(lab, name)["accounts"] if entry["accessKey"] == key)


def test_new_account_is_in_effect_and_in_the_default_file_at_once(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.store.put_account(NEW)
    for seen in (lab, lab.reopen()):
        assert seen.secret("rocketmq-new1") == "12345678"
        assert seen.verdict("rocketmq-new1", topic("topicB", Action.PUB), group("any", Action.SUB)) == ""
        assert seen.verdict("rocketmq-new1", topic("topicA", Action.PUB)) != ""
        assert seen.judge.trusts("192.168.0.9", "rocketmq-new1")
    assert account(lab, "rocketmq-new1") == {
        "accessKey": "rocketmq-new1",
        "secretKey": "12345678",
        "whiteRemoteAddress": "192.168.0.*",
        "admin": False,
        "defaultTopicPerm": "DENY",
        "defaultGroupPerm": "SUB",
        "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
        "groupPerms": ["groupA=SUB"],
    }
    assert lab.store.poll() is False  # its own change is no news


def test_given_fields_replace_those_in_the_file_and_admin_always_does(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    before = account(lab, "rocketmq-adm2")
    lab.store.put_account(AccountChange(access_key="rocketmq-adm2", secret_key="adm2-secret-2"))
    assert account(lab, "rocketmq-adm2") == {**before, "secretKey": "adm2-secret-2", "admin": False}
    others = {entry["accessKey"]: entry for entry in yaml.safe_load(PLAIN)["accounts"]}
    for key in set(others) - {"rocketmq-adm2"}:
        entry = account(lab, key)
        assert {**others[key], "admin": others[key].get("admin", False)} == entry


def test_account_is_changed_in_the_file_that_has_it(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    plain = lab.path("plain_acl.yml").read_bytes()
    lab.store.put_account(AccountChange(access_key="rocketmq-twice", secret_key="twice-dir-2"))
    assert lab.secret("rocketmq-twice") == lab.reopen().secret("rocketmq-twice") == "twice-dir-2"
    assert lab.path("plain_acl.yml").read_bytes() == plain


def test_deleted_account_is_in_no_file_any_more(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.store.delete_account("rocketmq-twice")
    assert lab.secret("rocketmq-twice") is None  # and not the one that the other file had
    assert lab.reopen().secret("rocketmq-twice") is None
    assert lab.secret("rocketmq-dir1") == "dir1-secret-1"
    with pytest.raises(NotFoundError, match="rocketmq-twice"):
        lab.store.delete_account("rocketmq-twice")


def test_version_counts_changes_and_tells_their_time(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    assert [version.counter for version in lab.store.versions().values()] == [0, 0, 0]
    lab.store.put_account(NEW)
    lab.clock.advance(5)
    lab.store.set_white_list(["10.0.0.1"])
    assert content(lab, "plain_acl.yml")["dataVersion"] == [{"counter": 2, "timestamp": lab.clock.now_ms()}]
    assert lab.store.version() == lab.reopen().store.version()
    assert [version.counter for version in lab.store.versions().values()] == [0, 0, 2]


def test_changed_file_is_for_its_owner_alone_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.store.put_account(NEW)
    assert lab.path("plain_acl.yml").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "conf") == ["plain_acl.yml"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AccountChange(access_key="abc", secret_key="MARKED-secret"), "length should longer than 6"),
        (AccountChange(access_key="rocketmq-new1", secret_key="MARKED"), "length should longer than 6"),
        (AccountChange(access_key="rocketmq-app", secret_key="******"), "stands for a secret"),
        (AccountChange(access_key="rocketmq-new1", secret_key="MARKED-\x00secret"), "printable"),
        (AccountChange(access_key="rocketmq-\ud800", secret_key="MARKED-secret"), "printable"),
        (AccountChange(access_key="k" * 2000, secret_key="MARKED-secret"), "longer than 1024"),
        (
            AccountChange(access_key="rocketmq-new1", secret_key="MARKED-secret", topic_perms=("t=READ",)),
            "Parse resource permission error for t=READ.\nThe expected permissions are 'SUB' or",
        ),
        (
            AccountChange(access_key="rocketmq-new1", secret_key="MARKED-secret", group_perms=("g",)),
            "Parse resource format error for g.",
        ),
        (
            AccountChange(access_key="rocketmq-new1", secret_key="MARKED-secret", default_topic_perm="ALL"),
            "Parse resource permission error for ALL.",
        ),
        (
            AccountChange(access_key="rocketmq-new1", secret_key="MARKED-secret", white_remote_address="10.0.0.300"),
            "address pattern",
        ),
    ],
)
def test_what_no_account_may_have_changes_nothing(tmp_path: Path, change: AccountChange, message: str) -> None:
    lab = AclLab(tmp_path)
    before = lab.path("plain_acl.yml").read_bytes()
    with pytest.raises(InvalidArgumentError) as caught:
        lab.store.put_account(change)
    assert message in str(caught.value)
    assert "MARKED" not in str(caught.value) + repr(change)
    assert lab.path("plain_acl.yml").read_bytes() == before


@pytest.mark.parametrize(
    "text", ["# hash", "a: b: c7", "'quoted'", '"both"\\n', "schlüssel-€", "*anchor", "yes: no", " edge "]
)
def test_any_printable_secret_survives_the_file(tmp_path: Path, text: str) -> None:
    lab = AclLab(tmp_path)
    secret = text + "12345"
    lab.store.put_account(AccountChange(access_key=f"key-{text}", secret_key=secret))
    assert lab.secret(f"key-{text}") == lab.reopen().secret(f"key-{text}") == secret


# White lists


def test_white_list_of_the_default_file_is_replaced(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.store.set_white_list(["10.10.104.*", "10.0.0.{1,2}"])
    for seen in (lab, lab.reopen()):
        assert seen.judge.trusts("10.10.104.1", None)
        assert seen.judge.trusts("10.0.0.2", None)
        assert not seen.judge.trusts("10.10.103.1", None)
    lab.store.set_white_list([])
    assert not lab.reopen().judge.trusts("10.10.104.1", None)


def test_bad_pattern_changes_nothing(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    with pytest.raises(InvalidArgumentError):
        lab.store.set_white_list(["10.0.0.1", "everywhere"])
    assert not lab.judge.trusts("10.0.0.1", None)
    assert lab.store.version().counter == 0


def test_white_list_of_a_named_file_in_use_is_replaced(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.store.set_white_list(["10.20.0.1"], str(lab.path("acl/sub/../one.yml")))
    assert content(lab, "acl/one.yml")["globalWhiteRemoteAddresses"] == ["10.20.0.1"]
    assert lab.judge.trusts("10.20.0.1", None)
    assert lab.secret("rocketmq-dir1") == "dir1-secret-1"


def test_file_that_is_not_in_use_is_never_touched(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path / "home")
    other = tmp_path / "other.yml"
    other.write_text("accounts: []\n")
    other.chmod(0o600)
    beside = lab.write("beside.yml", "accounts: []\n")
    home = lab.home
    named = [
        other,
        beside,
        home / "conf/acl/../../../other.yml",
        "/no/such/file.yml",
        home / "conf",
        "conf/acl/one.yml",
    ]
    for path in map(str, named):
        with pytest.raises(NotFoundError, match="is not an ACL file"):
            lab.store.set_white_list(["10.20.0.1"], path)
    assert other.read_text() == beside.read_text() == "accounts: []\n"


def test_link_stays_a_link(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    target = lab.write("real/accounts", ONE)
    lab.path("acl").mkdir()
    os.symlink(target, lab.path("acl/one.yml"))
    lab.store.put_account(AccountChange(access_key="rocketmq-dir1", secret_key="dir1-secret-2"))
    assert lab.path("acl/one.yml").is_symlink()
    assert "dir1-secret-2" in target.read_text()
    assert lab.secret("rocketmq-dir1") == "dir1-secret-2"


def test_link_out_of_the_home_folder_is_read_and_not_written(tmp_path: Path) -> None:
    lab = AclLab(tmp_path / "home")
    outside = tmp_path / "outside.yml"
    outside.write_text(ONE)
    outside.chmod(0o600)
    lab.path("acl").mkdir()
    os.symlink(outside, lab.path("acl/one.yml"))
    assert lab.store.poll() is True
    with pytest.raises(InvalidArgumentError, match="outside of"):
        lab.store.put_account(AccountChange(access_key="rocketmq-dir1", secret_key="dir1-secret-2"))
    assert outside.read_text() == ONE
    assert lab.secret("rocketmq-dir1") == "dir1-secret-1"


# What goes wrong on the way


def test_change_starts_from_the_files_as_they_are_now(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.write("plain_acl.yml", PLAIN.replace("app-secret-1", "app-secret-2"))  # and nobody has looked yet
    lab.store.put_account(NEW)
    assert lab.secret("rocketmq-app") == lab.reopen().secret("rocketmq-app") == "app-secret-2"


def test_nothing_is_changed_while_a_file_is_broken(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.write("acl/one.yml", "accounts: [")
    before = lab.path("plain_acl.yml").read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"one\.yml"):
        lab.store.put_account(NEW)
    assert lab.path("plain_acl.yml").read_bytes() == before
    assert lab.secret("rocketmq-new1") is None


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_change_that_cannot_be_written_is_not_in_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    lab = AclLab(tmp_path)
    before = lab.path("plain_acl.yml").read_bytes()

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(StoreIOError, match="No space left"):
            lab.store.put_account(NEW)
    assert lab.secret("rocketmq-new1") is None
    assert lab.path("plain_acl.yml").read_bytes() == before
    assert os.listdir(tmp_path / "conf") == ["plain_acl.yml"]
    lab.store.put_account(NEW)
    assert lab.secret("rocketmq-new1") == "12345678"


def test_deletion_that_ends_between_two_files_leaves_the_account_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = AclLab.recorded(tmp_path)
    write = acl_file.write_file
    written: list[str] = []

    def write_once(path: str, data: bytes) -> None:
        if written:
            raise StoreIOError("write", path, OSError(5, "Input/output error"))
        written.append(path)
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(acl_file, "write_file", write_once)
        with pytest.raises(FlareMQError):
            lab.store.delete_account("rocketmq-twice")
    assert lab.secret("rocketmq-twice") == lab.reopen().secret("rocketmq-twice") == "twice-dir-1"
    assert lab.store.poll() is True  # the file that was written is looked at
    lab.store.delete_account("rocketmq-twice")
    assert lab.reopen().secret("rocketmq-twice") is None


# What is shown


def test_no_secret_is_shown(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    shown = lab.store.to_config()
    assert {entry["secretKey"] for entry in shown["plainAccessConfigs"]} == {"******"}
    assert "-secret-" not in str(shown)


def test_migrated_accounts_are_those_in_use(tmp_path: Path) -> None:
    migrated = {entry.access_key: entry for entry in AclLab.recorded(tmp_path).store.migrated()}
    assert migrated["rocketmq-twice"].secret_key == "twice-dir-1"
    assert migrated["rocketmq-adm2"].is_admin
    app = migrated["rocketmq-app"]
    assert app.topic_perms == (("both", "PUB|SUB"), ("pubOnly", "PUB"), ("subOnly", "SUB"), ("denied", "DENY"))
    assert app.group_perms == (("goodGroup", "SUB"), ("badGroup", "DENY"))
    assert (app.default_topic_perm, migrated["rocketmq-dir1"].default_group_perm) == ("DENY", "")
