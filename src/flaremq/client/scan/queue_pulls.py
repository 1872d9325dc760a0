"""Pulls for readers that consume nothing: raw replies, tried again until a broker is back.

A reader is no consumer. It sends no heartbeat, commits no offset and is in no group's books; a pull still has to name a
group, and brokers make one that they do not know yet. Where they may not, the group that RocketMQ's own tools pull with
is used instead.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from flaremq.client.errors import reply_error
from flaremq.client.instance import ClientInstance
from flaremq.client.routes import MASTER_ID
from flaremq.errors import AccessDeniedError, NotFoundError, RemoteProtocolError, ReplyError, UnavailableError
from flaremq.message.tags import ALL_TAGS, TAG
from flaremq.protocol.codes import PULL_HAS_SUBSCRIPTION, RequestCode, ResponseCode
from flaremq.protocol.command import RequestError

SCAN_GROUP: Final = "flaremq-scan"
COUNT_MAX: Final = 1024  # asked of a broker when nothing is known of it; it gives what its own limits allow
_TOOLS_GROUP: Final = "TOOLS_CONSUMER"
_BYTES_MAX: Final = str(4 << 20)
_PULL_SECONDS: Final = 10.0  # a broker may have to fetch the messages from a slow disk
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_PULL_CODES: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)


class QueuePlace(Protocol):
    """One queue of one broker, whatever the caller calls it."""

    @property
    def topic(self) -> str: ...

    @property
    def broker(self) -> str: ...

    @property
    def queue_id(self) -> int: ...


class Pulled(NamedTuple):
    """What a broker answered to a pull: records back to back as they lie in its log, and where the queue stands."""

    code: int
    remark: str  # RocketMQ's name of what happened; the code alone merges several
    next_offset: int
    min_offset: int
    max_offset: int
    broker_id: int  # who answered: 0 is the master
    records: bytes


@dataclass(slots=True)
class Patience:
    """How long failures of one request may go on. Pauses grow; a success begins anew."""

    seconds: float
    _since: float | None = None
    _pause: float = _FIRST_PAUSE

    async def wait(self) -> bool:
        """Pause before the next try; False if there should be none."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        if now - self._since >= self.seconds:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


class QueuePulls:
    """Pulls of one reader. Event loop thread only."""

    def __init__(self, instance: ClientInstance, *, group: str = "", retry_seconds: float = 30.0) -> None:
        self._instance = instance
        self._group = group or SCAN_GROUP
        self._may_change_group = not group
        self.retry_seconds = retry_seconds

    async def pull(self, queue: QueuePlace, offset: int, count: int, tags: str = ALL_TAGS) -> Pulled:
        """Ask for messages from ``offset`` on; UnavailableError if no broker of that name answers for long."""
        patience = Patience(self.retry_seconds)
        tries = 0
        while True:
            try:
                return await self._pull_once(queue, offset, count, tags, tries)
            except UnavailableError as error:
                failure: Exception = error
            except AccessDeniedError:
                raise
            except ReplyError as error:
                if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST and self._may_change_group:
                    self._group, self._may_change_group = _TOOLS_GROUP, False
                    continue
                if error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                failure = error  # a broker that is just starting or stopping says so
            tries += 1
            if not await patience.wait():
                raise UnavailableError(
                    f"broker {queue.broker} gave no messages of topic {queue.topic} "
                    f"for {self.retry_seconds:.0f} seconds: {failure}"
                ) from failure
            await self.look_around(queue.topic)

    async def _pull_once(self, queue: QueuePlace, offset: int, count: int, tags: str, tries: int) -> Pulled:
        broker_id, address = await self.address(queue, tries)
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(count),
            "sysFlag": str(PULL_HAS_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": tags,
            "subVersion": "0",
            "expressionType": TAG,
            "maxMsgBytes": _BYTES_MAX,
            "bname": queue.broker,
        }
        transport = self._instance.transport
        connection = transport.connected(address) or await transport.connect(address)
        reply = await connection.call(transport.command(RequestCode.PULL_MESSAGE, ext), _PULL_SECONDS)
        if reply.code not in _PULL_CODES:
            raise reply_error(reply, f"pulling from {queue.topic!r} queue {queue.queue_id}", address)
        try:
            return Pulled(
                reply.code,
                reply.remark or "",
                reply.int_field("nextBeginOffset"),
                reply.int_field("minOffset"),
                reply.int_field("maxOffset"),
                broker_id,
                reply.body_bytes if reply.code == ResponseCode.SUCCESS else b"",
            )
        except RequestError as error:
            raise RemoteProtocolError(f"the reply of {address} to a pull cannot be read: {error.remark}") from None

    async def address(self, queue: QueuePlace, tries: int = 0) -> tuple[int, str]:
        """Id and address to ask: the master's, and after failures those of its slaves in turn."""
        try:
            route = self._instance.routes.known(queue.topic) or await self._instance.routes.find(queue.topic)
        except NotFoundError as error:  # name servers forget a topic while all of its brokers are away
            raise UnavailableError(str(error)) from None
        addresses = sorted(route.addresses.get(queue.broker, {}).items())
        if not addresses:
            raise UnavailableError(f"broker {queue.broker} is unknown to the name server at the moment")
        broker_id, address = addresses[tries % len(addresses)]
        return broker_id, address

    async def master_address(self, queue: QueuePlace) -> str:
        """The replica that knows where a queue ends: a slave may be behind, its end would look like lost messages."""
        broker_id, address = await self.address(queue)
        if broker_id != MASTER_ID:
            raise UnavailableError(
                f"broker {queue.broker} has no master at the moment, and its slaves may not have everything"
            )
        return address

    async def look_around(self, topic: str) -> None:
        """Ask where the brokers are now: one that comes back may come back elsewhere."""
        try:
            await self._instance.routes.refresh(topic)
        except (UnavailableError, NotFoundError):
            pass  # the route that is known has to do


def is_master(pulled: Pulled) -> bool:
    return pulled.broker_id == MASTER_ID
