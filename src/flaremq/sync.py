"""Blocking twins of ``Producer``, ``Consumer`` and ``Admin``: the same names and arguments, no event loop in sight.

All of them share one event loop on a thread of its own, started with the first one. They may be used from any thread,
and several threads may share one client. Handlers and listeners run on threads too, so they may block.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from flaremq.client.admin import admin as _admin
from flaremq.client.blocking import LoopThread
from flaremq.client.consumer import consumer as _consumer
from flaremq.client.consumer.delivery import MessageExchange, Receiver
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.subscription import Subscription
from flaremq.client.credentials import Credentials
from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from flaremq.client.producer import producer as _producer
from flaremq.client.producer.send_result import SendResult
from flaremq.client.producer.transactions import TransactionListener, TransactionState, Verdict
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.bodies.queue import MessageQueue

__all__ = ["Admin", "Consumer", "Producer"]

P = ParamSpec("P")
R = TypeVar("R")

_TAKEN_AT_ONCE: Final = 32  # messages that cross the threads together, while a loop is fast
_FAST_SECONDS: Final = 0.001  # a loop that spends less on a message is


_start_lock: Final = threading.Lock()  # guards the start of the loop
_shared: LoopThread | None = None


def _loop() -> LoopThread:
    """The event loop of all blocking clients of this process; one that was forked starts its own."""
    global _shared
    shared = _shared
    if shared is None or not shared.is_alive:
        with _start_lock:
            shared = _shared
            if shared is None or not shared.is_alive:
                shared = _shared = LoopThread("flaremq-client")
    return shared


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The twin of a coroutine method."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> R:
        return _loop().call(method(self._inner, *arguments, **named))

    return call


class _Threaded:
    """A listener whose methods run on threads, so that they may block."""

    def __init__(self, listener: TransactionListener) -> None:
        self._listener = listener

    async def execute(self, message: Message, argument: object) -> TransactionState:
        return await _on_thread(self._listener.execute, message, argument)

    async def check(self, message: MessageExt) -> TransactionState:
        return await _on_thread(self._listener.check, message)


async def _on_thread(function: Callable[..., Verdict], *arguments: object) -> TransactionState:
    outcome = await asyncio.to_thread(function, *arguments)
    return outcome if isinstance(outcome, TransactionState) else await outcome


class _Producer(_producer.Producer):
    _entered_by = "with"


class _Consumer(_consumer.Consumer):
    _entered_by = "with"


class _Admin(_admin.Admin):
    _entered_by = "with"


class _Entered:
    """What a ``with`` does to a client."""

    _inner: _Producer | _Consumer | _Admin

    def __enter__(self) -> Self:
        _loop().call(self._inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _loop().call(self._inner.__aexit__(kind, error, traceback))


class Producer(_Entered):
    """Sends messages. See :class:`flaremq.client.producer.producer.Producer`; use it inside ``with``."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str = _producer.DEFAULT_GROUP,
        options: ProducerOptions | None = None,
        credentials: Credentials | None = None,
        listener: TransactionListener | None = None,
    ) -> None:
        wrapped = None if listener is None else _Threaded(listener)
        self._inner: _Producer = _Producer(
            name_servers, group=group, options=options, credentials=credentials, listener=wrapped
        )

    @property
    def client_id(self) -> str:
        return self._inner.client_id

    start = _blocking(_producer.Producer.start)
    close = _blocking(_producer.Producer.close)
    send = _blocking(_producer.Producer.send)
    send_batch = _blocking(_producer.Producer.send_batch)
    send_oneway = _blocking(_producer.Producer.send_oneway)
    send_ordered = _blocking(_producer.Producer.send_ordered)
    send_delayed = _blocking(_producer.Producer.send_delayed)
    transaction = _blocking(_producer.Producer.transaction)
    request = _blocking(_producer.Producer.request)
    reply = _blocking(_producer.Producer.reply)
    recall = _blocking(_producer.Producer.recall)
    queues = _blocking(_producer.Producer.queues)
    flush = _blocking(_producer.Producer.flush)

    def submit(self, message: Message) -> concurrent.futures.Future[SendResult]:
        """Send without waiting; the future has the result when the message is stored."""
        return _loop().start(self._inner.send(message))


class Consumer(_Entered):
    """Receives messages. See :class:`flaremq.Consumer`; use it inside ``with``, iterate by ``for``.

    Several threads may iterate at the same time. What is done is reported in groups while a loop is fast, so a crash
    may repeat some more messages than with the asyncio consumer.
    """

    # Many parameters on purpose: those of its twin.
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        subscribe: Subscription | None = None,
        orderly: bool = False,
        broadcasting: bool = False,
        start_from: str | int | datetime = "last",
        options: ConsumerOptions | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._inner: _Consumer = _Consumer(
            name_servers,
            group=group,
            subscribe=subscribe,
            orderly=orderly,
            broadcasting=broadcasting,
            start_from=start_from,
            options=options,
            credentials=credentials,
        )
        self._own = threading.local()  # what receive() has handed out to each thread

    @property
    def client_id(self) -> str:
        return self._inner.client_id

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer has at present."""
        return _loop().apply(lambda: self._inner.assignment)

    start = _blocking(_consumer.Consumer.start)
    close = _blocking(_consumer.Consumer.close)
    run = _blocking(_consumer.Consumer.run)
    pull = _blocking(_consumer.Consumer.pull)
    queues = _blocking(_consumer.Consumer.queues)
    assign = _blocking(_consumer.Consumer.assign)
    commit = _blocking(_consumer.Consumer.commit)
    committed = _blocking(_consumer.Consumer.committed)
    min_offset = _blocking(_consumer.Consumer.min_offset)
    max_offset = _blocking(_consumer.Consumer.max_offset)
    offset_by_time = _blocking(_consumer.Consumer.offset_by_time)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on in a queue from this offset."""
        _loop().apply(self._inner.seek, queue, offset)

    def position(self, queue: MessageQueue) -> int:
        """The offset below which every message of a queue is done."""
        return _loop().apply(self._inner.position, queue)

    def pause(self, *queues: MessageQueue) -> None:
        """Deliver nothing of these queues (of all, if none is named) until :meth:`resume`."""
        _loop().apply(self._inner.pause, *queues)

    def resume(self, *queues: MessageQueue) -> None:
        _loop().apply(self._inner.resume, *queues)

    def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        """The next message; None if none comes within ``timeout`` seconds, or the consumer is closed.

        As in a loop, a message is done when the same thread asks for the next one, or the consumer is closed without an
        error; ``message.ack()`` and ``message.retry()`` decide at once.
        """
        receiver: Receiver | None = getattr(self._own, "receiver", None)
        if receiver is None:
            receiver = self._own.receiver = _loop().apply(self._inner.receiver)
        return _loop().call(receiver.receive(timeout))

    def batches(self, count_max: int = 32) -> Iterator[list[ReceivedMessage]]:
        """A loop over lists of up to ``count_max`` messages, each list done when the next one is asked for."""
        if count_max < 1:
            raise InvalidArgumentError(f"a batch of {count_max} messages is none")
        return self._batches(_loop().apply(self._inner.exchange), count_max)

    def _batches(self, exchange: MessageExchange, count_max: int) -> Iterator[list[ReceivedMessage]]:
        current: list[ReceivedMessage] = []
        done: list[ReceivedMessage] = []
        try:
            while True:
                try:
                    current = _loop().call(_exchange(exchange, done, count_max))
                except _Ended:
                    return
                yield list(current)
                current, done = [], current
        finally:
            _loop().loop.call_soon_threadsafe(_leave, exchange, done, current)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self._messages(_loop().apply(self._inner.exchange))

    def _messages(self, exchange: MessageExchange) -> Iterator[ReceivedMessage]:
        taken: list[ReceivedMessage] = []
        current: list[ReceivedMessage] = []
        done: list[ReceivedMessage] = []
        count_max = 1
        try:
            while True:
                try:
                    taken = _loop().call(_exchange(exchange, done, count_max))
                except _Ended:
                    return
                done = []
                started = time.monotonic()
                for message in taken:
                    current = [message]
                    yield message
                    current = []
                    done.append(message)
                is_fast = time.monotonic() - started < _FAST_SECONDS * len(taken)
                count_max = _TAKEN_AT_ONCE if is_fast else 1
        finally:
            _loop().loop.call_soon_threadsafe(_leave, exchange, done, current)


class _Ended(Exception):
    """The consumer is closed; a StopAsyncIteration cannot cross the threads in a future."""


async def _exchange(exchange: MessageExchange, done: list[ReceivedMessage], count_max: int) -> list[ReceivedMessage]:
    try:
        return await exchange.exchange(done, count_max)
    except StopAsyncIteration:
        raise _Ended from None


def _leave(exchange: MessageExchange, done: list[ReceivedMessage], current: list[ReceivedMessage]) -> None:
    exchange.settle(done)
    exchange.leave(current)


class Admin(_Entered):
    """Orders to brokers and name servers. See :class:`flaremq.client.admin.admin.Admin`; use it inside ``with``."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        options: ClientOptions | None = None,
        credentials: Credentials | None = None,
        timeout: float = 5.0,
    ) -> None:
        self._inner: _Admin = _Admin(name_servers, options=options, credentials=credentials, timeout=timeout)

    @property
    def name_servers(self) -> list[str]:
        return self._inner.name_servers

    start = _blocking(_admin.Admin.start)
    close = _blocking(_admin.Admin.close)
    cluster_info = _blocking(_admin.Admin.cluster_info)
    masters = _blocking(_admin.Admin.masters)
    list_topics = _blocking(_admin.Admin.list_topics)
    list_system_topics = _blocking(_admin.Admin.list_system_topics)
    topic_route = _blocking(_admin.Admin.topic_route)
    queues = _blocking(_admin.Admin.queues)
    topic_stats = _blocking(_admin.Admin.topic_stats)
    topic_status = _blocking(_admin.Admin.topic_status)
    topic_config = _blocking(_admin.Admin.topic_config)
    topic_configs = _blocking(_admin.Admin.topic_configs)
    create_topic = _blocking(_admin.Admin.create_topic)
    set_topic_permission = _blocking(_admin.Admin.set_topic_permission)
    delete_topic = _blocking(_admin.Admin.delete_topic)
    topic_groups = _blocking(_admin.Admin.topic_groups)
    list_groups = _blocking(_admin.Admin.list_groups)
    group_configs = _blocking(_admin.Admin.group_configs)
    group_config = _blocking(_admin.Admin.group_config)
    create_group = _blocking(_admin.Admin.create_group)
    delete_group = _blocking(_admin.Admin.delete_group)
    group_progress = _blocking(_admin.Admin.group_progress)
    group_connections = _blocking(_admin.Admin.group_connections)
    producer_connections = _blocking(_admin.Admin.producer_connections)
    all_producers = _blocking(_admin.Admin.all_producers)
    reset_offset = _blocking(_admin.Admin.reset_offset)
    clone_offsets = _blocking(_admin.Admin.clone_offsets)
    commit_offset = _blocking(_admin.Admin.commit_offset)
    committed = _blocking(_admin.Admin.committed)
    min_offset = _blocking(_admin.Admin.min_offset)
    max_offset = _blocking(_admin.Admin.max_offset)
    offset_by_time = _blocking(_admin.Admin.offset_by_time)
    consumer_running_info = _blocking(_admin.Admin.consumer_running_info)
    consumer_positions = _blocking(_admin.Admin.consumer_positions)
    consume_time_span = _blocking(_admin.Admin.consume_time_span)
    group_topics = _blocking(_admin.Admin.group_topics)
    group_subscription = _blocking(_admin.Admin.group_subscription)
    broker_consume_stats = _blocking(_admin.Admin.broker_consume_stats)
    set_consume_mode = _blocking(_admin.Admin.set_consume_mode)
    query_by_key = _blocking(_admin.Admin.query_by_key)
    query_by_unique_key = _blocking(_admin.Admin.query_by_unique_key)
    view_message = _blocking(_admin.Admin.view_message)
    get_message = _blocking(_admin.Admin.get_message)
    pull = _blocking(_admin.Admin.pull)
    message_at = _blocking(_admin.Admin.message_at)
    message_track = _blocking(_admin.Admin.message_track)
    consume_directly = _blocking(_admin.Admin.consume_directly)
    query_consume_queue = _blocking(_admin.Admin.query_consume_queue)
    resend_dead_letter = _blocking(_admin.Admin.resend_dead_letter)
    resume_half_message = _blocking(_admin.Admin.resume_half_message)
    broker_status = _blocking(_admin.Admin.broker_status)
    broker_config = _blocking(_admin.Admin.broker_config)
    set_broker_config = _blocking(_admin.Admin.set_broker_config)
    broker_stats = _blocking(_admin.Admin.broker_stats)
    ha_status = _blocking(_admin.Admin.ha_status)
    controller_metadata = _blocking(_admin.Admin.controller_metadata)
    sync_state = _blocking(_admin.Admin.sync_state)
    elect_master = _blocking(_admin.Admin.elect_master)
    clean_broker_metadata = _blocking(_admin.Admin.clean_broker_metadata)
    controller_config = _blocking(_admin.Admin.controller_config)
    set_controller_config = _blocking(_admin.Admin.set_controller_config)
    broker_epochs = _blocking(_admin.Admin.broker_epochs)
    reset_master_flush_offset = _blocking(_admin.Admin.reset_master_flush_offset)
    clean_expired_queues = _blocking(_admin.Admin.clean_expired_queues)
    clean_unused_topics = _blocking(_admin.Admin.clean_unused_topics)
    delete_expired_commit_log = _blocking(_admin.Admin.delete_expired_commit_log)
    wipe_write_permission = _blocking(_admin.Admin.wipe_write_permission)
    add_write_permission = _blocking(_admin.Admin.add_write_permission)
    name_server_config = _blocking(_admin.Admin.name_server_config)
    set_name_server_config = _blocking(_admin.Admin.set_name_server_config)
    put_kv_config = _blocking(_admin.Admin.put_kv_config)
    get_kv_config = _blocking(_admin.Admin.get_kv_config)
    delete_kv_config = _blocking(_admin.Admin.delete_kv_config)
    list_kv_config = _blocking(_admin.Admin.list_kv_config)
    replicas = _blocking(_admin.Admin.replicas)
    create_user = _blocking(_admin.Admin.create_user)
    update_user = _blocking(_admin.Admin.update_user)
    delete_user = _blocking(_admin.Admin.delete_user)
    get_user = _blocking(_admin.Admin.get_user)
    list_users = _blocking(_admin.Admin.list_users)
    create_acl = _blocking(_admin.Admin.create_acl)
    update_acl = _blocking(_admin.Admin.update_acl)
    copy_acl = _blocking(_admin.Admin.copy_acl)
    delete_acl = _blocking(_admin.Admin.delete_acl)
    get_acl = _blocking(_admin.Admin.get_acl)
    list_acls = _blocking(_admin.Admin.list_acls)
    update_acl_account = _blocking(_admin.Admin.update_acl_account)
    delete_acl_account = _blocking(_admin.Admin.delete_acl_account)
    set_global_white_addresses = _blocking(_admin.Admin.set_global_white_addresses)
    acl_file_versions = _blocking(_admin.Admin.acl_file_versions)
    acl_config = _blocking(_admin.Admin.acl_config)
