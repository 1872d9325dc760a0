"""FlareMQ: Apache RocketMQ's message store in Python, and the data in it for Spark.

Names are loaded on first use, so ``import flaremq`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flaremq.message.message import Message
    from flaremq.message.message_ext import MessageExt
    from flaremq.storage.get_result import GetResult
    from flaremq.storage.message_store import MessageStore
    from flaremq.storage.options import StoreOptions
    from flaremq.storage.put_result import PutResult
    from flaremq.storage.status import GetMessageStatus, PutMessageStatus

__version__ = "0.1.0"

_HOMES = {
    "GetMessageStatus": "flaremq.storage.status",
    "GetResult": "flaremq.storage.get_result",
    "Message": "flaremq.message.message",
    "MessageExt": "flaremq.message.message_ext",
    "MessageStore": "flaremq.storage.message_store",
    "PutMessageStatus": "flaremq.storage.status",
    "PutResult": "flaremq.storage.put_result",
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
