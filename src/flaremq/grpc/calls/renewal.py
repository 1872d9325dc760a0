"""Renewal: messages that push consumers hold stay hidden from others as long as their consumer is alive.

A push consumer is given messages for a minute, and may work on one for hours. So the door remembers what it gave and
puts each message off anew before its time is over, by longer and longer steps, until it is settled, the client is gone,
or three hours have passed. The client keeps the handle it got first: the entry knows the present receipt, which is
what settles the message.

An entry is renewed by one request at a time, and whoever settles it waits for that: the receipt the broker knows is
always the one that is used. Each broker is asked for a number of messages at a time and by itself, so one that does not
answer holds up what others have.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final

from flaremq.errors import FlareMQError, NotFoundError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.backends.requests import change_request
from flaremq.grpc.calls.lanes import Lanes
from flaremq.grpc.calls.sessions import SessionKey
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.receipts import Receipt
from flaremq.grpc.rules.settings import retry_delay_ms
from flaremq.protocol.command import RemotingCommand, RequestError

_log = logging.getLogger(__name__)

_MINUTE: Final = 60_000
_STEPS_MS: Final = (1 * _MINUTE, 3 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, 60 * _MINUTE)
_FAILURES_MAX: Final = 3
_AT_ONCE: Final = 256  # requests under way to one broker

_Key = tuple[SessionKey, str, str, str, int, int]  # client, group, message id, broker, queue, offset


@dataclass(slots=True, eq=False)
class _Held:
    """A message that a client holds."""

    key: _Key
    topic: str
    receipt: Receipt  # the present one
    first_pop_ms: int
    reconsume_times: int
    renewals: int = 0
    failures: int = 0
    is_over: bool = False
    under_way: asyncio.Future[None] | None = field(default=None)


class Renewal:
    """The messages that clients hold. Event loop only."""

    def __init__(self, backend: Backend, limits: CallLimits) -> None:
        self._backend = backend
        self._limits = limits
        self._held: dict[_Key, _Held] = {}
        self._of_client: dict[SessionKey, dict[_Key, _Held]] = {}
        self._order = count()
        self._due: list[tuple[int, int, _Held]] = []  # by when to look at it
        self._lanes = Lanes(_AT_ONCE)
        self._loop_task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def start(self) -> None:
        self._loop_task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Forget everything; what clients hold comes back to whoever asks when its time is over."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        await self._lanes.stop()

    # What clients hold

    def add(
        self, client: SessionKey, group: str, topic: str, message_id: str, receipt: Receipt, reconsume_times: int
    ) -> None:
        """A client was given a message."""
        key = _key(client, group, message_id, receipt)
        old = self._held.get(key)
        if old is not None:
            old.is_over = True
        held = _Held(key, topic, receipt, receipt.pop_time, reconsume_times)
        self._held[key] = self._of_client.setdefault(client, {})[key] = held
        self._schedule(held)

    def present(self, client: SessionKey, group: str, message_id: str, receipt: Receipt) -> Receipt | None:
        """The present receipt of a message; None if it is just being renewed."""
        held = self._held.get(_key(client, group, message_id, receipt)) if self._held else None
        if held is None:
            return receipt
        return held.receipt if held.under_way is None else None

    def end_now(self, client: SessionKey, group: str, message_id: str, receipt: Receipt) -> Receipt | None:
        """As ``end``; None, with nothing done, if the message is just being renewed."""
        held = self._held.get(_key(client, group, message_id, receipt)) if self._held else None
        if held is None:
            return receipt
        if held.under_way is not None:
            return None
        self._forget(held)
        return held.receipt

    async def end(self, client: SessionKey, group: str, message_id: str, receipt: Receipt) -> Receipt:
        """The client settles a message: its present receipt. It is renewed no more."""
        held = self._held.get(_key(client, group, message_id, receipt))
        if held is None:
            return receipt
        while held.under_way is not None:
            await asyncio.shield(held.under_way)
        self._forget(held)
        return held.receipt

    def client_gone(self, client: SessionKey) -> None:
        """What a client held is for others, soon."""
        for held in list(self._of_client.get(client, {}).values()):
            self._forget(held)
            work = partial(self._let_go, held, self._limits.invisible_time_when_clear_ms)
            self._lanes.add(held.receipt.broker, work)

    def _forget(self, held: _Held) -> None:
        held.is_over = True
        if self._held.get(held.key) is held:
            del self._held[held.key]
        own = self._of_client.get(held.key[0])
        if own is not None and own.get(held.key) is held:
            del own[held.key]
            if not own:
                del self._of_client[held.key[0]]

    # Time passes

    def _schedule(self, held: _Held) -> None:
        look_ms = held.receipt.visible_at - self._limits.renew_ahead_ms
        heapq.heappush(self._due, (look_ms, next(self._order), held))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._limits.renew_period_ms / 1000)
            try:
                self._begin_due()
            except Exception:
                _log.exception("messages that clients hold could not be renewed")

    async def run_due(self) -> None:
        """Renew what becomes visible soon; returns when that is done."""
        self._begin_due()
        await self._lanes.idle()

    def _begin_due(self) -> None:
        now_ms = self._backend.now_ms()
        while self._due and self._due[0][0] <= now_ms:
            held = heapq.heappop(self._due)[2]
            if not held.is_over:
                self._lanes.add(held.receipt.broker, partial(self._renew, held))
        if len(self._due) > 1024 and len(self._due) > 4 * len(self._held):
            self._due = [entry for entry in self._due if not entry[2].is_over]
            heapq.heapify(self._due)

    async def _renew(self, held: _Held) -> None:
        if held.is_over or held.under_way is not None:
            return
        if self._backend.now_ms() - held.first_pop_ms >= self._limits.renew_max_ms:
            self._forget(held)
            await self._let_go(held, await self._retry_delay_ms(held))
            return
        held.under_way = asyncio.get_running_loop().create_future()
        try:
            step = _STEPS_MS[min(held.renewals, len(_STEPS_MS) - 1)]
            reply = await self._change(held, step)
            changed = changed_receipt(held.receipt, reply)
            if changed is None:
                _log.info("%s of group %s is held no more: %s", held.key[2], held.key[1], reply.remark)
                self._forget(held)
                return
            held.receipt = changed
            held.renewals += 1
            held.failures = 0
        except NotFoundError:
            self._forget(held)
        except Exception as error:  # whatever it is, the message is held on
            held.failures += 1
            is_ours = not isinstance(error, FlareMQError)
            _log.warning("%s of group %s could not be renewed: %s", held.key[2], held.key[1], error, exc_info=is_ours)
            if held.failures > _FAILURES_MAX:
                self._forget(held)
        finally:
            held.under_way.set_result(None)
            held.under_way = None
        if not held.is_over:
            self._schedule(held)

    async def _retry_delay_ms(self, held: _Held) -> int:
        try:
            group = await self._backend.find_group(held.key[1])
        except FlareMQError:
            group = None
        return retry_delay_ms(group, held.reconsume_times)

    async def _let_go(self, held: _Held, invisible_ms: int) -> None:
        """Let others have a message after a while; that its client had it counts as an attempt."""
        while held.under_way is not None:
            await asyncio.shield(held.under_way)
        try:
            await self._change(held, invisible_ms)
        except FlareMQError as error:
            _log.info("%s of group %s comes back in its own time: %s", held.key[2], held.key[1], error)

    async def _change(self, held: _Held, invisible_ms: int) -> RemotingCommand:
        request = change_request(held.receipt, held.topic, held.key[1], invisible_ms, suspend=False)
        return await self._backend.ask(held.receipt.broker, request, seconds=self._limits.request_timeout_ms / 1000)


def changed_receipt(receipt: Receipt, reply: RemotingCommand) -> Receipt | None:
    """The receipt after CHANGE_MESSAGE_INVISIBLETIME; None if the broker did not do it.

    What was changed has a check point of its own, which begins at the message itself (rocketmq's local mode keeps the
    old beginning, and the new handle settles nothing). A message in order keeps its place in the batch.
    """
    ext = reply.ext or {}
    try:
        pop_time, invisible = reply.int_field("popTime"), reply.int_field("invisibleTime")
        revive_queue = reply.int_field("reviveQid") if "reviveQid" in ext else receipt.revive_queue_id
    except RequestError:
        return None
    if reply.code or not pop_time:
        return None
    start = receipt.start_offset if receipt.is_order else receipt.offset
    return receipt._replace(
        start_offset=start, pop_time=pop_time, invisible_time=invisible, revive_queue_id=revive_queue
    )


def _key(client: SessionKey, group: str, message_id: str, receipt: Receipt) -> _Key:
    return client, group, message_id, receipt.broker, receipt.queue_id, receipt.offset
