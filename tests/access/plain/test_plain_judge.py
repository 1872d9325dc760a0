"""What accounts of ACL 1.0 may do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.message.topics import TRACE_TOPIC
from tests.access.plain.acl_lab import AclLab, cluster, group, topic

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST


@pytest.mark.parametrize(
    ("key", "need", "text"),
    [
        ("rocketmq-app", topic("both", PUB), ""),
        ("rocketmq-app", topic("both", SUB), ""),
        ("rocketmq-app", topic("pubOnly", PUB), ""),
        ("rocketmq-app", topic("pubOnly", SUB), "No default permission for topic:pubOnly"),
        ("rocketmq-app", topic("subOnly", PUB), "No default permission for topic:subOnly"),
        ("rocketmq-app", topic("denied", PUB), "No default permission for topic:denied"),
        ("rocketmq-app", topic("other", PUB), "No default permission for topic:other"),
        ("rocketmq-app", topic("%DLQ%goodGroup", SUB), "No default permission for topic:%DLQ%goodGroup"),
        ("rocketmq-app", group("goodGroup", SUB), ""),
        ("rocketmq-app", group("badGroup", SUB), "No default permission for group:badGroup"),
        ("rocketmq-app", group("newGroup", SUB), "No default permission for group:newGroup"),
        ("rocketmq-app", topic("%RETRY%goodGroup", SUB), ""),
        ("rocketmq-app", topic("%RETRY%badGroup", SUB), "No default permission for group:badGroup"),
        ("rocketmq-app", topic(TRACE_TOPIC, PUB), ""),
        ("rocketmq-app", topic(TRACE_TOPIC, SUB), f"No default permission for topic:{TRACE_TOPIC}"),
        ("rocketmq-app", topic("both", Action.CREATE), "Need admin permission, but accessKey=rocketmq-app is not"),
        ("rocketmq-app", group("goodGroup", Action.DELETE), "Need admin permission, but accessKey=rocketmq-app is not"),
        ("rocketmq-app", cluster(GET), "Need admin permission, but accessKey=rocketmq-app is not"),
        # What a producer or a consumer may look at
        ("rocketmq-app", topic("pubOnly", GET), ""),
        ("rocketmq-app", topic("subOnly", GET, LIST), ""),
        ("rocketmq-app", topic("denied", GET), "No default permission for topic:denied"),
        ("rocketmq-app", topic("pubOnly", PUB, SUB, GET), ""),  # a route
        ("rocketmq-app", topic("pubOnly", SUB, GET), "No default permission for topic:pubOnly"),
        ("rocketmq-app", topic("subOnly", SUB, Action.UPDATE), ""),
        ("rocketmq-dflt", topic("any", PUB), ""),
        ("rocketmq-dflt", group("any", SUB), ""),
        ("rocketmq-dflt", topic("%RETRY%any", PUB), "No default permission for group:any"),
        ("rocketmq-dir1", topic("any", PUB), ""),
        ("rocketmq-dir2", topic("any", SUB), "No default permission for topic:any"),
        # An administrator with entries of its own is held to them
        ("rocketmq-adm2", topic("only", PUB), ""),
        ("rocketmq-adm2", topic("both", PUB), "No default permission for topic:both"),
        ("rocketmq-adm2", group("goodGroup", SUB), "No default permission for group:goodGroup"),
        ("rocketmq-adm2", topic("both", Action.CREATE), ""),
        ("rocketmq-adm2", group("x", Action.UPDATE), ""),
        ("rocketmq-adm2", cluster(Action.UPDATE), ""),
        ("rocketmq-admin", topic("anything", PUB), ""),
    ],
)
def test_recorded_accounts_may_do_what_they_could(tmp_path: Path, key: str, need: Need, text: str) -> None:
    assert AclLab.recorded(tmp_path).verdict(key, need) == text


def test_all_needs_must_be_allowed(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    good, bad = topic("both", SUB), group("badGroup", SUB)
    assert lab.verdict("rocketmq-app", good, group("goodGroup", SUB)) == ""
    assert lab.verdict("rocketmq-app", good, bad) == lab.verdict("rocketmq-app", bad, good) != ""
    assert lab.verdict("rocketmq-app", topic(TRACE_TOPIC, PUB), bad) != ""
    assert lab.verdict("rocketmq-app") == ""


@pytest.mark.parametrize("actions", [(), (Action.ALL,), (Action.ANY,), (Action.UNKNOWN,), (GET, Action.CREATE)])
def test_actions_that_1_0_does_not_know_are_for_administrators(tmp_path: Path, actions: tuple[Action, ...]) -> None:
    lab = AclLab(tmp_path)
    assert lab.verdict("rocketmq-dflt", topic("both", *actions)).startswith("Need admin permission")
    assert lab.verdict("rocketmq-adm2", topic("both", *actions)) == ""


def test_retry_topic_in_topic_perms_is_its_group(tmp_path: Path) -> None:
    text = "accounts: [{accessKey: account, secretKey: secret-1, topicPerms: ['%RETRY%g=SUB'], groupPerms: [g=DENY]}]"
    assert AclLab(tmp_path, {"plain_acl.yml": text}).verdict("account", group("g", SUB)) == ""


def test_addresses_of_the_global_white_list_are_trusted_with_any_key_or_none(tmp_path: Path) -> None:
    judge = AclLab(tmp_path).judge
    assert judge.trusts("10.10.103.7", None)
    assert judge.trusts("10.10.103.7", "nobody")
    assert not judge.trusts("10.10.104.7", None)


def test_white_address_of_an_account_is_trusted_with_its_key_alone(tmp_path: Path) -> None:
    judge = AclLab(tmp_path).judge
    assert judge.trusts("127.0.0.1", "rocketmq-white")
    assert not judge.trusts("127.0.1.1", "rocketmq-white")
    assert not judge.trusts("127.0.0.1", "rocketmq-app")
    assert not judge.trusts("127.0.0.1", None)
    assert not judge.trusts("127.0.0.1", "")


def test_administrator_without_entries_is_super_and_nobody_else_is(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    supers = [key for key in lab.store.snapshot.accounts if (found := lab.judge.find(key)) and found.is_super]
    assert supers == ["rocketmq-admin"]


def test_account_deleted_after_its_signature_was_checked_is_refused(tmp_path: Path) -> None:
    lab = AclLab(tmp_path)
    account = lab.judge.find("rocketmq-dflt")
    assert account is not None
    lab.store.delete_account("rocketmq-dflt")
    assert lab.judge.decide(account, [topic("any", PUB)], "127.0.0.1") is not None
    assert lab.judge.decide(account, [], "127.0.0.1") is not None


def test_secret_is_in_no_representation(tmp_path: Path) -> None:
    lab = AclLab.recorded(tmp_path)
    assert "-secret-1" not in repr(lab.store.snapshot) + repr(lab.judge.find("rocketmq-app"))


# The decision against a plain model of the specification

_PERMS = {"DENY": set(), "PUB": {PUB}, "SUB": {SUB}, "PUB|SUB": {PUB, SUB}, "SUB|PUB": {PUB, SUB}, "READ": set()}
_perm = st.sampled_from(sorted(_PERMS))
_name = st.sampled_from(["a", "b", "%RETRY%a", "%RETRY%b", TRACE_TOPIC])
_group_name = st.sampled_from(["a", "b", "c"])
_actions = st.lists(st.sampled_from(list(Action)), min_size=1, max_size=3, unique=True).map(tuple)
_needs = st.one_of(
    st.builds(Need, st.just(ResourceType.TOPIC), _name, _actions),
    st.builds(Need, st.just(ResourceType.GROUP), _group_name, _actions),
    st.builds(Need, st.sampled_from(list(ResourceType)), _name, _actions),
)


def _is_allowed(
    need: Need, *, admin: bool, topics: dict[str, str], groups: dict[str, str], topic_default: str, group_default: str
) -> bool:
    if admin and not topics and not groups:
        return True
    is_resource = need.type in (ResourceType.TOPIC, ResourceType.GROUP)
    enough = {action for action in need.actions if action in (PUB, SUB)}
    if not enough and all(action in (GET, LIST) for action in need.actions):
        enough = {PUB, SUB}
    if not is_resource or not enough:
        return admin
    is_group = need.type is ResourceType.GROUP or need.name.startswith("%RETRY%")
    name = need.name.removeprefix("%RETRY%") if need.type is ResourceType.TOPIC else need.name
    if is_group:
        owned = topics.get("%RETRY%" + name, groups.get(name, group_default))
    else:
        if need.name == TRACE_TOPIC and PUB in enough:
            return True
        owned = topics.get(name, topic_default)
    return bool(_PERMS[owned] & enough)


@settings(max_examples=300, deadline=None)
@given(
    st.booleans(),
    st.dictionaries(_name, _perm, max_size=4),
    st.dictionaries(_group_name, _perm, max_size=3),
    _perm,
    _perm,
    st.lists(_needs, min_size=1, max_size=3),
)
def test_decision_is_that_of_the_model(
    admin: bool,
    topics: dict[str, str],
    groups: dict[str, str],
    topic_default: str,
    group_default: str,
    needs: list[Need],
) -> None:
    lines = [
        "accounts:",
        "- accessKey: account",
        "  secretKey: secret-1",
        f"  admin: {str(admin).lower()}",
        f"  defaultTopicPerm: {topic_default}",
        f"  defaultGroupPerm: {group_default}",
        "  topicPerms: [" + ", ".join(f"'{name}={perm}'" for name, perm in topics.items()) + "]",
        "  groupPerms: [" + ", ".join(f"'{name}={perm}'" for name, perm in groups.items()) + "]",
    ]
    with tempfile.TemporaryDirectory() as home:
        lab = AclLab(Path(home), {"plain_acl.yml": "\n".join(lines)})
        expected = all(
            _is_allowed(
                need,
                admin=admin,
                topics=topics,
                groups=groups,
                topic_default=topic_default,
                group_default=group_default,
            )
            for need in needs
        )
        assert (lab.verdict("account", *needs) == "") is expected
