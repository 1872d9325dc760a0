"""A transport without a socket: a connection on it takes bytes from a test and keeps what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from flaremq.broker.ingest import kernels


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 40000) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int = 0) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += bytes(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None: ...


@asynccontextmanager
async def sends_compiled(wanted: bool) -> AsyncIterator[None]:
    """Brokers that start meanwhile handle the plain sends of a read in one go, or leave them to plain code.

    Where the core is not compiled the same source runs interpreted.
    """
    with patch.object(kernels, "IS_COMPILED", wanted):
        yield
