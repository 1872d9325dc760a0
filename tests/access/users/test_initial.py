"""Users that the configuration names, and accounts of ACL 1.0 that become users."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.users.initial import create_missing, parse_initial_user, parse_inner_credentials
from flaremq.access.users.judge import UsersJudge
from flaremq.access.users.migration import MigratedAccount, migrate
from flaremq.access.users.user import User, UserType
from flaremq.access.users.user_store import UserStore
from flaremq.errors import InvalidArgumentError

SECRET = "marked-secret-51"


def test_the_options_name_super_users() -> None:
    initial = parse_initial_user(f'{{"username":"rocketmq","password":"{SECRET}"}}')
    inner = parse_inner_credentials(f'{{"accessKey":"broker","secretKey":"{SECRET}","securityToken":"t"}}')
    assert initial == User("rocketmq", SECRET, UserType.SUPER)
    assert inner == User("broker", SECRET, UserType.SUPER)


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f'{{"username":"a","password":"{SECRET}"',
        f'["{SECRET}"]',
        f'{{"username":"a","pasword":"{SECRET}"}}',
        f'{{"username":"a","password":["{SECRET}"]}}',
        f'{{"username":" ","password":"{SECRET}"}}',
        f'{{"username":"a","password":"{SECRET}\\ud800"}}',
        '{"username":"a","password":""}',
    ],
)
def test_an_option_that_cannot_be_read_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="initAuthenticationUser") as caught:
        parse_initial_user(text)
    assert "marked" not in str(caught.value) and caught.value.__cause__ is None


def test_users_that_exist_stay_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = UserStore(tmp_path)
    create_missing(store, [User("root", SECRET, UserType.SUPER), User("broker", SECRET, UserType.SUPER)])
    assert caplog.text.count("created as Super") == 2
    before = store.tables
    create_missing(store, [User("root", "another-password", UserType.SUPER)])
    assert store.tables is before and UserStore(tmp_path).tables.users["root"].password == SECRET
    assert "configuration names another one" in caplog.text
    assert SECRET not in caplog.text and "another-password" not in caplog.text


def test_a_server_without_a_super_user_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create_missing(UserStore(tmp_path), [])
    assert "no enabled Super user" in caplog.text


# Migration


ACCOUNT = MigratedAccount(
    "rocketmq-app",
    "app-secret-1",
    topic_perms=(("both", "PUB|SUB"), ("pubOnly", "PUB"), ("denied", "DENY"), ("%RETRY%retried", "SUB")),
    group_perms=(("goodGroup", "SUB"), ("badGroup", "DENY")),
    default_topic_perm="SUB|PUB",
    default_group_perm="DENY",
)


def test_permissions_of_an_account_become_policies(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    assert migrate(store, [ACCOUNT, MigratedAccount("rocketmq-admin", "admin-secret-1", True)]) == [
        "rocketmq-app",
        "rocketmq-admin",
    ]
    tables = UserStore(tmp_path).tables
    assert tables.accounts["rocketmq-admin"].is_super and not tables.accounts["rocketmq-app"].is_super
    assert tables.accounts["rocketmq-app"].secret == b"app-secret-1"
    assert "rocketmq-admin" not in tables.acls
    lines = [
        (policy["policyType"], entry["resource"], ",".join(entry["actions"]), entry["decision"])
        for policy in tables.acls["rocketmq-app"].to_info()["policies"]
        for entry in policy["entries"]
    ]
    assert lines == [
        ("Custom", "Topic:both", "Pub,Sub", "Allow"),
        ("Custom", "Topic:pubOnly", "Pub", "Allow"),
        ("Custom", "Topic:denied", "All", "Deny"),
        ("Custom", "Group:retried", "Sub", "Allow"),
        ("Custom", "Group:goodGroup", "Sub", "Allow"),
        ("Custom", "Group:badGroup", "All", "Deny"),
        ("Default", "Topic:*", "Pub,Sub", "Allow"),
        ("Default", "Group:*", "All", "Deny"),
    ]


def test_migrated_users_may_what_the_accounts_might(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    migrate(store, [ACCOUNT])
    judge = UsersJudge(store)
    account = judge.find("rocketmq-app")
    assert account is not None

    def may(type: ResourceType, name: str, action: Action) -> bool:
        return judge.decide(account, [Need(type, name, (action,))], "127.0.0.1") is None

    assert may(ResourceType.TOPIC, "both", Action.SUB) and may(ResourceType.TOPIC, "anything", Action.PUB)
    assert not may(ResourceType.TOPIC, "denied", Action.PUB) and not may(ResourceType.GROUP, "other", Action.SUB)
    assert may(ResourceType.GROUP, "goodGroup", Action.SUB) and not may(ResourceType.TOPIC, "both", Action.GET)


def test_an_account_whose_name_is_a_user_already_is_left_out(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    create_missing(store, [User("rocketmq-app", "changed", UserType.SUPER)])
    assert migrate(store, [ACCOUNT]) == []
    assert store.tables.users["rocketmq-app"].password == "changed" and not store.tables.acls


def test_an_account_that_cannot_be_a_user_stops_the_migration_as_a_whole(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    with pytest.raises(InvalidArgumentError, match="'bad' cannot become a user"):
        migrate(store, [ACCOUNT, MigratedAccount("bad", "")])
    assert not store.tables.users and not Path(store.path).exists()


def test_a_literal_name_with_an_asterisk_does_not_become_a_prefix(tmp_path: Path) -> None:
    store = UserStore(tmp_path)
    migrate(store, [MigratedAccount("odd", "odd-secret", topic_perms=(("a*", "PUB"), ("*", "PUB")))])
    assert "odd" in UserStore(tmp_path).tables.users and not store.tables.acls


def test_an_account_never_shows_its_secret() -> None:
    assert "secret" not in repr(ACCOUNT)
