"""``flaremq user``, ``flaremq acl`` and RocketMQ's commands for both systems, against servers that ask who is there."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq import sync
from flaremq.client.credentials import Credentials
from flaremq.errors import FlareMQError
from flaremq.message.message import Message
from tests.support import planted
from tests.support.cli import Outcome, flaremq
from tests.support.guarded_lab import ROOT, GuardedLab
from tests.support.planted import found_in

APP = Credentials(access_key="app", secret_key=planted.CLIENT)


class Root:
    """Command lines of the administrator of a lab."""

    def __init__(self, lab: GuardedLab) -> None:
        self.lab = lab
        self.broker = lab.broker.address

    def run(self, *arguments: object) -> Outcome:
        done = flaremq(*arguments, "-n", self.lab.name_server)
        assert not found_in(done.out + done.err), arguments
        return done

    def ok(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def rows(self, *arguments: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok(*arguments, "-o", "jsonl").splitlines()]

    def mqadmin(self, *arguments: object) -> list[str]:
        return [" ".join(line.split()) for line in self.ok("mqadmin", *arguments).splitlines() if line.strip()]

    def may(self, account: Credentials, topic: str) -> bool:
        """Whether an account may send to a topic, once every server has seen its files."""
        self.lab.look()
        with sync.Producer(self.lab.name_server, credentials=account) as producer:
            try:
                return producer.send(Message(topic, b"x")).ok
            except FlareMQError as error:
                assert not found_in(str(error))
                return False


@pytest.fixture(autouse=True)
def administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", ROOT.secret_key)
    monkeypatch.setenv("APP_PASSWORD", planted.CLIENT)
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with GuardedLab(tmp_path / "users") as lab:
        yield Root(lab)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Root]:
    with GuardedLab(tmp_path / "plain", plain=True) as lab:
        yield Root(lab)


# flaremq user


def test_users_are_created_listed_changed_and_deleted(root: Root) -> None:
    created = json.loads(root.ok("user", "create", "app", "--password", "env:APP_PASSWORD", "-o", "json"))
    assert created == {"user": "app", "type": "Normal", "brokers": [root.broker]}
    listed = {row["user"]: row for row in root.rows("user", "list")}
    assert listed["app"] == {"user": "app", "type": "Normal", "status": "enable", "brokers": [root.broker]}
    assert listed[ROOT.access_key]["type"] == "Super"
    assert root.ok("user", "update", "app", "--disable", "-o", "table") == f"user app is changed on {root.broker}\n"
    assert {row["user"]: row["status"] for row in root.rows("user", "list")}["app"] == "disable"
    root.ok("user", "update", "app", "--enable", "--type", "Super")
    listed = {row["user"]: row for row in root.rows("user", "list")}
    assert (listed["app"]["status"], listed["app"]["type"]) == ("enable", "Super")
    assert root.ok("user", "delete", "app", "-o", "table") == f"user app is deleted on {root.broker}\n"
    assert "app" not in {row["user"] for row in root.rows("user", "list")}


def test_a_password_comes_from_stdin_unless_a_place_is_named(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(planted.CLIENT + "\n"))
    root.ok("user", "create", "app")
    root.ok("acl", "set", "User:app", "Topic:T", "Pub")
    root.ok("topic", "create", "T")
    assert root.may(APP, "T")
    file = tmp_path / "password"
    file.write_text(planted.TOKEN)
    file.chmod(0o600)
    root.ok("user", "update", "app", "--password", f"file:{file}")
    assert not root.may(APP, "T"), "the old one"
    assert root.may(Credentials(access_key="app", secret_key=planted.TOKEN), "T")


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["user", "create", "app", "--password", planted.CLIENT], "--password takes no password", 2),
        (["user", "create", "app", "--password", "env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE", 2),
        (["user", "create", " ", "--password", "env:APP_PASSWORD"], "blank", None),
        (["user", "update", "app"], "nothing to change", 2),
        (["user", "update", "nobody", "--disable"], "nobody", None),
        (["user", "update", "app", "--type", "King"], "King", 2),
        (["acl", "set", "app", "Topic:T", "Pub"], "'app' is no subject: write User:app", 2),
        (["acl", "delete", "app"], "'app' is no subject: write User:app", 2),
        (["acl", "set", "User:", "Topic:T", "Pub"], "'User:' is no subject: write User:NAME", 2),
        (["acl", "set", "User:nobody", "Topic:T", "Pub"], "nobody", None),
        (["acl", "set", "User:root-of-all", "Queue:T", "Pub"], "'Queue:T' is no resource: write Topic:NAME", 2),
        (["acl", "set", "User:root-of-all", "orders", "Pub"], "'orders' is no resource: write Topic:NAME", 2),
        (["acl", "set", "User:root-of-all", "Topic:T", "Pub,Fly"], "'Fly' is no action: there are All", 2),
        (["acl", "set", "User:root-of-all", "Topic:T", ","], "ACTIONS names no action", 2),
        (["acl", "set", "User:root-of-all", "Topic:T", "Pub", "--from", "here"], "source ip", None),
    ],
)
def test_what_cannot_work_is_one_sentence(root: Root, arguments: list[str], words: str, code: int | None) -> None:
    done = root.run(*arguments)
    assert done.code == code if code is not None else done.code in (1, 2, 3), done
    assert done.err.startswith("flaremq: ") and done.err.count("\n") == 1 and words in done.err, done


def test_a_user_may_do_what_policies_say(root: Root) -> None:
    root.ok("topic", "create", "orders")
    root.ok("user", "create", "app", "--password", "env:APP_PASSWORD")
    assert not root.may(APP, "orders")
    told = root.ok("acl", "set", "User:app", "Topic:orders", "Pub,Sub", "-o", "table")
    assert told == f"policy of User:app for Topic:orders is set on {root.broker}\n"
    assert root.may(APP, "orders")
    root.ok("acl", "set", "User:app", "Topic:orders", "Pub", "--deny", "--from", "127.0.0.0/8")
    assert not root.may(APP, "orders")
    (row,) = root.rows("acl", "list", "--subject", "User:app")
    assert row == {
        "subject": "User:app",
        "resource": "Topic:orders",
        "actions": ["Pub"],
        "decision": "Deny",
        "sourceIps": ["127.0.0.0/8"],
        "policyType": "Custom",
        "brokers": [root.broker],
    }
    assert root.rows("acl", "list", "--resource", "Group:") == []
    told = root.ok("acl", "delete", "User:app", "Topic:orders", "-o", "table")
    assert told == f"policy of User:app is deleted on {root.broker}\n"
    assert root.rows("acl", "list", "--subject", "User:app") == []


def test_who_is_no_administrator_changes_nothing(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.ok("user", "create", "app", "--password", "env:APP_PASSWORD")
    root.ok("acl", "set", "User:app", "Cluster:*", "All")
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", "app")
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", planted.CLIENT)
    for arguments in (
        ("user", "list"),
        ("user", "create", "more", "--password", "env:APP_PASSWORD"),
        ("user", "update", "app", "--type", "Super"),
        ("user", "delete", ROOT.access_key),
        ("acl", "set", "User:app", "*", "All"),
    ):
        done = root.run(*arguments)
        assert done.code == 3 and done.err.count("\n") == 1, done


# RocketMQ's spelling, 5.x


def test_mqadmin_manages_users_as_rocketmq_does(root: Root) -> None:
    at = ("-b", root.broker)
    assert root.mqadmin("createUser", *at, "-u", "app", "-p", "env:APP_PASSWORD") == [
        f"create user to {root.broker} success."
    ]
    titles = "#UserName #Password #UserType #UserStatus"
    assert root.mqadmin("getUser", *at, "-u", "app") == [titles, "app ****** Normal enable"]
    assert root.mqadmin("updateUser", *at, "-u", "app", "-s", "disable") == [f"update user to {root.broker} success."]
    assert root.mqadmin("getUser", "-c", "DefaultCluster", "-u", "app")[1] == "app ****** Normal disable"
    assert root.mqadmin("listUser", *at, "-f", "ap") == [titles, "app ****** Normal disable"]
    both = root.run("mqadmin", "updateUser", *at, "-u", "app", "-s", "enable", "-t", "Super")
    assert both.code == 2 and "exactly one of" in both.err
    assert root.mqadmin("deleteUser", *at, "-u", "app") == [f"delete user to {root.broker} success."]
    assert root.mqadmin("getUser", *at, "-u", "app") == []


def test_mqadmin_manages_policies_as_rocketmq_does(root: Root) -> None:
    at = ("-b", root.broker)
    root.mqadmin("createUser", "-c", "DefaultCluster", "-u", "app", "-p", "env:APP_PASSWORD")
    rule = ("-s", "User:app", "-r", "Topic:a,Group:b*", "-a", "Pub,Sub", "-d", "Allow", "-i", "127.0.0.1")
    assert root.mqadmin("createAcl", *at, *rule) == [f"create acl to {root.broker} success."]
    titles = "#Subject #PolicyType #Resource #Actions #SourceIp #Decision"
    assert root.mqadmin("getAcl", *at, "-s", "User:app") == [
        titles,
        "User:app Custom Topic:a [Pub, Sub] [127.0.0.1] Allow",
        "User:app Custom Group:b* [Pub, Sub] [127.0.0.1] Allow",
    ]
    change = ("-s", "User:app", "-r", "Topic:a", "-a", "All", "-d", "Deny")
    assert root.mqadmin("updateAcl", *at, *change) == [f"update acl to {root.broker} success."]
    assert root.mqadmin("listAcl", "-c", "DefaultCluster", "-r", "Topic:") == [
        titles,
        "User:app Custom Topic:a [All] null Deny",
    ]
    assert root.mqadmin("deleteAcl", *at, "-s", "User:app", "-r", "Topic:a") == [
        f"delete acl to {root.broker} success."
    ]
    assert len(root.mqadmin("getAcl", *at, "-s", "User:app")) == 2
    root.mqadmin("deleteAcl", *at, "-s", "User:app")
    assert root.mqadmin("getAcl", *at, "-s", "User:app") == []


def test_policies_are_copied_between_brokers_and_passwords_are_not(root: Root, tmp_path: Path) -> None:
    with GuardedLab(tmp_path / "other") as lab:
        other = Root(lab)
        for each in (root, other):
            each.ok("user", "create", "app", "--password", "env:APP_PASSWORD")
        root.ok("acl", "set", "User:app", "Topic:a", "Pub")
        pair = ("-f", root.broker, "-t", other.broker)
        assert root.mqadmin("copyAcl", *pair, "-s", "User:app") == [
            f"copy acl of User:app from {root.broker} to {other.broker} success."
        ]
        assert [row["resource"] for row in other.rows("acl", "list")] == ["Topic:a"]
        missing = root.run("mqadmin", "copyAcl", *pair, "-s", "User:nobody")
        assert missing.code == 3 and "User:nobody" in missing.err
        refused = root.run("mqadmin", "copyUser", *pair, "-u", "app")
        assert refused.code == 2 and "cannot be copied" in refused.err


# RocketMQ's spelling, 4.x


def test_mqadmin_manages_accounts_of_acl_1_as_rocketmq_does(plain: Root) -> None:
    at = ("-b", plain.broker)
    told = plain.mqadmin(
        "updateAclConfig", *at, "-a", "another", "-s", "env:APP_PASSWORD", "-t", "orders=PUB|SUB,other=DENY", "-g",
        "billing=SUB", "-i", "DENY", "-u", "DENY", "-m", "false",
    )  # fmt: skip
    assert told[0] == f"create or update plain access config to {plain.broker} success."
    assert "secretKey : ******" in told and "topicPerms : [orders=PUB|SUB, other=DENY]" in told
    shown = plain.mqadmin("getAclConfig", *at)
    assert "accessKey : another" in shown and shown.count("secretKey : ******") == 4
    assert plain.mqadmin("getAccessConfigSubCommand", *at, "--showSecrets") == shown
    plain.ok("topic", "create", "orders")
    account = Credentials(access_key="another", secret_key=planted.CLIENT)
    assert plain.may(account, "orders") and not plain.may(account, "elsewhere")
    versions = plain.mqadmin("clusterAclConfigVersion", *at)
    assert versions[0].startswith("#Cluster Name #Broker Name") and "plain_acl.yml 1 " in versions[1]
    assert plain.mqadmin("updateGlobalWhiteAddr", *at, "-g", "10.1.2.3,10.1.2.4") == [
        f"update global white remote addresses to {plain.broker} success."
    ]
    assert "globalWhiteRemoteAddresses: [10.1.2.3, 10.1.2.4]" in plain.mqadmin("getAclConfig", *at)
    assert plain.mqadmin("deleteAclConfig", *at, "-a", "another") == [
        f"delete plain access config account from {plain.broker} success.",
        "account's accesskey is:another",
    ]
    assert not plain.may(account, "orders")
    short = plain.run("mqadmin", "updateAclConfig", *at, "-a", "another", "-s", planted.CLIENT[:5])
    assert short.code != 0 and planted.CLIENT[:5] not in short.err.replace("planted_acl", "")


def test_accounts_and_users_are_two_systems(root: Root, plain: Root) -> None:
    assert root.run("mqadmin", "getAclConfig", "-b", root.broker).code == 3
    assert plain.run("user", "list").code == 3


# What the audit log keeps of it


def test_the_audit_log_says_who_changed_what_from_where_and_what_came_of_it(root: Root) -> None:
    root.ok("user", "create", "app", "--password", "env:APP_PASSWORD")
    root.ok("acl", "set", "User:app", "Topic:orders", "Pub")
    root.run("user", "update", "nobody", "--disable")
    root.ok("topic", "create", "orders")
    root.ok("user", "delete", "app")
    lines = [line for line in root.lab.audit() if line["event"] == "change"]
    assert [line["code"] for line in lines] == [3001, 3006, 3002, 17, 3003]
    assert {line["user"] for line in lines} == {ROOT.access_key}
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert [line["result"] == 0 for line in lines] == [True, True, False, True, True]
    for line, word in zip(lines, ("app", "User:app", "nobody", "orders", "app"), strict=True):
        assert word in line["what"], line
    assert all(line["time"] > 1_700_000_000_000 for line in lines)
    assert not found_in(json.dumps(lines))


def test_a_change_of_an_account_of_acl_1_is_kept_without_its_secret(plain: Root) -> None:
    plain.mqadmin("updateAclConfig", "-b", plain.broker, "-a", "another", "-s", "env:APP_PASSWORD")
    (line,) = [line for line in plain.lab.audit() if line["event"] == "change"]
    assert (line["code"], line["result"]) == (50, 0) and "another" in line["what"]
    assert not found_in(json.dumps(line))


def test_refusals_of_one_kind_are_one_line(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.ok("user", "create", "app", "--password", "env:APP_PASSWORD")
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", "app")
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", planted.CLIENT)
    for _ in range(3):
        assert root.run("user", "delete", ROOT.access_key, "--cluster", "DefaultCluster").code == 3
        assert root.run("config", "set", "fileReservedTime=1", "--broker", root.broker).code == 3
    refused = [line for line in root.lab.audit() if line["event"] == "refused"]
    assert [line["code"] for line in refused if line["user"] == "app"] == [3003, 25], "each once, not three times"
    assert all(line["rule"] for line in refused) and not found_in(json.dumps(refused))
