"""HandedOut: what POP knows of the messages it gave to consumers, shared by the parts of POP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flaremq.broker.pop.check_point import QueueKey

if TYPE_CHECKING:
    from flaremq.broker.pop.order_info import ConsumerOrderInfo
    from flaremq.broker.pop.revive_log import ReviveLog
    from flaremq.broker.pop.table import PopTable


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Check points in memory and in the log, ordered queues, and the callbacks for what is available again."""

    table: PopTable
    revive_log: ReviveLog
    order_info: ConsumerOrderInfo
    on_available: list[Callable[[str, str, int], None]] = field(default_factory=list)  # topic, group, queue id

    def wake(self, key: QueueKey) -> None:
        """There may be something for a group in a queue."""
        topic, group, queue_id = key
        for callback in self.on_available:
            callback(topic, group, queue_id)
