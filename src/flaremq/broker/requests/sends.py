"""Sends: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE.

Nearly every send is a plain message to a topic that exists. ``_send_plain`` answers those on the event loop without
an awaitable, a task or a header object: a few dictionary look-ups, one append, and a reply made from a template, now
or when the sync thread reports. Everything else (new topics, delays, transactions, retries, errors) takes the long
way, which decides in RocketMQ's order.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Any

import orjson

from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.names import check_sendable, check_topic
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.message_rules import MessageKind, TimerRules, prepare, recall_handle
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.put_status import code_of
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.broker.streams.ledger import STAMP
from flaremq.broker.streams.sends import StreamSends
from flaremq.clock import Clock
from flaremq.message import properties as names
from flaremq.message.message_id import UniqueKeyFactory
from flaremq.message.properties import edit_properties, find_property, parse_properties
from flaremq.message.stored_form import StoredForm, delay_level_of
from flaremq.message.topics import DLQ_PREFIX, RETRY_PREFIX, dlq_topic
from flaremq.protocol.bodies.topic import PERM_WRITE, TopicConfig
from flaremq.protocol.codes import VERSION, RequestCode, ResponseCode
from flaremq.protocol.command import JSON_HEADER, ONEWAY_FLAG, ExtValue, RemotingCommand, RequestError
from flaremq.protocol.headers.send import SendMessageRequestHeader, decode_send_header
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_WORDS = Struct(">II")
_COMPACT = Struct(">hBhiiii")  # a compact header without remark up to its ext fields
_COMPACT_FRAME = Struct(">iIhBhiiii")
_pack_int = Struct(">i").pack
_UNACKNOWLEDGED_MAX = 200_000  # appends that may wait for the disk; a client hears "busy" beyond that
_RECONSUME_LIMIT_VERSION = 121  # clients from this release on say how often a message may be tried

# A property that decides where a message goes, or that the broker itself writes.
_SPECIAL = (
    "DELAY\x01",
    "TIMER_D",
    "TRAN_MSG\x01",
    "CLUSTER\x01",
    "MSG_REGION\x01",
    "TRACE_ON\x01",
    "POP_CK\x01",
    "WAIT\x01false",
    "INNER_",
    "CRC32",
)
_DELAY, _TIMER, _TRAN, _CLUSTER, _REGION, _TRACE, _POP, _NO_WAIT, _INNER, _CRC = _SPECIAL


class SendHandler:
    """Takes messages from producers."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreLoop,
        topics: TopicTable,
        groups: GroupTable,
        statistics: BrokerStatistics,
        store_host: bytes,
        check_half: Callable[[], None] | None = None,
        is_ordered: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self._options = options
        self._clock = clock
        self._store_loop = store_loop
        self._append = store_loop.driver.append
        self._topics = topics
        self._groups = groups
        self._statistics = statistics
        self._table: HandlerTable | None = None
        store_loop.kernels.imports.append(_import_ingest)
        store_loop.kernels.on_loaded.append(self._use_kernels)
        self._store_host = store_host
        self._is_ordered = is_ordered  # whether somebody consumes in order for a group
        self._check_half = check_half  # raises RequestError if no transaction may begin now
        self._host_text = store_host.hex().upper()
        self._unique_keys = UniqueKeyFactory(
            address=store_host[:-4], process_id=os.getpid(), instance_hash=secrets.randbits(32)
        )
        self._queues_of: dict[str, int] = {}  # plain topics we sent to before: how many queue ids are legal
        # What a client may change at run time decides about every send: forget what was derived from it.
        topics.on_change.append(self._forget)
        topics.on_delete.append(lambda _: self._queues_of.clear())
        self._ingesting = False
        self.streams = StreamSends(self, store_loop, statistics)
        self._derive()

    def _derive(self) -> None:
        """What every message gets, as the options are now."""
        options = self._options
        self._stamp = (
            f"MSG_REGION\x01{options.region_id}\x02CLUSTER\x01{options.broker_cluster_name}\x02"
            f"TRACE_ON\x01{'true' if options.trace_on else 'false'}\x02"
        )
        self._traits: dict[str, str] = {
            "MSG_REGION": options.region_id,
            "TRACE_ON": "true" if options.trace_on else "false",
        }
        self._traits_block = b"".join(
            len(name).to_bytes(2, "big") + name.encode() + len(value).to_bytes(4, "big") + value.encode()
            for name, value in self._traits.items()
        )
        self._traits_text = orjson.dumps(self._traits).decode()[1:-1]

    def options_changed(self, _: Mapping[str, str]) -> None:
        """Options may change while the broker runs: what was derived from them is derived again."""
        self._queues_of.clear()
        self._derive()
        if self._ingesting:
            self._use_kernels()

    def _forget(self, _: TopicConfig | None) -> None:
        self._queues_of.clear()

    def register(self, table: HandlerTable) -> None:
        self._table = table
        self.streams.register(table)
        table.register(RequestCode.SEND_MESSAGE_V2, self.send_v2, "send")
        table.register(RequestCode.SEND_MESSAGE, self.send, "send")
        table.register(RequestCode.SEND_BATCH_MESSAGE, self.send_batch, "send")

    def _use_kernels(self) -> None:
        """Let compiled code take the plain sends of a read before the decoder sees them."""
        from flaremq.broker.ingest.ingest import Ingest

        self._ingesting = True
        ingest = Ingest(
            self._store_loop,
            self._statistics,
            self._queues_of,
            self._stamp,
            self._store_host,
            self._traits_block,
            self._traits_text,
            _UNACKNOWLEDGED_MAX,
            self._confirm,
        )
        if self._table is not None:
            self._table.take = ingest.take

    # The short way

    def send_v2(self, connection: Connection, request: RemotingCommand) -> Any:
        """A send whose fields are letters."""
        ext: Any = request.ext
        if not ext:
            return self._send(connection, request)
        if ext.get("m") == "true":
            return self.send_batch(connection, request)
        try:
            topic, properties, reconsume_times = ext["b"], ext.get("i") or "", ext.get("j")
            queue_id, sys_flag, born_timestamp, flag = int(ext["e"]), int(ext["f"]), int(ext["g"]), int(ext["h"])
        except (KeyError, ValueError):  # the long way says what is wrong
            return self._send(connection, request)
        # Not within the try: an error after the append must not store the message a second time.
        return self._send_plain(
            connection, request, topic, queue_id, sys_flag, born_timestamp, flag, properties, reconsume_times
        )

    def send(self, connection: Connection, request: RemotingCommand) -> Any:
        """A send whose fields have their long names."""
        ext: Any = request.ext
        if not ext:
            return self._send(connection, request)
        if STAMP in ext:
            return self.streams.send(connection, request)
        if ext.get("batch") == "true":
            return self.send_batch(connection, request)
        try:
            topic, properties, reconsume_times = ext["topic"], ext.get("properties") or "", ext.get("reconsumeTimes")
            queue_id, sys_flag = int(ext["queueId"]), int(ext["sysFlag"])
            born_timestamp, flag = int(ext["bornTimestamp"]), int(ext["flag"])
        except (KeyError, ValueError):  # the long way says what is wrong
            return self._send(connection, request)
        return self._send_plain(
            connection, request, topic, queue_id, sys_flag, born_timestamp, flag, properties, reconsume_times
        )

    def _send_plain(
        self,
        connection: Connection,
        request: RemotingCommand,
        topic: str,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        flag: int,
        properties: str,
        reconsume_times: str | None,
    ) -> Any:
        queues = self._queues_of.get(topic)
        if (
            queues is None
            or not 0 <= queue_id < queues
            or sys_flag & ~0x701  # anything but compression
            or flag >> 31  # negative, or no int32
            or born_timestamp >> 63
            or (reconsume_times is not None and reconsume_times != "0")
            or ("\x02UNIQ_KEY\x01" not in properties and not properties.startswith("UNIQ_KEY\x01"))
            or _DELAY in properties
            or _TIMER in properties
            or _TRAN in properties
            or _CLUSTER in properties
            or _REGION in properties
            or _TRACE in properties
            or _POP in properties
            or _NO_WAIT in properties
            or _INNER in properties
            or _CRC in properties
            or len(connection.peer_host) != 8
        ):
            return self._send(connection, request)
        store_loop = self._store_loop
        if store_loop.durability.unacknowledged >= _UNACKNOWLEDGED_MAX:
            return _busy(store_loop)
        if properties[-1] != "\x02":
            properties += "\x02"
        body: Any = request.body
        appended = self._append(
            topic,
            queue_id,
            body,
            (properties + self._stamp).encode("utf-8", "replace"),
            flag,
            sys_flag,
            born_timestamp,
            connection.peer_host,
            0,
        )
        if type(appended) is not tuple:
            return self.refusal(appended)  # type: ignore[arg-type]  # not a tuple: a refusal
        queue_offset, physical_offset, end = appended
        store_loop.dispatching.note_awaited(topic, end)
        self._statistics.note_put(topic, 1, end - physical_offset)
        if store_loop.waits_for_sync:
            connection.begin(request)
            store_loop.durability.when_durable(
                end, partial(self._confirm, connection, request, queue_id, queue_offset, physical_offset)
            )
            return None
        store_loop.durability.appended()
        if not request.flag & ONEWAY_FLAG:
            self._acknowledge(connection, request, queue_id, queue_offset, physical_offset)
        return None

    def _confirm(
        self,
        connection: Connection,
        request: RemotingCommand,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        status: PutMessageStatus,
    ) -> None:
        """The sync thread has spoken."""
        connection.finish(request)
        if request.flag & ONEWAY_FLAG or not connection.is_open:
            return
        if status is PutMessageStatus.PUT_OK:
            self._acknowledge(connection, request, queue_id, queue_offset, physical_offset)
        else:
            message_id = f"{self._host_text}{physical_offset:016X}"
            connection.reply(request, self._stored(status, queue_id, queue_offset, message_id, None))

    def _acknowledge(
        self,
        connection: Connection,
        request: RemotingCommand,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
    ) -> None:
        if request.serialize_type != JSON_HEADER:
            message_id = f"{self._host_text}{physical_offset:016X}".encode()
            number, place = b"%d" % queue_id, b"%d" % queue_offset
            ext = b"\0\7queueId%b%b\0\5msgId%b%b\0\x0bqueueOffset%b%b%b" % (
                _pack_int(len(number)),
                number,
                _pack_int(len(message_id)),
                message_id,
                _pack_int(len(place)),
                place,
                self._traits_block,
            )
            size = _COMPACT.size + len(ext)
            connection.write(
                [_COMPACT_FRAME.pack(size + 4, 1 << 24 | size, 0, 3, VERSION, request.opaque, 1, 0, len(ext)) + ext]
            )
            return
        header = (
            f'{{"code":0,"extFields":{{"queueId":"{queue_id}","msgId":"{self._host_text}{physical_offset:016X}",'
            f'"queueOffset":"{queue_offset}",{self._traits_text}}},"flag":1,"language":"PYTHON",'
            f'"opaque":{request.opaque},"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        ).encode()
        size = len(header)
        connection.write([_WORDS.pack(size + 4, size) + header])

    # The long way

    async def _send(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            header = decode_send_header(request.code, request.ext)
            config = await self.check(header)
            form = self.form(connection, request, header, config)
            form = await self._redirect(form, header, request, config)
            kind, routed = self.routed(form)
            if kind is MessageKind.HALF and self._options.reject_transaction_message:
                raise RequestError(
                    ResponseCode.NO_PERMISSION,
                    f"the broker[{self._options.broker_ip1}] sending transaction message is forbidden",
                )
            if kind is MessageKind.HALF and self._check_half is not None:
                self._check_half()
            result = await self._store_loop.put(routed)
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=self._traits)
        if result.physical_offset < 0:
            return self.refusal(result)
        self._statistics.note_put(header.topic, 1, result.size)
        transaction_id = find_property(form.properties, b"UNIQ_KEY")
        response = self._stored(
            result.status,
            form.queue_id,
            result.queue_offset,
            result.message_id,
            None if transaction_id is None else transaction_id.decode("utf-8", "replace"),
        )
        if kind is MessageKind.TIMED and (handle := recall_handle(routed, self._options.broker_name)) is not None:
            response.ext = {**(response.ext or {}), "recallHandle": handle}
        return response

    def routed(self, form: StoredForm) -> tuple[MessageKind, StoredForm]:
        """The record of a message that may have to wait somewhere first."""
        return prepare(form, now_ms=self._clock.now_ms(), timer=TimerRules.of(self._options))

    async def check(self, header: SendMessageRequestHeader) -> TopicConfig:
        """The topic to send to; RocketMQ's checks in RocketMQ's order."""
        options = self._options
        if self._clock.now_ms() < options.start_accept_send_request_time_stamp:
            start = options.start_accept_send_request_time_stamp
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {start}")
        topic = header.topic
        config = self._topics.find(topic)
        if not options.broker_permission & PERM_WRITE and config is not None and config.order:
            address = f"{options.broker_ip1}:{options.listen_port}"
            raise RequestError(ResponseCode.NO_PERMISSION, f"the broker[{address}] sending message is forbidden")
        check_topic(topic)
        check_sendable(topic)
        if config is None:
            config = await self._create(header)
        queues = max(config.write_queue_nums, config.read_queue_nums)
        if header.queue_id >= queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"request queueId[{header.queue_id}] is illegal, {config} "
            )
        plain = not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and options.broker_permission & PERM_WRITE
        if plain and not options.start_accept_send_request_time_stamp:
            self._queues_of[topic] = queues
        return config

    async def _create(self, header: SendMessageRequestHeader) -> TopicConfig:
        topic = header.topic
        config = self._topics.create_on_send(topic, header.default_topic, header.default_topic_queue_nums)
        if config is None and topic.startswith(RETRY_PREFIX):
            config = self._topics.create_on_send_back(topic, 1)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        await self._topics.settle()
        return config

    def form(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> StoredForm:
        """The message as sent, with what the broker adds to its properties."""
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(1, config.write_queue_nums))
        raw = (header.properties or "").encode("utf-8", "replace")
        changes: dict[str, str | None] = {
            names.REGION: self._options.region_id,
            names.CLUSTER: self._options.broker_cluster_name,
            names.TRACE_SWITCH: self._traits["TRACE_ON"],
            "POP_CK": None,
        }
        if not find_property(raw, b"UNIQ_KEY"):
            changes[names.UNIQUE_KEY] = self._unique_keys.make(self._clock.now_ms())
        properties = edit_properties(raw, changes)
        if len(properties) > 32767 or find_property(properties, b"INNER_NUM") is not None:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, _illegal(self._store_loop))
        wait = parse_properties(raw).get(names.WAIT, "true") != "false"
        return StoredForm(
            topic=header.topic,
            queue_id=queue_id,
            body=request.body_bytes,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            reconsume_times=header.reconsume_times,
            wait_store_msg_ok=wait,
        )

    async def _redirect(
        self, form: StoredForm, header: SendMessageRequestHeader, request: RemotingCommand, config: TopicConfig
    ) -> StoredForm:
        """A consumer that sends a message back by a plain send: too often tried makes it a dead letter.

        A consumer in order tries by itself and sends back only what it gives up, with as many tries as are allowed
        (4.9) or one more (5.x). A lock of its group tells it from the others, as in RocketMQ 5.
        """
        if not header.topic.startswith(RETRY_PREFIX):
            return form
        group = header.topic[len(RETRY_PREFIX) :]
        group_config = self._groups.find(group)
        if group_config is None:
            remark = f"subscription group not exist, {group}"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        limit = group_config.retry_max_times
        if request.version >= _RECONSUME_LIMIT_VERSION and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        if header.reconsume_times <= limit and not self._is_ordered(group):
            return form
        topic = dlq_topic(group)
        self._topics.create_on_send_back(topic, 1)
        await self._topics.settle()
        origin = find_property(form.properties, names.RETRY_TOPIC.encode())
        self._statistics.note_dead_letter(group, header.topic if origin is None else str(origin, "utf-8", "replace"))
        return replace(form.with_properties({names.DELAY: None}), topic=topic, queue_id=0)

    # Batches

    def send_batch(self, connection: Connection, request: RemotingCommand) -> Any:
        """Several messages of one queue in one body: like a plain send, the long way only where it must be."""
        header = decode_send_header(request.code, request.ext)
        if request.ext is not None and STAMP in request.ext:
            return self.streams.send_batch(connection, request, header)
        queues = self._queues_of.get(header.topic)
        properties = header.properties or ""
        if queues is None or not 0 <= header.queue_id < queues or _DELAY in properties:
            return self._send_batch(connection, request, header)
        store_loop = self._store_loop
        if store_loop.durability.unacknowledged >= _UNACKNOWLEDGED_MAX:
            return _busy(store_loop)
        result = store_loop.driver.append_batch_body(
            header.topic,
            header.queue_id,
            request.body_bytes,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            sys_flag=header.sys_flag,
        )
        if result.physical_offset < 0:
            return self.refusal(result)
        self._statistics.note_put(header.topic, result.count, result.size)
        end = result.physical_offset + result.size
        store_loop.dispatching.note_awaited(header.topic, end)
        if store_loop.waits_for_sync:
            connection.begin(request)
            store_loop.durability.when_durable(end, partial(self._confirm_batch, connection, request, header, result))
            return None
        store_loop.durability.appended()
        return self._stored_batch(header, header.queue_id, result, PutMessageStatus.PUT_OK)

    def _confirm_batch(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        result: PutResult,
        status: PutMessageStatus,
    ) -> None:
        connection.finish(request)
        connection.reply(request, self._stored_batch(header, header.queue_id, result, status))

    def _stored_batch(
        self, header: SendMessageRequestHeader, queue_id: int, result: PutResult, status: PutMessageStatus
    ) -> RemotingCommand:
        unique = find_property((header.properties or "").encode("utf-8", "replace"), b"UNIQ_KEY")
        transaction_id = None if unique is None else unique.decode("utf-8", "replace")
        return self._stored(status, queue_id, result.queue_offset, result.message_id, transaction_id)

    async def _send_batch(
        self, connection: Connection, request: RemotingCommand, header: SendMessageRequestHeader
    ) -> RemotingCommand:
        try:
            if header.topic.startswith(RETRY_PREFIX):
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
                )
            config = await self.check(header)
            if delay_level_of((header.properties or "").encode("utf-8", "replace")) > 0:
                raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=self._traits)
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(1, config.write_queue_nums))
        result = await self._store_loop.put_batch_body(
            header.topic,
            queue_id,
            request.body_bytes,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            sys_flag=header.sys_flag,
        )
        if result.physical_offset < 0:
            return self.refusal(result)
        self._statistics.note_put(header.topic, result.count, result.size)
        return self._stored_batch(header, queue_id, result, result.status)

    # Replies

    def _stored(
        self,
        status: PutMessageStatus,
        queue_id: int,
        queue_offset: int,
        message_id: str,
        transaction_id: str | None,
    ) -> RemotingCommand:
        """The reply about a message that is in the log."""
        code = code_of(status)
        ext: dict[str, ExtValue] = {"queueId": queue_id, "msgId": message_id, "queueOffset": queue_offset}
        ext |= self._traits
        if transaction_id is not None:
            ext["transactionId"] = transaction_id
        remark = None if code == ResponseCode.SUCCESS else self._store_loop.store.health_state.refusal or status.name
        return RemotingCommand.response(code, remark, ext=ext)

    def refusal(self, result: PutResult) -> RemotingCommand:
        """The reply about a message that is not."""
        code = code_of(result.status)
        if code == ResponseCode.MESSAGE_ILLEGAL:
            remark = f"{_illegal(self._store_loop)} {result.detail or ''}".rstrip()
        elif code == ResponseCode.SYSTEM_BUSY:
            remark = f"[PC_SYNCHRONIZED]broker busy, start flow control for a while: {result.detail}"
        elif code == ResponseCode.SERVICE_NOT_AVAILABLE:
            remark = f"service not available now: {result.detail}"
        else:
            remark = f"{result.status.name}: {result.detail}"
        return RemotingCommand.response(code, remark, ext=self._traits)


def _illegal(store_loop: StoreLoop) -> str:
    return (
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {store_loop.store.options.max_message_size}B, msg properties length limit 32KB."
    )


def _import_ingest() -> None:
    import flaremq.broker.ingest.ingest  # noqa: F401


def _busy(store_loop: StoreLoop) -> RemotingCommand:
    waiting = store_loop.durability.unacknowledged
    remark = f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while: {waiting} wait for the disk"
    return RemotingCommand.response(ResponseCode.SYSTEM_BUSY, remark)
