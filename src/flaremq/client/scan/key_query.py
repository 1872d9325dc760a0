"""All messages with a key, page by page: a broker answers one query with so many at most.

Brokers look through their index from the newest entry to the oldest and stop at a limit (``maxMsgsNumBatch``, 64). A
full page is therefore followed by a query that ends at its oldest message. The index counts time in seconds: when a
page brings nothing new although it is full, more messages share that second than a page holds, and the index cannot
tell them all. The same when there is no index. Then the answer is None, and the caller has to read the queues.
"""

from __future__ import annotations

from typing import Final

from flaremq.client.instance import ClientInstance
from flaremq.digits import whole_number
from flaremq.errors import FlareMQError, RemoteProtocolError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.layout import RECORD_SIZE_MIN
from flaremq.options import parse_properties
from flaremq.protocol.codes import RequestCode, ResponseCode

_PAGE: Final = 64
_REPLY_BYTES_FULL: Final = 8 << 20  # a reply of this size may have been cut to fit a frame
_END_OF_TIME: Final = 2**63 - 1
_QUERY_SECONDS: Final = 15.0


class KeyQuery:
    """Queries to the index of one broker. Event loop thread only."""

    def __init__(self, instance: ClientInstance, address: str) -> None:
        self._instance = instance
        self._address = address
        self._page: int | None = None

    async def find(self, topic: str, key: str) -> list[MessageExt] | None:
        """Every message of the topic with this key or unique key; None if the index cannot tell all of them."""
        page_size = await self._page_size()
        if page_size == 0:
            return None
        found: dict[int, MessageExt] = {}
        end = _END_OF_TIME
        while True:
            page, size = await self._query(topic, key, end)
            new = [message for message in page if message.physical_offset not in found]
            found.update((message.physical_offset, message) for message in new)
            if len(page) < page_size and size < _REPLY_BYTES_FULL:
                return [message for message in found.values() if has_key(message, topic, key)]
            if not new:
                return None
            end = min(message.store_timestamp for message in page)

    async def _page_size(self) -> int:
        """What a page of this broker holds; 0 if it keeps no index."""
        if self._page is None:
            try:
                reply = await self._instance.transport.call(self._address, RequestCode.GET_BROKER_CONFIG)
                config = parse_properties(reply.body_bytes.decode())
            except (FlareMQError, UnicodeDecodeError):
                config = {}  # not everybody may ask that: then as a broker is by default
            limit = whole_number(config.get("maxMsgsNumBatch"))
            self._page = _PAGE if limit is None else min(_PAGE, limit)
            if config.get("messageIndexEnable", "true").lower() == "false":
                self._page = 0
        return self._page

    async def _query(self, topic: str, key: str, end_ms: int) -> tuple[list[MessageExt], int]:
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(_PAGE),
            "beginTimestamp": "0",
            "endTimestamp": str(end_ms),
            "indexType": "K",
            "_UNIQUE_KEY_QUERY": "false",
        }
        reply = await self._instance.transport.call(
            self._address,
            RequestCode.QUERY_MESSAGE,
            ext,
            timeout=_QUERY_SECONDS,
            accept=(ResponseCode.QUERY_NOT_FOUND,),
            what=f"the query for key {key!r} in topic {topic!r}",
        )
        if reply.code != ResponseCode.SUCCESS:
            return [], 0
        return split_records(reply.body_bytes), len(reply.body)


def split_records(records: bytes) -> list[MessageExt]:
    """The messages of a short reply."""
    messages = []
    at = 0
    while at < len(records):
        size = int.from_bytes(records[at : at + 4], "big")
        if size < RECORD_SIZE_MIN or at + size > len(records):
            raise RemoteProtocolError(f"a record of {size} bytes at {at} does not fit a reply of {len(records)}")
        messages.append(MessageExt(records[at : at + size]))
        at += size
    return messages


def has_key(message: MessageExt, topic: str, key: str) -> bool:
    """Whether it is what was asked for: the index compares hashes."""
    return message.topic == topic and (message.uniq_key == key or key in message.keys)
