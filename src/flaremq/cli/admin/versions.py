"""Release numbers as clients and brokers give them."""

from __future__ import annotations

from flaremq.protocol.codes import version_text

__all__ = ["version_text"]
