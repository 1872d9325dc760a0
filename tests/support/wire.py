"""A transport without a socket: a connection on it takes bytes from a test and keeps what it answers."""

from __future__ import annotations

from typing import Any


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 40000)

    def set_write_buffer_limits(self, high: int = 0) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += bytes(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None: ...
