"""Names: of groups, whose letters are those of topics because retry topics are made of them, and of queues in texts."""

from __future__ import annotations

import re
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.queue import MessageQueue

GROUP_LENGTH_MAX: Final = 255
_LEGAL: Final = re.compile(r"[A-Za-z0-9%_|-]+")


def check_group(group: str) -> None:
    """Refuse a name that no broker would take."""
    if not _LEGAL.fullmatch(group):
        raise InvalidArgumentError(
            f"group {group!r} is not legal: ASCII letters, digits, '%', '-', '_' and '|' are allowed"
        )
    if len(group) > GROUP_LENGTH_MAX:
        raise InvalidArgumentError(f"group {group[:32]!r}... has {len(group)} characters, at most {GROUP_LENGTH_MAX}")


def queue_name(queue: MessageQueue) -> str:
    """A queue as logs and errors call it."""
    return f"queue {queue.queue_id} of topic {queue.topic} on {queue.broker_name}"
