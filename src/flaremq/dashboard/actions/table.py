"""The table of actions. What is not in it cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flaremq.dashboard.actions import brokers, dead_letters, groups, messages, topics
from flaremq.dashboard.actions.plan import Action

ACTIONS: Final[Mapping[str, Action]] = {
    "topic.create": topics.create,
    "topic.update": topics.update,
    "topic.delete": topics.delete,
    "group.reset": groups.reset,
    "group.skip": groups.skip,
    "group.copy": groups.copy,
    "group.delete": groups.delete,
    "message.send": messages.send,
    "message.resend": messages.resend,
    "message.consume": messages.consume,
    "dlq.resend": dead_letters.resend,
    "timer.recall": messages.recall,
    "half.check": messages.check_half,
    "broker.option": brokers.option,
    "broker.permission": brokers.permission,
    "store.clean": brokers.clean,
}
