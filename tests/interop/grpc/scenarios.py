"""The scenarios of the clients' programs, what they need, and which of them make up the fast core.

The programs know their scenarios too (``list=1`` prints them); a test keeps the two in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Longest first: all of a program run at the same time.
ALL = (
    "renewal",
    "change_invisible",
    "dead_letters",
    "fifo_dead_letters",
    "transaction",
    "recall",
    "delay",
    "retry",
    "send",
    "send_many",
    "send_large",
    "push",
    "two_consumers",
    "tags",
    "sql",
    "fifo",
    "unknown_topic",
    "refused",
)
# Those that need what a test does before.
PREPARED = ("relay",)
CORE = frozenset(("send", "push", "tags", "fifo", "delay", "transaction", "retry", "dead_letters", "unknown_topic"))

# Of the core, but not where they take long.
SLOW = frozenset((("node", "transaction"),))
# What the program for Node has of them.
NODE = (
    "change_invisible",
    "transaction",
    "delay",
    "retry",
    "send",
    "push",
    "tags",
    "sql",
    "fifo",
    "refused",
)

# Of topics that take other messages than normal ones.
TYPES: Mapping[str, str] = {
    "fifo": "FIFO",
    "fifo_dead_letters": "FIFO",
    "delay": "DELAY",
    "recall": "DELAY",
    "transaction": "TRANSACTION",
}
# Of groups that are not as by default.
GROUPS: Mapping[str, Mapping[str, Any]] = {
    "fifo": {"consume_message_orderly": True},
    "fifo_dead_letters": {"consume_message_orderly": True, "retry_max_times": 1},
    "dead_letters": {"retry_max_times": 1},
}


def of(client: str) -> tuple[str, ...]:
    """The scenarios of a client that need nothing done before."""
    return NODE if client == "node" else ALL


def topic(run: str, scenario: str) -> str:
    """The topic of a scenario; its group is called so with ``-g`` behind it."""
    return f"{run}-{scenario.replace('_', '-')}"
