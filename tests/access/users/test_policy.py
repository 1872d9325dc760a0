"""Texts of users and policies: what is read, what is refused, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from flaremq.access.needs import ResourceType
from flaremq.access.users.policy import Acl, PolicyType, parse_policies
from flaremq.access.users.resource import EVERYTHING, Pattern, Resource, parse_resource
from flaremq.access.users.user import User, UserStatus, UserType, checked_user, find_name
from flaremq.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "resource", "written"),
    [
        ("*", EVERYTHING, "*"),
        ("any:*", EVERYTHING, "*"),
        ("Topic:abc", Resource(ResourceType.TOPIC, Pattern.LITERAL, "abc"), "Topic:abc"),
        ("tOPIC:aBc", Resource(ResourceType.TOPIC, Pattern.LITERAL, "aBc"), "Topic:aBc"),
        ("Group:abc*", Resource(ResourceType.GROUP, Pattern.PREFIXED, "abc"), "Group:abc*"),
        ("Group:ab*c*", Resource(ResourceType.GROUP, Pattern.PREFIXED, "ab"), "Group:ab*"),
        ("Group:ab*c", Resource(ResourceType.GROUP, Pattern.LITERAL, "ab*c"), "Group:ab*c"),
        ("Cluster:*", Resource(ResourceType.CLUSTER, Pattern.ANY, ""), "Cluster:*"),
        ("Topic:a:b", Resource(ResourceType.TOPIC, Pattern.LITERAL, "a:b"), "Topic:a:b"),
        ("Namespace:n", Resource(ResourceType.NAMESPACE, Pattern.LITERAL, "n"), "Namespace:n"),
    ],
)
def test_resources_are_read_and_written(text: str, resource: Resource, written: str) -> None:
    assert parse_resource(text) == resource
    assert str(resource) == written
    assert parse_resource(written) == resource


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Tpic:a", ":a", "**", "Any:a", "Any:a*", "Topic:a\nb"])
def test_what_names_no_resource_is_none(text: str) -> None:
    assert parse_resource(text) is None


GOOD = {"resource": "Topic:a", "actions": ["Pub"], "decision": "Allow"}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (GOOD | {"resource": "Tpic:a"}, "The resource is null."),
        (GOOD | {"resource": None}, "The resource is null."),
        (GOOD | {"resource": 5}, "resource is not a text"),
        (GOOD | {"actions": []}, "The actions is empty."),
        (GOOD | {"actions": ["Fly"]}, "The actions is empty."),
        (GOOD | {"actions": ["Unknown"]}, "The actions is empty."),
        (GOOD | {"actions": ["Pub", "Any"]}, "The actions can not be Any."),
        (GOOD | {"actions": ["Pub", "Fly"]}, "The action number 2 is unknown."),
        (GOOD | {"actions": "Pub"}, "actions is not a list of texts"),
        (GOOD | {"sourceIps": [" "]}, "The source ip is empty."),
        (GOOD | {"sourceIps": ["10.0.0.256"]}, "The source ip is invalid."),
        (GOOD | {"sourceIps": ["10.0.0.0/33"]}, "The source ip is invalid."),
        (GOOD | {"sourceIps": ["10.0.0.0/255.0.0.0"]}, "The source ip is invalid."),
        (GOOD | {"sourceIps": ["010.0.0.1"]}, "The source ip is invalid."),
        (GOOD | {"sourceIps": ["localhost"]}, "The source ip is invalid."),
        (GOOD | {"decision": "Maybe"}, "The decision is null or illegal."),
        (GOOD | {"decision": None}, "The decision is null or illegal."),
    ],
)
def test_an_entry_that_is_not_understood_is_refused(entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_policies([{"entries": [GOOD, entry]}])
    assert str(caught.value) == sentence


@pytest.mark.parametrize("document", [None, [], [{}], [{"entries": []}], [{"policyType": "Default"}]])
def test_policies_without_entries_are_refused(document: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="The policies is empty"):
        parse_policies(document)


def test_a_policy_type_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="neither Custom nor Default"):
        parse_policies([{"policyType": "Defualt", "entries": [GOOD]}])


def test_two_policies_of_a_type_are_one() -> None:
    other = GOOD | {"resource": "Topic:b"}
    policies = parse_policies([{"entries": [GOOD]}, {"policyType": "custom", "entries": [other]}])
    assert [str(entry.resource) for entry in policies[PolicyType.CUSTOM]] == ["Topic:a", "Topic:b"]


def test_merging_replaces_the_entry_of_a_resource_in_its_place() -> None:
    first = Acl("u", parse_policies([{"entries": [GOOD, GOOD | {"resource": "Topic:b"}]}]))
    changed = GOOD | {"actions": ["sub", "SUB"], "decision": "deny", "sourceIps": ["10.0.0.0/8"]}
    merged = first.merged(parse_policies([{"entries": [changed, GOOD | {"resource": "*"}]}]))
    assert merged.to_info()["policies"][0]["entries"] == [
        {"actions": ["Sub"], "decision": "Deny", "resource": "Topic:a", "sourceIps": ["10.0.0.0/8"]},
        {"actions": ["Pub"], "decision": "Allow", "resource": "Topic:b"},
        {"actions": ["Pub"], "decision": "Allow", "resource": "*"},
    ]


def test_types_and_states_are_read_in_any_case() -> None:
    assert find_name(UserType, "sUPER") is UserType.SUPER
    assert find_name(UserStatus, "Disable") is UserStatus.DISABLE
    assert find_name(UserStatus, "disabled") is None


def test_a_user_never_shows_the_password() -> None:
    user = User("app", "marked-secret-51")
    assert "marked" not in f"{user} {user!r} {user.to_info()} {[user]}"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 256, "\ud800"])
def test_names_that_cannot_be_logged_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="username"):
        checked_user(name, "p")


@pytest.mark.parametrize("password", ["", "  ", "******", "x" * 1025, "marked\ud800"])
def test_passwords_that_cannot_sign_are_refused_without_being_quoted(password: str) -> None:
    with pytest.raises(InvalidArgumentError, match="password") as caught:
        checked_user("app", password)
    assert "marked" not in str(caught.value)
