"""FlareMQ: Apache RocketMQ's message store in Python, and the data in it for Spark.

Names are loaded on first use, so ``import flaremq`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flaremq.message.message import Message
    from flaremq.message.message_ext import MessageExt
    from flaremq.storage.message_store import MessageStore
    from flaremq.storage.options import StoreOptions
    from flaremq.storage.reading import GetResult
    from flaremq.storage.status import GetMessageStatus, PutMessageStatus
    from flaremq.storage.writing import PutResult

__version__ = "0.1.0"

_HOMES = {
    "GetMessageStatus": "flaremq.storage.status",
    "GetResult": "flaremq.storage.reading",
    "Message": "flaremq.message.message",
    "MessageExt": "flaremq.message.message_ext",
    "MessageStore": "flaremq.storage.message_store",
    "PutMessageStatus": "flaremq.storage.status",
    "PutResult": "flaremq.storage.writing",
    "StoreOptions": "flaremq.storage.options",
}

__all__ = [
    "GetMessageStatus",
    "GetResult",
    "Message",
    "MessageExt",
    "MessageStore",
    "PutMessageStatus",
    "PutResult",
    "StoreOptions",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'flaremq' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
