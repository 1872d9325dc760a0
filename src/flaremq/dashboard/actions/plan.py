"""A plan: what an action would do, and the steps that do it. The preview and the deed are made of the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.client.options import ClientOptions
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.errors import FlareMQError, InvalidArgumentError
from flaremq.visible import visible

STEPS_MAX: Final = 1_000
_REASON_MAX: Final = 500
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Desk:
    """What an action works with: the client of whoever acts."""

    state: ClusterState
    reader: ClusterReader
    client: ClientOptions  # who they are, for clients of their own
    name_servers: str


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. What it returns is added to its row of the plan."""

    id: str
    run: Callable[[], Awaitable[Row | None]]
    row: int | None = None


@dataclass(slots=True)
class Plan:
    """Made by an action without changing anything."""

    steps: list[Step]
    rows: list[Row] = field(default_factory=list)
    before: Row = field(default_factory=dict)
    after: Row = field(default_factory=dict)
    effects: list[Row] = field(default_factory=list)
    confirm: str | None = None  # what has to be typed again
    done: int = 0
    failed: list[Row] = field(default_factory=list)

    def effect(self, code: str, **args: Any) -> None:
        self.effects.append({"code": code, "args": args})

    def check(self, typed: object) -> None:
        """Refuse to go on unless the name was typed again; nothing was changed then."""
        if self.confirm is not None and typed != self.confirm:
            raise InvalidArgumentError(f"confirm must be {self.confirm!r}: nothing was changed")
        if len(self.steps) > STEPS_MAX:
            raise InvalidArgumentError(f"{len(self.steps)} steps at once, at most {STEPS_MAX} are taken")

    async def carry_out(self) -> None:
        """Every step, also behind one that failed."""
        for step in self.steps:
            try:
                found = await step.run()
            except FlareMQError as error:
                self.failed.append({"id": step.id, "reason": visible(str(error))[:_REASON_MAX]})
                if step.row is not None:
                    self.rows[step.row]["reason"] = self.failed[-1]["reason"]
                continue
            self.done += 1
            if found and step.row is not None:
                self.rows[step.row] |= found

    def answer(self, name: str, *, dry_run: bool) -> Row:
        return {
            "action": name,
            "dry_run": dry_run,
            "done": self.done,
            "failed": self.failed,
            "before": self.before,
            "after": self.after,
            "effects": self.effects,
            "confirm": self.confirm,
            "rows": self.rows,
        }


Action = Callable[[Desk, Fields], Awaitable[Plan]]
