"""FlareMQ: Apache RocketMQ's message store in Python, and the data in it for Spark.

Names are loaded on first use, so ``import flaremq`` stays light.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if os.environ.get("FLAREMQ_INTERPRETED"):
    from flaremq import interpreted

    interpreted.install()

if TYPE_CHECKING:
    from flaremq import errors, sync, testing
    from flaremq.client.admin.admin import Admin
    from flaremq.client.consumer.consumer import Consumer
    from flaremq.client.consumer.received import ReceivedMessage
    from flaremq.client.consumer.subscription import SqlFilter
    from flaremq.client.credentials import Credentials
    from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
    from flaremq.client.producer.producer import Producer
    from flaremq.client.producer.send_result import SendResult, SendStatus
    from flaremq.client.producer.transactions import TransactionListener, TransactionResult, TransactionState
    from flaremq.message.message import Message
    from flaremq.message.message_ext import MessageExt
    from flaremq.pipeline.scan import scan
    from flaremq.pipeline.spark.table import table
    from flaremq.protocol.bodies.queue import MessageQueue
    from flaremq.storage.get.get_result import GetResult
    from flaremq.storage.message_store import MessageStore
    from flaremq.storage.options import StoreOptions
    from flaremq.storage.put.put_result import PutResult
    from flaremq.storage.status import GetMessageStatus, PutMessageStatus

__version__ = "0.1.0"

_HOMES = {
    "Admin": "flaremq.client.admin.admin",
    "ClientOptions": "flaremq.client.options",
    "Consumer": "flaremq.client.consumer.consumer",
    "ConsumerOptions": "flaremq.client.options",
    "Credentials": "flaremq.client.credentials",
    "GetMessageStatus": "flaremq.storage.status",
    "GetResult": "flaremq.storage.get.get_result",
    "Message": "flaremq.message.message",
    "MessageExt": "flaremq.message.message_ext",
    "MessageQueue": "flaremq.protocol.bodies.queue",
    "MessageStore": "flaremq.storage.message_store",
    "Producer": "flaremq.client.producer.producer",
    "ProducerOptions": "flaremq.client.options",
    "PutMessageStatus": "flaremq.storage.status",
    "PutResult": "flaremq.storage.put.put_result",
    "ReceivedMessage": "flaremq.client.consumer.received",
    "SendResult": "flaremq.client.producer.send_result",
    "SendStatus": "flaremq.client.producer.send_result",
    "SqlFilter": "flaremq.client.consumer.subscription",
    "StoreOptions": "flaremq.storage.options",
    "TransactionListener": "flaremq.client.producer.transactions",
    "TransactionResult": "flaremq.client.producer.transactions",
    "TransactionState": "flaremq.client.producer.transactions",
    "scan": "flaremq.pipeline.scan",
    "table": "flaremq.pipeline.spark.table",
}

__all__ = [
    "Admin",
    "ClientOptions",
    "Consumer",
    "ConsumerOptions",
    "Credentials",
    "GetMessageStatus",
    "GetResult",
    "Message",
    "MessageExt",
    "MessageQueue",
    "MessageStore",
    "Producer",
    "ProducerOptions",
    "PutMessageStatus",
    "PutResult",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "SqlFilter",
    "StoreOptions",
    "TransactionListener",
    "TransactionResult",
    "TransactionState",
    "errors",
    "scan",
    "sync",
    "table",
    "testing",
]

_MODULES = frozenset(("errors", "sync", "testing"))


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"flaremq.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'flaremq' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What a prompt completes; nothing of it is loaded by that."""
    return sorted([*__all__, "__version__"])
