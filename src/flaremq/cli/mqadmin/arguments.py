"""The flags of one call of ``flaremq mqadmin``, read as RocketMQ's tool reads them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click

from flaremq.digits import whole_number

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool


class Arguments:
    """The flags of one call, by RocketMQ's long names."""

    def __init__(self, context: click.Context, values: dict[str, Any]) -> None:
        self._context = context
        self.command = context.command.name or ""
        self._values = values

    def text(self, name: str) -> str:
        """A flag that must be there."""
        value = self._values[name]
        assert isinstance(value, str)
        return value.strip()

    def maybe(self, name: str) -> str | None:
        """A flag that may be missing."""
        value = self._values[name]
        return value.strip() if isinstance(value, str) else None

    def integer(self, name: str, default: int = 0, *, most: int = 2**63 - 1) -> int:
        value = self.maybe(name)
        if value is None:
            return default
        number = whole_number(value.removeprefix("-"))
        if number is None or number > most:
            self.refuse(f"--{name} takes a whole number up to {most}, not {value[:40]!r}.")
        return -number if value.startswith("-") else number

    def truth(self, name: str, default: bool = False) -> bool:
        """A switch, or a flag with ``true`` or ``false``."""
        value = self._values[name]
        if value is None or isinstance(value, bool):
            return bool(value) if value is not None else default
        if value.strip().lower() not in ("true", "false"):
            self.refuse(f"--{name} takes true or false, not {value!r}.")
        return bool(value.strip().lower() == "true")

    def time(self, name: str, now_ms: int) -> int | None:
        """Milliseconds since 1970."""
        value = self.maybe(name)
        if value is None:
            return None
        try:
            return parse_time(value, now_ms)
        except ValueError:
            self.refuse(f"--{name} takes milliseconds or yyyy-MM-dd#HH:mm:ss:SSS, not {value!r}.")

    def charset(self, name: str) -> str:
        """The name of a charset that exists, UTF-8 unless given."""
        import codecs

        value = self.maybe(name) or "UTF-8"
        try:
            codecs.lookup(value)
        except LookupError:
            self.refuse(f"--{name}: unknown charset {value!r}.")
        return value

    def refuse(self, sentence: str) -> NoReturn:
        raise click.UsageError(sentence, self._context)

    async def repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        """Once, or every ``--interval`` seconds until Ctrl-C."""
        import asyncio
        import sys

        seconds = self.integer("interval")
        await step()
        while seconds > 0:
            sys.stdout.flush()
            await asyncio.sleep(seconds)
            await step()

    async def masters(self, admin: AdminTool) -> dict[str, str]:
        """Addresses of the masters that ``--clusterName`` or ``--brokerAddr`` chooses, by name."""
        return await admin.masters(cluster=self.maybe("clusterName"), broker=self.maybe("brokerAddr"))


def parse_time(text: str, now_ms: int) -> int:
    """``now``, milliseconds, or ``2026-11-16#09:30:00:000`` in local time. ``ValueError`` if none of them."""
    text = text.strip()
    if text == "now":
        return now_ms
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    seconds, _, milliseconds = text.rpartition(":")
    return int(datetime.strptime(seconds, "%Y-%m-%d#%H:%M:%S").timestamp()) * 1000 + int(milliseconds)
