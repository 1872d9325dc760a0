"""Rules: the words of the authority table read into functions that say what a request needs.

A rule names where the name of a resource stands in a request and which action it takes:

    T(topic):Pub                    a field; T topic, G group, C cluster
    T(topic):Sub + G(group):Sub     both
    G(group):Sub|Get                one of these actions
    G(consumerGroup)?:Sub           only if the field is there
    T(topic;topicList)?:Get         several fields, the last one may hold several names joined by ";"
    T(topic):Create/Update          Create, or Update where the resource exists already
    C:Get                           the server's own cluster; C(clusterName) that of a field
    body(heartbeat)                 names stand in the body: see ``bodies``
    record(offset):Sub              the topic of the stored record; a message id is taken apart

A retry or dead-letter topic counts as the group it belongs to: whoever may not consume for the group gets nowhere near
its messages, whatever request names the topic. A topic where messages of other topics wait counts as the cluster: who
may read every topic but one would read that one there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.access import bodies
from flaremq.access.needs import Action, Need, ResourceType
from flaremq.message.topics import AUTO_CREATE_TOPIC, DLQ_PREFIX, RETRY_PREFIX, WAITING_TOPICS
from flaremq.protocol.command import RemotingCommand

_TERM: Final = re.compile(r"(T|G|C|record|body)(?:\(([A-Za-z_;]+)\))?(\?)?(?::([A-Za-z/|]+))?")
_TYPES: Final = {"T": ResourceType.TOPIC, "G": ResourceType.GROUP, "C": ResourceType.CLUSTER}
_DATA: Final = frozenset((Action.PUB, Action.SUB))
_READS: Final = frozenset((Action.SUB, Action.GET))
_ROUTE_ACTIONS: Final = (Action.PUB, Action.SUB, Action.GET)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rule may ask the server about."""

    cluster: str
    has_topic: Callable[[str], bool] = lambda _: False
    has_group: Callable[[str], bool] = lambda _: False
    knows_names: bool = True  # has_topic and has_group mean something


class UnreadableError(Exception):
    """A request does not say what it is about."""


Rule = Callable[[RemotingCommand, Surroundings], Sequence[Need]]


@dataclass(frozen=True, slots=True)
class RecordNeed:
    """A need that only the stored record can name: where it stands, and what for."""

    field: str
    actions: tuple[Action, ...]


def parse(words: str) -> tuple[Rule, RecordNeed | None]:
    """The function of a rule, and what it asks of a stored record, if it does."""
    parts: list[Rule] = []
    record = None
    for term in words.split(" + "):
        match = _TERM.fullmatch(term)
        assert match is not None, f"unreadable rule {words!r}"
        kind, fields, optional, actions = match.groups()
        if kind == "record":
            record = RecordNeed(fields, _actions(actions))
        elif kind == "body":
            parts.append(_of_body(fields))
        else:
            parts.append(_of_fields(_TYPES[kind], (fields or "").split(";"), actions, is_optional=bool(optional)))
    if len(parts) == 1:
        return parts[0], record
    return _all_of(parts), record


def need(
    type_: ResourceType, name: str, actions: tuple[Action, ...], around: Surroundings, *, consumer: str = ""
) -> Need:
    """A need; the topic of a group's retries or dead letters counts as the group, one of waiting messages as the
    cluster."""
    if type_ is not ResourceType.TOPIC:
        return Need(type_, name, actions)
    if name in WAITING_TOPICS:
        return Need(
            ResourceType.CLUSTER, around.cluster, (Action.GET,) if _READS.issuperset(actions) else (Action.UPDATE,)
        )
    owner = owning_group(name, around, consumer=consumer) if name[:1] == "%" else None
    if owner is None:
        return Need(type_, name, actions)
    if not around.knows_names and "_" in owner and "+" not in name and name.startswith(RETRY_PREFIX):
        return Need(ResourceType.CLUSTER, around.cluster, (Action.UPDATE,))  # of this group, or of a shorter one
    return Need(ResourceType.GROUP, owner, (Action.SUB,) if _DATA.intersection(actions) else actions)


def owning_group(topic: str, around: Surroundings, *, consumer: str = "") -> str | None:
    """The group whose retries or dead letters a topic holds; None for any other topic.

    POP has a retry topic for each group and topic: ``%RETRY%group+topic``, or ``%RETRY%group_topic``, which may also be
    the plain retry topic of a group of that name. If there is such a group, it is its; and unless there is such a topic
    as well, for the group may be gone while its messages are still there.
    """
    if topic.startswith(DLQ_PREFIX):
        return topic[len(DLQ_PREFIX) :]
    if not topic.startswith(RETRY_PREFIX):
        return None
    rest = topic[len(RETRY_PREFIX) :]
    group, plus, _ = rest.partition("+")
    if plus:
        return group
    if "_" not in rest or around.has_group(rest):
        return rest
    if consumer and rest.startswith(f"{consumer}_") and around.has_topic(rest[len(consumer) + 1 :]):
        return consumer
    at = rest.rfind("_")
    while at > 0:
        if around.has_group(rest[:at]) and around.has_topic(rest[at + 1 :]):
            return rest[:at]
        at = rest.rfind("_", 0, at)
    return rest


def _actions(words: str) -> tuple[Action, ...]:
    return tuple(Action[word.upper()] for word in words.split("|"))


def _of_fields(type_: ResourceType, fields: list[str], words: str, *, is_optional: bool) -> Rule:
    if words == "Create/Update":
        return _create_or_update(type_, fields[0])
    actions = _actions(words)
    if fields == [""]:
        return lambda _, around: [Need(type_, around.cluster, actions)]
    if type_ is ResourceType.TOPIC and actions == _ROUTE_ACTIONS:
        return _route(fields[0])
    if len(fields) == 1 and not is_optional:
        field = fields[0]

        def one(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
            name = _field(request, field)
            if name[:1] != "%" and name not in WAITING_TOPICS:  # nearly always: the consumer is not looked for
                return (Need(type_, name, actions),)
            return (need(type_, name, actions, around, consumer=_consumer(request)),)

        return one

    def several(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
        ext = request.ext or {}
        names = [name for field in fields for name in str(ext.get(field) or "").split(";") if name]
        if not names and not is_optional:
            raise UnreadableError(f"the field {fields[0]} is missing")
        return [need(type_, name, actions, around, consumer=_consumer(request)) for name in names]

    return several


def _route(field: str) -> Rule:
    """A route; that of the topic from which new ones are made shows nothing and is what a first send asks for."""

    def rule(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
        name = _field(request, field)
        if name == AUTO_CREATE_TOPIC:
            return ()
        owner = owning_group(name, around)
        if owner is not None:
            return (Need(ResourceType.GROUP, owner, (Action.SUB, Action.GET)),)
        return (Need(ResourceType.TOPIC, name, _ROUTE_ACTIONS),)

    return rule


def _create_or_update(type_: ResourceType, field: str) -> Rule:
    def rule(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
        return (_changed(type_, _field(request, field), around),)

    return rule


def _changed(type_: ResourceType, name: str, around: Surroundings) -> Need:
    exists = around.has_topic(name) if type_ is ResourceType.TOPIC else around.has_group(name)
    return need(type_, name, (Action.UPDATE if exists else Action.CREATE,), around)


def _of_body(reader: str) -> Rule:
    read = bodies.READERS[reader]

    def rule(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
        named: dict[Need, None] = {}  # a heartbeat may name a topic many times
        for type_, name, words, consumer in read(request.body_bytes):
            if words == "Create/Update":
                named[_changed(type_, name, around)] = None
            else:
                named[need(type_, name, _actions(words), around, consumer=consumer)] = None
        return list(named)

    return rule


def _all_of(parts: list[Rule]) -> Rule:
    def rule(request: RemotingCommand, around: Surroundings) -> Sequence[Need]:
        return [found for part in parts for found in part(request, around)]

    return rule


def _field(request: RemotingCommand, name: str) -> str:
    value = request.ext.get(name) if request.ext else None
    if not value:
        raise UnreadableError(f"the field {name} is missing")
    return str(value)


def _consumer(request: RemotingCommand) -> str:
    return str((request.ext or {}).get("consumerGroup") or "")
