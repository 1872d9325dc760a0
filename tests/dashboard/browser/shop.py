"""A live cluster for browsers to look at: a shop with real senders and receivers, and a dashboard before it.

Everything runs on one event loop on a thread of its own; tests talk to it by blocking calls. Names that strangers chose
are among those of the shop, so that every page has them in view.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

from flaremq.client.admin.admin import Admin
from flaremq.client.blocking import LoopThread
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.options import ClientOptions, ConsumerOptions
from flaremq.client.producer.producer import Producer
from flaremq.client.producer.transactions import TransactionState
from flaremq.clock import Clock, SystemClock
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.service import DashboardService
from flaremq.message.message import Message
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.testing import ephemeral_broker

TOKEN = "correct horse battery staple"
# A name may hold anything but a null byte; a body that as well.
HOSTILE = '<img src=x onerror="document.title=1">&amp;\'"</script>\u202e\u200f%2e/..;x'
HOSTILE_BODY = (HOSTILE + "\x00\x07<b>bold</b>\n").encode()
ORDERS, PAYMENTS = "orders", "payments"
BILLING, AUDIT, SHIPPING, HOSTILE_GROUP = "billing", "audit", "shipping", "strangers"
ORDER_COUNT, AUDITED, DEAD, TRACED = 60, 25, 8, 7


# A broker that soon gives up asking for the outcome of a transaction.
_IMPATIENT = {"transactionTimeOut": 1, "transactionCheckInterval": 100, "transactionCheckMax": 1}


class _Undecided:
    """A transaction listener that never knows."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT if argument == "pay" else TransactionState.UNKNOWN

    def check(self, message: Any) -> TransactionState:
        return TransactionState.UNKNOWN


def _order(number: int) -> Message:
    lines = [{"sku": f"A{number}", "count": 9007199254740993}]  # a number that JavaScript rounds
    body = json.dumps({"order": number, "customer": "Zürich 中文", "lines": lines}).encode()
    tag = ("paid", "shipped", "returned")[number % 3]
    return Message(ORDERS, body, tags=tag, keys=f"order-{number}", properties={"shop": "Zürich"})


class Shop:
    """Use it inside ``with``. ``url`` is the dashboard's."""

    def __init__(
        self,
        folder: Path,
        *,
        can_change: bool = True,
        has_strangers: bool = True,
        clock: Clock | None = None,
        tables: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._can_change = can_change
        self._has_strangers = has_strangers
        self._clock = clock  # the dashboard's
        self._tables = tables  # of the lakehouse, below the folder
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Future[Any]] = []
        self.sent: list[str] = []  # message ids of orders

    def __enter__(self) -> Self:
        self._thread = LoopThread("shop", asyncio.new_event_loop())
        try:
            self._thread.call(self._open(), 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.call(self._close(), 60)
        self._thread.close()

    def do(self, work: Callable[[Admin], Awaitable[Any]]) -> Any:
        """Ask the cluster something, as an administrator would."""

        async def ask() -> Any:
            return await work(self.admin)

        return self._thread.call(ask(), 30)

    def send(self, topic: str, body: bytes = b"{}", **fields: Any) -> str:
        """One more message; its id."""

        async def work() -> str:
            return (await self.producer.send(Message(topic, body, **fields))).message_id

        return self._thread.call(work(), 30)

    def keep_busy(self) -> None:
        """Go on selling, now more and now less, until the shop closes."""

        async def sell() -> None:
            for turn in itertools.count():
                number = int(14 + 9 * math.sin(turn / 9) + (turn % 7))
                await asyncio.gather(*(self.producer.send(_order(turn * 100 + one)) for one in range(number)))
                if turn % 3 == 0:
                    await self.producer.send(Message("parcels", b"to Bern", tags="small", keys=f"parcel-{turn}"))
                await asyncio.sleep(0.1)

        async def begin() -> None:
            self._tasks.append(asyncio.create_task(sell()))

        self._thread.call(begin())

    # How it is set up

    async def _open(self) -> None:
        self.broker = await self._stack.enter_async_context(
            ephemeral_broker(
                clock=SystemClock(),
                traceTopicEnable=True,
                recallMessageEnable=True,
                **(_IMPATIENT if self._has_strangers else {}),
                brokerName="broker-a",
                brokerClusterName="shop",
                autoCreateTopicEnable=True,
            )
        )
        server = self.name_server = self.broker.name_server
        self.admin = await self._stack.enter_async_context(Admin(server))
        for topic, kind in ((ORDERS, "NORMAL"), (PAYMENTS, "TRANSACTION"), ("reminders", "DELAY"), ("parcels", "FIFO")):
            await self.admin.create_topic(topic, read_queues=4, write_queues=4, attributes={"message.type": kind})
        # Not even our broker lets one be made by this name; an older one may have it all the same.
        if self._has_strangers:
            topics = self.broker.broker.state.topics
            topics.update(TopicConfig(topic_name=HOSTILE, read_queue_nums=1, write_queue_nums=1))
        self.producer = await self._stack.enter_async_context(Producer(server, group="shop-front"))
        await self._send_orders()
        await self._note()
        await self._consume()
        await self._leave_waiting()
        await self._start_dashboard()

    async def _send_orders(self) -> None:
        for number in range(ORDER_COUNT):
            self.sent.append((await self.producer.send(_order(number))).message_id)
        if self._has_strangers:
            strange = Message(ORDERS, HOSTILE_BODY, tags="<script>", keys="\"'><svg", properties={"note": HOSTILE[:40]})
            self.hostile_id = (await self.producer.send(strange)).message_id

    async def _note(self) -> None:
        """What clients of Java's that trace write of a message."""
        traced = self.sent[TRACED]
        now = SystemClock().now_ms()
        sent = ("Pub", str(now - 40), "r", "shop-front", ORDERS, traced, "paid", "k", "h", "3", "7", "0", "off", "true")
        notes = [sent]
        for group, start, cost, is_ok in ((BILLING, 30, 9, "true"), (SHIPPING, 26, 21, "false")):
            notes.append(("SubBefore", str(now - start), "r", group, group, traced, "0", "k"))
            notes.append(("SubAfter", group, traced, str(cost), is_ok, "k", "0"))
        body = b"".join("\x01".join(fields).encode() + b"\x02" for fields in notes)
        await self.producer.send(Message("RMQ_SYS_TRACE_TOPIC", body, keys=traced))

    async def _consume(self) -> None:
        """One group keeps up, one stopped on its way, one gives everything up; one is a stranger's."""
        server = self.name_server
        quick = ConsumerOptions(persist_consumer_offset_interval=200)
        self.billing = await self._stack.enter_async_context(
            Consumer(server, group=BILLING, subscribe=ORDERS, start_from="first", options=quick)
        )
        self._tasks.append(asyncio.create_task(self.billing.run(lambda message: None)))
        async with Consumer(server, group=AUDIT, subscribe=ORDERS, start_from="first", options=quick) as audit:
            for _ in range(AUDITED):
                assert await audit.receive(20) is not None
        hopeless = ConsumerOptions(max_reconsume_times=0, persist_consumer_offset_interval=200)
        shipping = Consumer(server, group=SHIPPING, subscribe={ORDERS: "shipped"}, start_from="first", options=hopeless)
        async with shipping:
            for _ in range(DEAD):
                message = await shipping.receive(20)
                assert message is not None
                await message.retry()
        stranger = ConsumerOptions(
            instance_name="<i>me</i>" if self._has_strangers else "DEFAULT", persist_consumer_offset_interval=200
        )
        consumer = Consumer(
            server, group=HOSTILE_GROUP, subscribe={ORDERS: "paid"}, start_from="first", options=stranger
        )
        await self._stack.enter_async_context(consumer)
        self._tasks.append(asyncio.create_task(consumer.run(lambda message: None)))

    async def _leave_waiting(self) -> None:
        await self.producer.send_delayed(Message("reminders", b"later", keys="level"), level=18)
        await self.producer.send_delayed(
            Message("reminders", HOSTILE_BODY if self._has_strangers else b"in two hours", keys="timer"), seconds=7200
        )
        buyer = Producer(self.name_server, group="checkout", listener=_Undecided())
        await self._stack.enter_async_context(buyer)
        await buyer.transaction(Message(PAYMENTS, b"done", keys="pay-1"), "pay")
        await buyer.transaction(Message(PAYMENTS, b"half", keys="pay-2"), "wait")

    async def _start_dashboard(self) -> None:
        token = self._folder / "token"
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o600)
        options = DashboardOptions(
            name_servers=self.name_server,
            listen="127.0.0.1:0",
            token_file=str(token) if self._can_change else None,
            audit_folder=str(self._folder),
            tables=self._tables,
            warehouse=str(self._folder / "lake"),
            client=ClientOptions(),
        )
        self.service = DashboardService(options, clock=self._clock)
        await self.service.start()
        self._stack.push_async_callback(self.service.stop)
        self.url = self.service.url

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
