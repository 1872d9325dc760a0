"""Finding messages: by key or unique key through the index, by id straight from the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from flaremq.broker.store_loop.access import StoreAccess
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import Body, RemotingCommand, RequestError
from flaremq.protocol.headers.consume import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_REPLY_BYTES_MAX: Final = 15 << 20  # what fits a frame with its header
_KEY_LENGTH_MAX: Final = 32767  # no property is longer


class QueryHandler:
    """QUERY_MESSAGE and VIEW_MESSAGE_BY_ID. Replies are records as they lie in the log."""

    def __init__(self, store_loop: StoreAccess) -> None:
        self._store_loop = store_loop

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.QUERY_MESSAGE, self.query, "query")
        table.register(RequestCode.VIEW_MESSAGE_BY_ID, self.view, "query")

    async def query(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Messages with a key; the client compares keys once more."""
        header = QueryMessageRequestHeader.decode(request.ext)
        if len(header.key) > _KEY_LENGTH_MAX:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"a key of {len(header.key)} characters is no key")
        store = self._store_loop.store
        wanted = store.options.default_query_max_num if header.is_unique_key else max(1, header.max_num)
        found = await self._store_loop.run_cold(
            store.query, header.topic, header.key, wanted, header.begin_timestamp, header.end_timestamp
        )
        timestamp, physical_offset = self._store_loop.store.inspector.index_end()
        ext = QueryMessageResponseHeader(
            index_last_update_timestamp=timestamp, index_last_update_phyoffset=physical_offset
        ).encode()
        if not found:
            remark = "can not find message, maybe time range not correct"
            return RemotingCommand.response(ResponseCode.QUERY_NOT_FOUND, remark, ext=ext)
        return RemotingCommand.response(ext=ext, body=_fitting(found))

    async def view(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The message at a physical offset; an offset message id holds one."""
        header = ViewMessageRequestHeader.decode(request.ext)
        message = await self._store_loop.run_cold(self._store_loop.store.read, header.offset)
        if message is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        return RemotingCommand.response(body=[message.record])


def _fitting(messages: Iterable[MessageExt]) -> list[Body]:
    """As many records as one reply carries, in their order."""
    records: list[Body] = []
    size = 0
    for message in messages:
        size += len(message.record)
        if records and size > _REPLY_BYTES_MAX:
            break
        records.append(message.record)
    return records
