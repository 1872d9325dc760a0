"""Audit lines of the dashboard, in the form of the servers' audit log."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson

from flaremq.access.audit import AuditLog
from flaremq.clock import Clock

ACTION_CODE: Final = 0  # where servers write the code of a request: an action may be several requests, or none


class AuditLines:
    """Every action and every refusal, on disk before the answer goes out."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._log = AuditLog(path, clock.now_ms)

    async def action(self, user: str, address: str, name: str, what: dict[str, Any], failures: int) -> None:
        """Something was done, or failed in so many places. Bodies are left out, long texts are cut."""
        text = f"{name} {orjson.dumps(what, default=str).decode()}"
        self._log.change(user=user, address=address, code=ACTION_CODE, what=text, result=failures)
        await self.write()

    async def refused(self, user: str, address: str, what: str, rule: str) -> None:
        self._log.refused(user=user, address=address, code=ACTION_CODE, what=what, rule=rule, is_proven=bool(user))
        await self.write()

    async def write(self) -> None:
        if self._log.has_lines:
            await asyncio.to_thread(self._log.write)
