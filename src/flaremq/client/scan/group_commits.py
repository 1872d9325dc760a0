"""Progress of a group that consumes elsewhere: a job keeps its own offsets and reports them, so that tools show its
lag.

The group has no connected consumer. What a consumer's first heartbeat would bring about is done here: the group's
settings on each broker, and its retry topic, by which admin tools find the brokers of a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from flaremq.client.admin.admin import Admin
from flaremq.client.options import ClientOptions
from flaremq.client.routes import MASTER_ID
from flaremq.client.scan.cluster_view import each
from flaremq.client.scan.queue_pulls import Patience, QueuePulls
from flaremq.errors import (
    AccessDeniedError,
    FlareMQError,
    InvalidArgumentError,
    NotFoundError,
    ReplyError,
    UnavailableError,
)
from flaremq.message.topics import NAME_BYTES_MAX, retry_topic, validate_group
from flaremq.protocol.codes import RequestCode, ResponseCode

QueueOffsets = Mapping[str, Mapping[str, Mapping[int, int]]]  # topic, broker, queue, next offset
_RETRY_SECONDS: Final = 10.0


class _Position(NamedTuple):
    topic: str
    broker: str
    queue_id: int
    offset: int


class GroupCommits(Admin):
    """Reports for one group. Use it as ``Admin`` is used."""

    def __init__(self, name_servers: str | Sequence[str], group: str, *, options: ClientOptions | None = None) -> None:
        validate_group(group)
        super().__init__(name_servers, options=options)
        self.group = group
        self._prepared: set[str] = set()  # addresses where the group exists

    async def check(self, broker_names: Sequence[str] = ()) -> None:
        """Whether reports will be accepted: the brokers are there, the group is or was made, and nobody is in it."""
        masters = await self.masters()
        for name in broker_names:
            if name not in masters:
                raise NotFoundError(
                    f"broker {name!r} is unknown to the name servers {', '.join(self.name_servers)}, which know "
                    f"{', '.join(masters)}: set brokerName to the name of the broker whose store it is"
                )
        for name in broker_names or masters:
            await self._prepare(name, masters[name])
        try:
            members = await self.group_connections(self.group)
        except (NotFoundError, ReplyError):
            return
        clients = sorted(connection.client_id for connection in members.connection_set)
        if clients:
            raise InvalidArgumentError(
                f"group {self.group!r} has {len(clients)} connected consumers, {clients[0]} among them, and they "
                f"report progress of their own: choose another group"
            )

    async def commit(self, offsets: QueueOffsets) -> None:
        """Set the group's offsets; returns when the brokers have them."""
        positions = [
            _Position(topic, broker, int(queue_id), offset)
            for topic, brokers in offsets.items()
            for broker, queues in brokers.items()
            for queue_id, offset in queues.items()
            if offset >= 0
        ]
        await each(positions, self._commit)

    async def _commit(self, position: _Position) -> None:
        patience = Patience(_RETRY_SECONDS)
        while True:
            try:
                await self._commit_once(position)
                return
            except UnavailableError as error:
                failure = error
            if not await patience.wait():
                raise UnavailableError(
                    f"broker {position.broker} took no progress of group {self.group!r} for "
                    f"{_RETRY_SECONDS:.0f} seconds: {failure}"
                ) from failure
            self._instance.routes.forget(position.topic)

    async def _commit_once(self, position: _Position) -> None:
        route = await self._instance.routes.find(position.topic)
        address = route.addresses.get(position.broker, {}).get(MASTER_ID)
        if address is None:
            raise UnavailableError(f"broker {position.broker} has no master at the moment")
        await self._prepare(position.broker, address)
        if await self._report(address, position):
            return
        # An administrator moved the group. Only a pull takes note of that; until then the broker keeps its offset.
        await QueuePulls(self._instance, group=self.group, retry_seconds=0).pull(position, position.offset, 1)
        await self._report(address, position)

    async def _report(self, address: str, position: _Position) -> bool:
        ext = {
            "consumerGroup": self.group,
            "topic": position.topic,
            "queueId": str(position.queue_id),
            "commitOffset": str(position.offset),
            "bname": position.broker,
        }
        what = f"setting the offset of group {self.group!r} in {position.topic}"
        try:
            reply = await self._call(address, RequestCode.UPDATE_CONSUMER_OFFSET, ext, what=what)
        except ReplyError as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            self._prepared.discard(address)  # deleted meanwhile
            await self._prepare(position.broker, address)
            reply = await self._call(address, RequestCode.UPDATE_CONSUMER_OFFSET, ext, what=what)
        return "reset" not in (reply.remark or "")

    async def _prepare(self, broker: str, address: str) -> None:
        """Let the group exist on a broker."""
        if address in self._prepared:
            return
        try:
            config = (await self.group_configs(address)).get(self.group)
        except AccessDeniedError:  # who gave us an account for this group and no more has made the group as well
            self._prepared.add(address)
            return
        if config is None:
            try:
                await self.create_group(self.group, broker=address)
            except ReplyError as error:
                raise InvalidArgumentError(
                    f"group {self.group!r} does not exist on broker {broker}, which does not let us make it: {error}"
                ) from error
        elif not config.consume_enable:
            raise InvalidArgumentError(f"group {self.group!r} may not consume on broker {broker}: enable it first")
        topic = retry_topic(self.group)
        if len(topic) <= NAME_BYTES_MAX and not await self._has_topic(topic, broker):
            try:
                await self.create_topic(topic, read_queues=1, write_queues=1, broker=address)
            except FlareMQError:
                pass  # the offsets are kept all the same; a tool has to be told the topic then
        self._prepared.add(address)

    async def _has_topic(self, topic: str, broker: str) -> bool:
        route = await self._instance.routes.refresh(topic)
        return route is not None and broker in route.addresses
