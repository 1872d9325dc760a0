"""POP on a bench: a real store and real tables, a clock that stands still, and clients without a network.

``PopLab`` is one broker's POP. ``crash`` forgets what a killed process forgets: everything but the log and the last
saved offsets. Receipts are put together from a reply as the Java client does it, so what it could not parse fails.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from flaremq.broker.catalog.catalog import Catalog
from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pop.order_info import ConsumerOrderInfo
from flaremq.broker.pop.receipts import Receipt, real_topic, retry_flag
from flaremq.broker.pop.service import PopService
from flaremq.broker.requests.pop import PopHandler
from flaremq.broker.requests.pop_ack import PopAckHandler
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import ManualClock
from flaremq.message.hosts import encode_host
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

TOPIC = "orders"
GROUP = "G"
RETRY_TOPIC = f"%RETRY%{GROUP}_{TOPIC}"
REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
HOST = encode_host("10.0.0.9:40000")

SMALL = StoreOptions(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20 * 1000,
    max_hash_slot_num=64,
    max_index_num=1024,
    reserve_step_commit_log=1 << 16,
    reserve_step_index=4096,
)


class Client:
    """The broker's end of a client's connection."""

    def __init__(self) -> None:
        self.is_open = True
        self.peer = "10.0.0.9:40000"
        self.on_close: list[Callable[[Any], None]] = []
        self.replies: dict[int, RemotingCommand] = {}

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        self.replies[request.opaque] = response

    def close(self) -> None:
        self.is_open = False
        for callback in self.on_close:
            callback(self)


class Popped:
    """A message as a client holds it."""

    def __init__(self, message: MessageExt, receipt: Receipt, reconsume_times: int) -> None:
        self.body = bytes(message.body).decode()
        self.topic = message.topic
        self.properties = dict(message.properties)
        self.receipt = receipt
        self.reconsume_times = reconsume_times


class Reply:
    """The answer to a pop, read as the Java client reads it."""

    def __init__(self, response: RemotingCommand, topic: str) -> None:
        self.code = response.code
        ext: dict[str, Any] = dict(response.ext or {})
        self.ext = ext
        assert {"popTime", "invisibleTime", "reviveQid", "restNum"} <= ext.keys(), "a Java client refuses the reply"
        self.rest = int(ext["restNum"])
        self.messages: list[Popped] = []
        if response.code != 0:
            return
        starts = _info(ext["startOffsetInfo"])
        offsets = {key: [int(item) for item in value.split(",")] for key, value in _info(ext["msgOffsetInfo"]).items()}
        counts = _info(ext.get("orderCountInfo", ""))
        records = [MessageExt(record) for record in _records(response.body_bytes)]
        sort: dict[str, list[int]] = {}
        for record in records:
            own = record.properties.get("POP_CK")
            flag = own.split(" ")[4] if own else retry_flag(record.topic)
            sort.setdefault(f"{flag}@{record.queue_id}", []).append(record.queue_offset)
        for record in records:
            text = record.properties.get("POP_CK")
            reconsume_times = record.reconsume_times
            if text is None:
                key = f"{retry_flag(record.topic)}@{record.queue_id}"
                offset = offsets[key][sort[key].index(record.queue_offset)]
                assert offset == record.queue_offset
                text = (
                    f"{starts[key]} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} "
                    f"{retry_flag(record.topic)} broker-a {record.queue_id} {offset}"
                )
                flag, queue = key.split("@")
                count = counts.get(f"{flag}@qo{queue}%{record.queue_offset}", counts.get(key))
                reconsume_times = int(count) if count is not None and int(count) > 0 else reconsume_times
            assert record.topic == topic
            self.messages.append(Popped(record, Receipt.parse(text), reconsume_times))

    @property
    def bodies(self) -> list[str]:
        return [message.body for message in self.messages]


def _info(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for part in text.split(";") if text else ():
        flag, queue, value = part.split(" ")
        assert f"{flag}@{queue}" not in table, "a Java client throws at a queue that occurs twice"
        table[f"{flag}@{queue}"] = value
    return table


def _records(data: bytes) -> list[bytes]:
    records = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        records.append(data[at : at + size])
        at += size
    return records


class PopLab:
    """A broker reduced to POP. Make it inside a running loop by ``open``."""

    def __init__(self, root: Path, *, queues: int = 1, **options: Any) -> None:
        self.root = root
        self.clock = ManualClock()
        defaults: dict[str, Any] = {"enable_pop_buffer_merge": True, "pop_from_retry_probability": 0}
        self.options = BrokerOptions(**(defaults | options))
        self._queues = queues
        self.client = Client()
        self.order_info = ConsumerOrderInfo()

    async def open(self) -> PopLab:
        filesystem = LocalFileSystem()
        options, clock = self.options, self.clock
        config = self.root / "config"
        self.store = MessageStore.open(self.root, SMALL, clock=clock, threads=False, driven=True)
        self.store_loop = StoreLoop(self.store)
        self.topics = TopicTable(options, ConfigFile(filesystem, str(config / "topics.json")), clock)
        self.groups = GroupTable(options, ConfigFile(filesystem, str(config / "subscriptionGroup.json")), clock)
        self.offsets = ConsumerOffsets(options, ConfigFile(filesystem, str(config / "consumerOffset.json")), clock)
        for table in (self.topics, self.groups, self.offsets):
            table.load()
        if self.topics.find(TOPIC) is None:
            self.topics.update(
                TopicConfig(topic_name=TOPIC, read_queue_nums=self._queues, write_queue_nums=self._queues, perm=6)
            )
        self.service = PopService(
            options,
            clock,
            self.store_loop,
            Catalog(self.topics, self.groups, self.offsets),
            BrokerStatistics("DefaultCluster", clock.now_ms()),
            order_info=self.order_info,
            chance=random.Random(7),
        )
        self.handler = PopHandler(options, self.store_loop, clock, self.topics, self.groups, self.service)
        self.acks = PopAckHandler(self.topics, self.service)
        await self.service.start()
        await self.topics.save_changes()
        return self

    async def close(self) -> None:
        """An orderly end."""
        await self.handler.stop()
        await self.service.stop()
        for table in (self.topics, self.groups, self.offsets):
            table.save_now()
        await self._shut()

    async def crash(self, *, saved_offsets: bool = False) -> None:
        """The process is killed and started again; offsets are as of the last save."""
        if saved_offsets:
            self.offsets.save_now()
        await self._shut()
        await self.open()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def _shut(self) -> None:
        await self.store_loop.close()
        self.store.close()

    # Doing things

    async def send(self, *bodies: str, topic: str = TOPIC, queue_id: int = 0, **properties: str) -> None:
        for body in bodies:
            form = StoredForm(
                topic=topic,
                queue_id=queue_id,
                body=body.encode(),
                properties=encode_properties({"UNIQ_KEY": f"ID-{body[:32]}"} | properties),
                born_timestamp=self.clock.now_ms(),
                born_host=HOST,
            )
            assert (await self.store_loop.put(form)).ok
        self.store_loop.dispatching.catch_up()

    async def call(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> RemotingCommand:
        """Send a request and wait for its reply."""
        request = RemotingCommand.request(code, ext, body)
        response = await self.begin(request)
        return response if response is not None else await self.reply_to(request)

    async def begin(self, request: RemotingCommand, client: Client | None = None) -> RemotingCommand | None:
        """Send a request; None if it is held."""
        handlers: dict[int, Callable[..., Any]] = {
            RequestCode.POP_MESSAGE: self.handler.pop,
            RequestCode.PEEK_MESSAGE: self.handler.peek,
            RequestCode.NOTIFICATION: self.handler.notification,
            RequestCode.POLLING_INFO: self.handler.polling_info,
            RequestCode.ACK_MESSAGE: self.acks.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.acks.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.acks.change_invisible_time,
        }
        try:
            outcome = handlers[request.code](client or self.client, request)
            if isinstance(outcome, Awaitable):
                outcome = await outcome
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark)
        assert outcome is None or isinstance(outcome, RemotingCommand)
        return outcome

    async def reply_to(self, request: RemotingCommand, client: Client | None = None) -> RemotingCommand:
        """Wait for the reply to a request that was held."""
        replies = (client or self.client).replies
        for _ in range(2000):
            if request.opaque in replies:
                return replies.pop(request.opaque)
            await asyncio.sleep(0.001)
        raise AssertionError(f"no reply to {request}; {len(self.handler.pops)} are held")

    async def eventually(self, condition: Callable[[], bool]) -> None:
        """Wait until something on the loop has happened."""
        for _ in range(2000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it never happened")

    def pop_request(self, topic: str = TOPIC, **changes: Any) -> RemotingCommand:
        ext: dict[str, Any] = {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": -1,
            "maxMsgNums": 32,
            "invisibleTime": 60_000,
            "pollTime": 0,
            "bornTime": self.clock.now_ms(),
            "initMode": 0,
            "expType": "TAG",
            "exp": "*",
            "order": "false",
        } | changes
        return RemotingCommand.request(RequestCode.POP_MESSAGE, {name: str(value) for name, value in ext.items()})

    async def pop(self, topic: str = TOPIC, **changes: Any) -> Reply:
        request = self.pop_request(topic, **changes)
        response = await self.begin(request)
        return Reply(response if response is not None else await self.reply_to(request), topic)

    async def ack(self, *messages: Popped, group: str = GROUP) -> list[int]:
        """Acknowledge each on its own, all at once."""
        responses = await asyncio.gather(*(self.ack_receipt(message.receipt, group) for message in messages))
        return [response.code for response in responses]

    async def ack_receipt(self, receipt: Receipt, group: str = GROUP) -> RemotingCommand:
        return await self.call(RequestCode.ACK_MESSAGE, self._settle_ext(receipt, group))

    async def batch_ack(self, *messages: Popped) -> RemotingCommand:
        merged: dict[tuple[Any, ...], list[int]] = {}
        for message in messages:
            receipt = message.receipt
            merged.setdefault(receipt[:7], []).append(receipt.queue_offset - receipt.start_offset)
        acks = tuple(
            BatchAck(
                consumer_group=GROUP,
                topic=TOPIC,
                retry=retry,
                start_offset=start,
                queue_id=queue_id,
                revive_queue_id=revive_queue_id,
                pop_time=pop_time,
                invisible_time=invisible_time,
                bits=sum(1 << position for position in set(positions)),
            )
            for (start, pop_time, invisible_time, revive_queue_id, retry, _, queue_id), positions in merged.items()
        )
        body = BatchAckMessageRequestBody(broker_name="broker-a", acks=acks).to_json()
        return await self.call(RequestCode.BATCH_ACK_MESSAGE, None, body)

    async def change(self, receipt: Receipt, invisible_time: int, **changes: Any) -> RemotingCommand:
        ext = self._settle_ext(receipt, GROUP) | {"invisibleTime": str(invisible_time)} | changes
        return await self.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)

    def _settle_ext(self, receipt: Receipt, group: str) -> dict[str, str]:
        return {
            "consumerGroup": group,
            "topic": real_topic(TOPIC, group, receipt.retry),
            "queueId": str(receipt.queue_id),
            "offset": str(receipt.queue_offset),
            "extraInfo": receipt.text,
        }

    async def pass_time(self, milliseconds: int) -> None:
        """Let time pass and do what falls due."""
        self.clock.advance(milliseconds)
        self.handler.run_due()
        await self.service.run_due()
        self.store_loop.dispatching.catch_up()

    # Looking

    def committed(self, topic: str = TOPIC, queue_id: int = 0, group: str = GROUP) -> int:
        return self.offsets.find(group, topic, queue_id)

    def messages_of(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        self.store_loop.dispatching.catch_up()
        found: list[MessageExt] = []
        offset = self.store.min_offset(topic, queue_id)
        while offset < self.store.max_offset(topic, queue_id):
            result = self.store.get(topic, queue_id, offset, 1000)
            found += result.messages
            offset = result.next_offset
        return found

    def revive_records(self) -> list[MessageExt]:
        """Everything in the revive log."""
        return [message for queue_id in range(8) for message in self.messages_of(REVIVE_TOPIC, queue_id)]

    def set_group(self, **fields: Any) -> None:
        self.groups.update(SubscriptionGroupConfig(group_name=GROUP, **fields))
        self.groups.save_now()


def run(root: Path, scenario: Callable[[PopLab], Awaitable[None]], **options: Any) -> None:
    """Run a scenario on a fresh bench."""

    async def main() -> None:
        lab = await PopLab(root, **options).open()
        try:
            await scenario(lab)
        finally:
            await lab.close()

    asyncio.run(main())
