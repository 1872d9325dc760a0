"""Decisions: the order of rules, and the indexed tables against a plain model of the same words."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.users.judge import UsersJudge
from flaremq.access.users.policy import Acl, Decision, PolicyEntry, PolicyType, parse_policies
from flaremq.access.users.resource import Pattern, Resource
from flaremq.access.users.rule_table import RuleTable, mask_of
from flaremq.access.users.tables import Tables
from flaremq.access.users.user import User
from flaremq.access.users.user_store import UserStore

PUB = (Action.PUB,)


def entry(resource: str, decision: str = "Allow", *, actions: str = "Pub", ips: str = "") -> dict[str, Any]:
    sources = {"sourceIps": ips.split(",")} if ips else {}
    return {"resource": resource, "actions": actions.split(","), "decision": decision, **sources}


def verdict(
    entries: list[dict[str, Any]],
    name: str = "abc",
    *,
    actions: tuple[Action, ...] = PUB,
    address: str = "127.0.0.1",
    default: list[dict[str, Any]] | None = None,
) -> bool | None:
    policies = [{"entries": entries}, {"policyType": "Default", "entries": default or []}]
    acl = Acl("u", parse_policies(policies))
    return asked(RuleTable(acl), Need(ResourceType.TOPIC, name, actions), address)


def asked(rules: RuleTable, need: Need, address: str) -> bool | None:
    verdicts = (rule.verdict(mask_of(need.actions), address) for rule in rules.chain(need.type, need.name))
    return next((found for found in verdicts if found is not None), None)


# The order


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        ("Topic:abc", "Topic:ab*"),
        ("Topic:ab*", "Topic:a*"),
        ("Topic:a*", "Topic:*"),
        ("Topic:*", "*"),
        ("Topic:abc", "*"),
        ("Topic:abc*", "Topic:ab*"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_narrower_resource_decides_in_whatever_order_they_stand(stronger: str, weaker: str, is_first: bool) -> None:
    for words in (("Allow", "Deny"), ("Deny", "Allow")):
        entries = [entry(stronger, words[0]), entry(weaker, words[1])]
        assert verdict(entries if is_first else entries[::-1]) is (words[0] == "Allow")


@pytest.mark.parametrize("resource", ["Topic:abc", "Topic:a*", "Topic:*", "*"])
@pytest.mark.parametrize("words", [("Allow", "Deny"), ("Deny", "Allow")])
def test_deny_wins_between_entries_of_one_resource(resource: str, words: tuple[str, str]) -> None:
    assert verdict([entry(resource, word) for word in words]) is False


def test_default_is_asked_only_where_nothing_of_custom_matches() -> None:
    default = [entry("Topic:abc", "Deny"), entry("Topic:x*", "Allow")]
    assert verdict([entry("*")], default=default) is True
    assert verdict([entry("*", actions="Sub")], default=default) is False
    assert verdict([entry("Topic:other")], "xyz", default=default) is True


def test_an_entry_needs_one_of_the_actions_or_all() -> None:
    both = (Action.SUB, Action.GET)
    assert verdict([entry("Topic:abc", actions="Get")], actions=both) is True
    assert verdict([entry("Topic:abc", actions="Pub,List")], actions=both) is None
    assert verdict([entry("Topic:abc", actions="All")], actions=both) is True
    assert verdict([entry("Topic:abc", actions="List")], actions=(Action.ANY,)) is True
    assert verdict([entry("Topic:abc", actions="All")], actions=()) is None


def test_other_types_and_longer_prefixes_do_not_match() -> None:
    assert verdict([entry("Group:abc"), entry("Group:*"), entry("Topic:abcd*"), entry("Topic:ABC")]) is None


# Addresses


@pytest.mark.parametrize(
    ("ips", "address", "matches"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.9.9.9/8", "10.1.2.3", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("1.1.1.1,192.168.0.0/16,2.2.2.2", "192.168.4.4", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("::/0", "1.2.3.4", False),
        ("0.0.0.0/0", "::1", False),
        ("0.0.0.0/0", "no address", False),
    ],
)
def test_an_entry_with_addresses_counts_from_there_only(ips: str, address: str, matches: bool) -> None:
    assert verdict([entry("Topic:abc", ips=ips)], address=address) is (True if matches else None)


def test_who_has_no_readable_address_is_not_let_past_a_deny() -> None:
    entries = [entry("Topic:abc", "Deny", ips="10.0.0.0/8"), entry("Topic:*")]
    assert verdict(entries, address="10.0.0.1") is False
    assert verdict(entries, address="11.0.0.1") is True
    assert verdict(entries, address="") is False


def test_a_narrower_entry_from_elsewhere_leaves_the_decision_to_the_next() -> None:
    entries = [entry("Topic:abc", "Deny", ips="10.0.0.1"), entry("Topic:a*", ips="127.0.0.1"), entry("*", "Deny")]
    assert verdict(entries) is True
    assert verdict(entries, address="10.0.0.2") is False


# A plain model: sort what matches, take the first


NAMES = st.text("ab", min_size=1, max_size=4)
TYPES = st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP))
RESOURCES = st.one_of(
    st.just(Resource(ResourceType.ANY, Pattern.ANY, "")),
    st.builds(Resource, TYPES, st.just(Pattern.ANY), st.just("")),
    st.builds(Resource, TYPES, st.sampled_from((Pattern.LITERAL, Pattern.PREFIXED)), NAMES),
)
ACTIONS = st.lists(st.sampled_from((Action.ALL, Action.PUB, Action.SUB, Action.GET)), min_size=1, unique=True)
SOURCES = st.lists(st.sampled_from(("10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::1")), max_size=2, unique=True)
ENTRIES = st.lists(
    st.builds(PolicyEntry, RESOURCES, ACTIONS.map(tuple), st.sampled_from(Decision), SOURCES.map(tuple)), max_size=12
).map(tuple)
NEEDS = st.builds(
    Need, TYPES, NAMES, st.lists(st.sampled_from((Action.PUB, Action.SUB, Action.GET)), min_size=1).map(tuple)
)
ADDRESSES = st.sampled_from(("10.0.0.1", "10.0.0.2", "11.0.0.1", "::1"))


def model_verdict(acl: Acl, need: Need, address: str) -> bool | None:
    def matches(entry: PolicyEntry) -> bool:
        host = ipaddress.ip_address(address)
        return (
            entry.resource.matches(need.type, need.name)
            and any(action in entry.actions or Action.ALL in entry.actions for action in need.actions)
            and (not entry.source_ips or any(host in ipaddress.ip_network(text) for text in entry.source_ips))
        )

    def rank(entry: PolicyEntry) -> tuple[bool, int, int, bool]:
        order = (Pattern.LITERAL, Pattern.PREFIXED, Pattern.ANY)
        resource = entry.resource
        is_any = resource.type is ResourceType.ANY
        return is_any, order.index(resource.pattern), -len(resource.name), entry.decision is Decision.ALLOW

    for type in (PolicyType.CUSTOM, PolicyType.DEFAULT):
        found = sorted(filter(matches, acl.policies.get(type, ())), key=rank)
        if found:
            return found[0].decision is Decision.ALLOW
    return None


@given(ENTRIES, ENTRIES, st.lists(NEEDS, min_size=1, max_size=4), ADDRESSES)
def test_indexed_tables_decide_as_the_plain_model(
    custom: tuple[PolicyEntry, ...], default: tuple[PolicyEntry, ...], needs: list[Need], address: str
) -> None:
    acl = Acl("u", {PolicyType.DEFAULT: default, PolicyType.CUSTOM: custom})
    rules = RuleTable(acl)
    for need in needs:
        assert asked(rules, need, address) is model_verdict(acl, need, address)


# The judge


def judge_of(folder: Path, entries: list[dict[str, Any]]) -> tuple[UserStore, UsersJudge]:
    store = UserStore(folder)
    acl = Acl("u", parse_policies([{"entries": entries}]))
    store.change(lambda tables: Tables.of([User("u", "p"), User("none", "p")], [acl]))
    return store, UsersJudge(store)


def test_all_needs_must_be_allowed_and_the_first_that_is_not_is_named(tmp_path: Path) -> None:
    _, judge = judge_of(tmp_path, [entry("Topic:a"), entry("Topic:b", "Deny")])
    account = judge.find("u")
    assert account is not None
    a, b, c = (Need(ResourceType.TOPIC, name, PUB) for name in "abc")
    assert judge.decide(account, [], "1.1.1.1") is None
    assert judge.decide(account, [a, a], "1.1.1.1") is None
    denied, unmatched = judge.decide(account, [a, b, c], "1.1.1.1"), judge.decide(account, [a, c, b], "1.1.1.1")
    assert denied is not None and unmatched is not None
    assert denied.remark == "User:u has no permission to access Topic:b from 1.1.1.1, the decision is deny."
    assert denied.rule == "Custom Topic:b Deny"
    assert unmatched.remark == "User:u has no permission to access Topic:c from 1.1.1.1, no matched policies."


def test_a_user_without_policies_may_nothing_and_strangers_are_not_found(tmp_path: Path) -> None:
    _, judge = judge_of(tmp_path, [entry("*", actions="All")])
    account = judge.find("none")
    assert account is not None and judge.find("stranger") is None and judge.find("U") is None
    assert judge.decide(account, [Need(ResourceType.TOPIC, "a", PUB)], "127.0.0.1") is not None
    assert not judge.trusts("127.0.0.1", "u")


def test_a_change_is_seen_by_the_next_decision(tmp_path: Path) -> None:
    store, judge = judge_of(tmp_path, [entry("Topic:a")])
    account, needs = judge.find("u"), [Need(ResourceType.TOPIC, "a", PUB)]
    assert account is not None and judge.decide(account, needs, "127.0.0.1") is None
    store.change(lambda tables: tables.without_acl("u"))
    assert judge.decide(account, needs, "127.0.0.1") is not None
    acl = Acl("u", parse_policies([{"entries": [entry("*")]}]))
    store.change(lambda tables: tables.with_acl(acl))
    assert judge.decide(account, needs, "127.0.0.1") is None
    store.change(lambda tables: tables.without_user("u"))
    assert judge.find("u") is None and judge.decide(account, needs, "127.0.0.1") is not None


def test_decisions_about_more_names_than_are_remembered_stay_right(tmp_path: Path) -> None:
    _, judge = judge_of(tmp_path, [entry("Topic:a*"), entry("Topic:a1*", "Deny")])
    account = judge.find("u")
    assert account is not None
    for _ in range(2):
        for number in range(5_000):
            refusal = judge.decide(account, [Need(ResourceType.TOPIC, f"a{number}", PUB)], "127.0.0.1")
            assert (refusal is not None) == str(number).startswith("1")
