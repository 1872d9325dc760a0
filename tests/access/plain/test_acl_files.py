"""ACL files: what is read, what is refused, what a reload changes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from flaremq.access.needs import Action
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.clock import ManualClock
from flaremq.errors import FlareMQError, InvalidArgumentError
from tests.access.plain.acl_lab import ONE, PLAIN, AclLab, topic

ACCOUNT = "accessKey: account, secretKey: MARKED-secret"


# Reading


def test_first_file_that_has_a_key_wins_and_conf_acl_comes_first(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    assert lab.secret("rocketmq-twice") == "twice-dir-1"
    assert lab.secret("rocketmq-dir1") == "dir1-secret-1"
    assert lab.secret("rocketmq-dir2") == "dir2-secret-1"
    assert lab.secret("rocketmq-app") == "app-secret-1"
    assert lab.secret("rocketmq-nobody") is None


def test_white_lists_of_all_files_add_up(tmp_path: Path) -> None:
    lab = AclLab(tmp_path, {"plain_acl.yml": PLAIN, "acl/w.yml": "globalWhiteRemoteAddresses: [10.20.0.1]"})
    assert lab.judge.trusts("10.20.0.1", None)
    assert lab.judge.trusts("10.10.103.1", None)


def test_missing_default_file_is_made_without_accounts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = AclLab(tmp_path, {})
    assert lab.path("plain_acl.yml").stat().st_mode & 0o777 == 0o600
    assert "made one without accounts" in caplog.text
    assert not lab.store.snapshot.accounts


def test_missing_default_file_is_not_made_by_who_only_reads(tmp_path: Path) -> None:
    store = PlainAclStore(tmp_path, ManualClock(), makes_default=False)
    assert not store.snapshot.accounts
    assert list(tmp_path.iterdir()) == []


def test_secret_of_digits_is_what_was_written(tmp_path: Path) -> None:
    lab = AclLab(tmp_path, {"plain_acl.yml": "accounts: [{accessKey: RocketMQ, secretKey: 012345670}]"})
    assert lab.secret("RocketMQ") == "012345670"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o601])
def test_file_that_others_may_use_stops_the_start(tmp_path: Path, mode: int) -> None:
    lab = AclLab(tmp_path)
    lab.write("plain_acl.yml", PLAIN, mode=mode)
    with pytest.raises(InvalidArgumentError, match="chmod 600"):
        lab.reopen()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accounts: [{accessKey: short, secretKey: MARKED-secret}]", "length should longer than 6"),
        ("accounts: [{accessKey: account, secretKey: MARKED}]", "length should longer than 6"),
        ("accounts: [{accessKey: account}]", "length should longer than 6"),
        (f"accounts: [{{{ACCOUNT}, admim: true}}]", "unknown field admim"),
        (f"accounts: [{{{ACCOUNT}, admin: perhaps}}]", "admin must be true or false"),
        (f"accounts: [{{{ACCOUNT}, topicPerms: [t]}}]", "Parse resource format error for t"),
        (f"accounts: [{{{ACCOUNT}, topicPerms: t=PUB}}]", "topicPerms must be a list"),
        (f"accounts: [{{{ACCOUNT}, whiteRemoteAddress: 10.0.0.300}}]", "address pattern"),
        (f"accounts: [{{{ACCOUNT}, secretKey: MARKED-secret}}]", "secretKey is there twice"),
        ("accounts: {accessKey: account, secretKey: MARKED-secret}", "accounts must be a list"),
        ("accounts: [MARKED-secret]", "must be a map"),
        ("- MARKED-secret", "not a map"),
        ("acounts: []", "unknown field acounts"),
        ("accounts: []\naccounts: []", "accounts is there twice"),
        ("globalWhiteRemoteAddresses: [MARKED]", "address pattern"),
        ("globalWhiteRemoteAddresses: 10.0.0.1", "must be a list"),
        ("accounts: [{accessKey: account, secretKey: !!python/name:os.system MARKED}]", "tags are not allowed"),
        ("accounts: [&a {accessKey: account, secretKey: MARKED-secret}]", "anchors and references"),
        ("accounts: [{accessKey: account, secretKey: *MARKED}]", "anchors and references"),
        ("accounts: []\n---\naccounts: []", "second document"),
        ("accounts: [[[[[[[[[[[[]]]]]]]]]]]]", "nested too deeply"),
        ("accounts:\n- accessKey: account\n  secretKey: 'MARKED-secret", "line "),
        ("accounts:\n- accessKey: account\n\tsecretKey: MARKED-secret", "line "),
        ("accounts:\n- accessKey: account\n  secretKey: @MARKED-secret", "line 3"),
        ("accounts:\n- accessKey: account\n  secretKey:MARKED-secret", "line "),
        ("dataVersion: [{counter: many}]", "must be numbers"),
        ("dataVersion: 7", "dataVersion must be a list"),
    ],
)
def test_broken_file_stops_the_start_and_its_secret_is_not_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        AclLab(tmp_path, {"plain_acl.yml": text})
    assert message in str(caught.value)
    assert "plain_acl.yml" in str(caught.value)
    if "globalWhite" not in text:
        assert "MARKED" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_file_that_is_not_utf8_or_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.write("acl/a.yml", b"accounts: [\xff]")
    with pytest.raises(InvalidArgumentError, match="byte 11 is not UTF-8"):
        lab.store.reload()
    with open(lab.write("acl/a.yml", b""), "wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(InvalidArgumentError, match="at most"):
        lab.store.reload()
    lab.path("acl/a.yml").unlink()
    os.mkfifo(lab.path("acl/a.yml"), 0o600)
    with pytest.raises(InvalidArgumentError, match="is not a file"):
        lab.store.reload()


def test_unreadable_permission_denies_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = f"accounts: [{{{ACCOUNT}, defaultTopicPerm: PUB, topicPerms: [t=READ]}}]"
    lab = AclLab(tmp_path, {"plain_acl.yml": text})
    assert lab.verdict("account", topic("t", Action.PUB)) != ""
    assert lab.verdict("account", topic("u", Action.PUB)) == ""
    assert "'t=READ' is not a permission and denies" in caplog.text


# Reloading


def test_poll_without_a_change_does_nothing(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    snapshot = lab.store.snapshot
    assert lab.store.poll() is False
    assert lab.store.snapshot is snapshot


def test_change_of_a_file_is_taken_over(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.write("acl/one.yml", ONE.replace("dir1-secret-1", "dir1-secret-2"))
    assert lab.store.poll() is True
    assert lab.secret("rocketmq-dir1") == "dir1-secret-2"
    assert lab.store.poll() is False


def test_new_file_is_found_and_what_is_in_no_file_any_more_is_gone(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    lab.write("acl/deep/er/new.yaml", f"{{accounts: [{{{ACCOUNT}}}], globalWhiteRemoteAddresses: [10.9.9.9]}}")
    lab.path("acl/sub/two.yaml").unlink()
    assert lab.store.poll() is True
    assert lab.secret("account") == "MARKED-secret"
    assert lab.judge.trusts("10.9.9.9", None)
    assert lab.secret("rocketmq-dir2") is None
    lab.path("acl/deep/er/new.yaml").unlink()
    assert lab.store.poll() is True
    assert lab.secret("account") is None
    assert not lab.judge.trusts("10.9.9.9", None)


def test_broken_file_keeps_everything_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = AclLab.recorded(tmp_path)
    before = lab.store.snapshot
    lab.write("plain_acl.yml", PLAIN.replace("app-secret-1", "app-secret-2"))  # a good one beside the broken one
    lab.write("acl/one.yml", ONE + "  - [")
    with caplog.at_level(logging.ERROR):
        assert [lab.store.poll() for _ in range(3)] == [False] * 3
    assert lab.store.snapshot is before
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "one.yml" in errors[0]
    assert "remain" in errors[0]
    lab.write("acl/one.yml", ONE)
    assert lab.store.poll() is True
    assert lab.secret("rocketmq-app") == "app-secret-2"


def test_another_error_is_said_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = AclLab(tmp_path)
    with caplog.at_level(logging.ERROR):
        for text in ("accounts: [", "nothing: []", "accounts: ["):
            lab.write("plain_acl.yml", text)
            lab.store.poll()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 3


def test_no_prefix_of_a_file_that_is_being_written_takes_effect_unless_it_is_a_whole_document(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    text = f"accounts: [{{{ACCOUNT}}}, {{accessKey: another, secretKey: MARKED-secret}}]"
    before = lab.store.snapshot
    for end in range(len(text)):
        if text[:end].rstrip() != "accounts:":
            lab.write("plain_acl.yml", text[:end])
            assert lab.store.poll() is False, text[:end]
            assert lab.store.snapshot is before
    lab.write("plain_acl.yml", text)
    assert lab.store.poll() is True
    assert set(lab.store.snapshot.accounts) == {"account", "another"}


def test_file_emptied_for_a_moment_takes_no_account_away(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    before = lab.store.snapshot
    lab.write("acl/one.yml", "")
    assert lab.store.poll() is False
    lab.write("acl/one.yml", ONE)
    lab.path("plain_acl.yml").rename(lab.path("plain_acl.yml~"))
    assert lab.store.poll() is False
    assert lab.store.snapshot is before
    lab.write("plain_acl.yml", "accounts: []")
    assert lab.store.poll() is True
    assert lab.secret("rocketmq-app") is None


def test_empty_file_is_fine_at_the_start(tmp_path: Path) -> None:
    lab = AclLab(tmp_path, {"plain_acl.yml": "", "acl/one.yml": ONE})
    assert lab.secret("rocketmq-dir1") == "dir1-secret-1"


def test_mode_that_lets_others_read_keeps_the_old_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = AclLab(tmp_path)
    lab.write("plain_acl.yml", PLAIN.replace("app-secret-1", "app-secret-2"), mode=0o644)
    assert lab.store.poll() is False
    assert "chmod 600" in caplog.text
    assert lab.secret("rocketmq-app") == "app-secret-1"
    lab.path("plain_acl.yml").chmod(0o600)
    assert lab.store.poll() is True
    assert lab.secret("rocketmq-app") == "app-secret-2"


def test_hidden_names_and_linked_folders_are_passed_over(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.write("elsewhere/three.yml", ONE)
    lab.write("acl/.hidden.yml", ONE)
    lab.write("acl/.folder/x.yml", ONE)
    lab.write("acl/notes.txt", "accounts: [")
    os.symlink(lab.path("elsewhere"), lab.path("acl/linked"))
    lab.store.reload()
    assert lab.secret("rocketmq-dir1") is None


def test_link_that_leads_nowhere_keeps_the_old_state(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    lab.path("acl").mkdir()
    os.symlink("/no/such/file.yml", lab.path("acl/a.yml"))
    assert lab.store.poll() is False
    with pytest.raises(FlareMQError):
        lab.store.reload()
    assert lab.secret("rocketmq-app") == "app-secret-1"
