"""Messages that wait lie in topics of the system: who may read every topic but one does not read that one there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.rules import Surroundings, need
from flaremq.access.users.changes import create_user, put_acl
from flaremq.message.topics import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    WAITING_TOPICS,
)
from tests.access.attack_lab import Lab, asked, lab, secret_of, send_fields
from tests.access.test_attacks import _BY_TOPIC

_KEY = "C00002021CA84E0E2F2A4F5E49AD0007"
_WAITS = {
    SCHEDULE_TOPIC: "DELAY\x0118\x02",
    TIMER_TOPIC: "TIMER_DELAY_SEC\x013600\x02",
    HALF_TOPIC: "TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
}


def _make_wide(found: Lab) -> None:
    """A user of every topic but one."""
    assert found.broker.access is not None and found.broker.access.users is not None
    rights = [("Topic:*", ["All"], "Allow"), ("Group:*", ["All"], "Allow"), ("Topic:orders", ["All"], "Deny")]
    entries = [{"resource": name, "actions": actions, "decision": word} for name, actions, word in rights]
    acl = {"subject": "User:wide", "policies": [{"policyType": "Custom", "entries": entries}]}
    found.broker.access.users.change(lambda tables: create_user(tables, "wide", {"password": secret_of("wide")}))
    found.broker.access.users.change(lambda tables: put_acl(tables, "User:wide", acl))


def test_a_message_that_waits_is_read_by_nobody_who_may_not_read_its_topic(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with lab(tmp_path) as found:
            _make_wide(found)
            raw, passed = await found.connect(), []
            for room, property_ in _WAITS.items():
                fields = send_fields(
                    "orders", f"UNIQ_KEY\x01{_KEY}\x02{property_}", f="4" if room == HALF_TOPIC else "0"
                )
                assert (await raw.ask(asked("victim", 310, fields, b"secret order"))).code == 0
            question = {"key": _KEY, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9999999999999"}
            for topic in (*_WAITS, CHECK_MAX_TIME_TOPIC):
                seen = await raw.ask(asked("root", 12, {"topic": topic, **question}))
                assert (b"secret order" in seen.body_bytes) == (topic in _WAITS)  # it is there
                requests = [make(topic) for make in _BY_TOPIC.values()] + [(12, {"topic": topic, **question}, b"")]
                for code, ext, body in requests:
                    reply = await raw.ask(asked("wide", code, ext, body))
                    if reply.code != 16 or "no permission to access Cluster:" not in str(reply.remark):
                        passed.append(f"{code} {topic}: {reply.code} {reply.remark}")
            assert (await raw.ask(asked("wide", 12, {"topic": "open", **question}))).code == 22
            return passed

    assert asyncio.run(run()) == []


@pytest.mark.parametrize("topic", sorted(WAITING_TOPICS))
def test_such_a_topic_counts_as_the_cluster(topic: str) -> None:
    around = Surroundings("cc")
    for actions, wanted in (
        ((Action.SUB,), Action.GET),
        ((Action.GET, Action.SUB), Action.GET),
        ((Action.PUB,), Action.UPDATE),
        ((Action.SUB, Action.UPDATE), Action.UPDATE),
        ((Action.DELETE,), Action.UPDATE),
    ):
        assert need(ResourceType.TOPIC, topic, actions, around) == Need(ResourceType.CLUSTER, "cc", (wanted,))
    assert need(ResourceType.GROUP, topic, (Action.SUB,), around).type is ResourceType.GROUP
