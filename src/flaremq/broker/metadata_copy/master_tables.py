"""MasterTables: the questions a slave asks its master, and how their answers are read.

Masters of RocketMQ 4.9 and 5 and ours answer at their main port. What a master does not have or does not know (request
modes and timers of a 4.9 master) is None. Bodies are read on a worker thread: a master may have 100,000 topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from flaremq.broker.catalog.table_saver import Run
from flaremq.errors import RemoteProtocolError, UnavailableError
from flaremq.protocol.bodies.group import SubscriptionGroupWrapper
from flaremq.protocol.bodies.replication import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    MessageRequestModeSerializeWrapper,
)
from flaremq.protocol.bodies.topic import KVTable, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand
from flaremq.protocol.headers.consume import GetMaxOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from flaremq.remoting.client import RemotingClient

_T = TypeVar("_T")
_SECONDS: Final = 3.0
_PAGE_SECONDS: Final = 30.0
_PAGE: Final = 2_000  # entries a page of RocketMQ 5.5 has
_PAGES_MAX: Final = 10_000


class MasterTables:
    """Asks one master. Event loop only."""

    def __init__(self, client: RemotingClient, address: str, run: Run) -> None:
        self.address = address
        self._client = client
        self._run = run  # StoreLoop.run_long

    async def topics(self) -> TopicConfigSerializeWrapper:
        pages = await self._pages(
            RequestCode.GET_ALL_TOPIC_CONFIG, "topic", "totalTopicNum", TopicConfigSerializeWrapper.from_json,
            lambda page: page.topic_config_table,
        )  # fmt: skip
        table = {name: config for page in pages for name, config in page.topic_config_table.items()}
        return TopicConfigSerializeWrapper(data_version=pages[-1].data_version, topic_config_table=table)

    async def groups(self) -> SubscriptionGroupWrapper:
        pages = await self._pages(
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "group", "totalGroupNum", SubscriptionGroupWrapper.from_json,
            lambda page: page.subscription_group_table,
        )  # fmt: skip
        table = {name: config for page in pages for name, config in page.subscription_group_table.items()}
        forbidden = {name: value for page in pages for name, value in (page.forbidden_table or {}).items()}
        return SubscriptionGroupWrapper(
            data_version=pages[-1].data_version, subscription_group_table=table, forbidden_table=forbidden
        )

    async def consumer_offsets(self) -> dict[str, dict[int, int]]:
        """By ``topic@group`` and queue."""
        wrapper = await self._read(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetSerializeWrapper.from_json)
        return {} if wrapper is None else wrapper.offset_table

    async def delay_offsets(self) -> dict[int, int] | None:
        wrapper = await self._read(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetSerializeWrapper.from_json)
        return None if wrapper is None else wrapper.offset_table

    async def request_modes(self) -> MessageRequestModeSerializeWrapper | None:
        return await self._read(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeSerializeWrapper.from_json)

    async def timer_check_point(self) -> bytes | None:
        return await self._read(RequestCode.GET_TIMER_CHECK_POINT, bytes)

    async def log_range(self) -> tuple[int, int]:
        """Where the master's log begins and ends now."""
        reply = await self._ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        if reply.code != ResponseCode.SUCCESS:
            raise UnavailableError(f"the master at {self.address} answered code {reply.code}: {reply.remark}")
        try:
            table = KVTable.from_json(reply.body_bytes).table
            return int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (KeyError, ValueError):
            raise RemoteProtocolError(f"the master at {self.address} does not say where its log is") from None

    async def max_offset(self, topic: str, queue_id: int) -> int:
        """How far the master shows a queue; 0 if it has none."""
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        reply = await self._ask(RequestCode.GET_MAX_OFFSET, dict(header.encode()))
        if reply.code != ResponseCode.SUCCESS:
            raise UnavailableError(f"the master at {self.address} answered code {reply.code}: {reply.remark}")
        return int(reply.field("offset"))

    async def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Tell the master an offset that clients committed while it was away; False if it does not want it."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        request = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.encode())
        return (await self._client.request(self.address, request, _SECONDS)).code == ResponseCode.SUCCESS

    # One exchange

    async def _read(self, code: RequestCode, read: Callable[[bytes], _T]) -> _T | None:
        reply = await self._ask(code)
        if reply.code != ResponseCode.SUCCESS or not reply.body_bytes:
            return None
        return await self._run(read, reply.body_bytes)  # type: ignore[no-any-return]  # Run returns what it is given

    async def _ask(
        self, code: RequestCode, ext: dict[str, ExtValue] | None = None, seconds: float = _SECONDS
    ) -> RemotingCommand:
        return await self._client.request(self.address, RemotingCommand.request(code, ext), seconds)

    async def _pages(
        self,
        code: RequestCode,
        what: str,
        total_field: str,
        read: Callable[[bytes], _T],
        entries: Callable[[_T], Any],
    ) -> list[_T]:
        """All pages of a table. A reply without a total is the whole table."""
        pages: list[_T] = []
        seen: set[str] = set()
        for _ in range(_PAGES_MAX):
            ext: dict[str, ExtValue] = {f"{what}Seq": len(seen), f"max{what.title()}Num": _PAGE, "dataVersion": ""}
            reply = await self._ask(code, ext, _PAGE_SECONDS)
            if reply.code != ResponseCode.SUCCESS or not reply.body_bytes:
                raise UnavailableError(f"the master at {self.address} answered code {reply.code}: {reply.remark}")
            page: _T = await self._run(read, reply.body_bytes)
            pages.append(page)
            new = set(entries(page)) - seen
            seen |= new
            total = reply.optional_field(total_field)
            if total is None or len(seen) >= int(total) or not new:
                break
        return pages
