"""Where a group's progress is kept: at the brokers, or in a local file for broadcasting consumers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from flaremq.atomic_file import replace_file
from flaremq.client.consumer.process_queue import ProcessQueue
from flaremq.client.instance import ClientInstance
from flaremq.errors import FlareMQError, StoreIOError
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode, ResponseCode

NO_OFFSET: Final = -1


class OffsetStore(Protocol):
    """What a consumer asks of its progress."""

    async def load(self, queue: MessageQueue) -> int:
        """The offset to go on from, ``NO_OFFSET`` if there is none."""

    async def save(self, queues: Iterable[ProcessQueue]) -> None:
        """Keep how far these queues have come."""

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep one offset, and wait until that is done."""


class BrokerOffsets:
    """The broker of each queue keeps the group's offset."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def load(self, queue: MessageQueue) -> int:
        reply = await self._instance.transport.call(
            self._instance.routes.keeper(queue.broker_name),
            RequestCode.QUERY_CONSUMER_OFFSET,
            self._ext(queue),
            accept=(ResponseCode.QUERY_NOT_FOUND,),
            what=f"the offset of group {self._group!r}",
        )
        return NO_OFFSET if reply.code == ResponseCode.QUERY_NOT_FOUND else reply.int_field("offset")

    async def save(self, queues: Iterable[ProcessQueue]) -> None:
        failure: FlareMQError | None = None
        for process_queue in queues:
            offset, queue = process_queue.commit_offset, process_queue.queue
            if offset < 0:
                continue
            try:
                address = self._instance.routes.keeper(queue.broker_name)
                if offset == process_queue.reported_offset and address == process_queue.reported_to:
                    continue
                await self._instance.transport.oneway(
                    address,
                    RequestCode.UPDATE_CONSUMER_OFFSET,
                    self._ext(queue) | {"commitOffset": str(offset)},
                )
            except FlareMQError as error:  # other queues are on other brokers
                failure = error
                continue
            process_queue.reported_offset, process_queue.reported_to = offset, address
        if failure is not None:
            raise failure

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        await self._instance.transport.call(
            self._instance.routes.keeper(queue.broker_name),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            self._ext(queue) | {"commitOffset": str(offset)},
            what=f"committing the offset of group {self._group!r}",
        )

    def _ext(self, queue: MessageQueue) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "bname": queue.broker_name,
        }


class LocalOffsets:
    """A file keeps the offsets of one broadcasting consumer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[MessageQueue, int] | None = None
        self._turn = asyncio.Lock()  # one use of the file at a time: the last to write must be the last to know

    async def load(self, queue: MessageQueue) -> int:
        async with self._turn:
            if self._offsets is None:
                self._offsets = await asyncio.to_thread(_read_file, self._path)
            return self._offsets.get(queue, NO_OFFSET)

    async def save(self, queues: Iterable[ProcessQueue]) -> None:
        entries = list(queues)
        async with self._turn:
            changed = {
                entry.queue: entry.commit_offset for entry in entries if entry.commit_offset != entry.reported_offset
            }
            if changed:
                await self._write(changed)
            for entry in entries:
                entry.reported_offset = changed.get(entry.queue, entry.reported_offset)

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        async with self._turn:
            await self._write({queue: offset})

    async def _write(self, changed: dict[MessageQueue, int]) -> None:
        offsets = {**(self._offsets or {}), **changed}
        await asyncio.to_thread(_write_file, self._path, offsets)
        self._offsets = offsets


def local_offsets_path(folder: str, instance_name: str, group: str) -> Path:
    """The file of a broadcasting consumer; consumers that run at the same time need names of their own."""
    root = Path(folder) if folder else Path.home() / ".flaremq_offsets"
    return root / (instance_name or "DEFAULT") / f"{group}.json"


def _read_file(path: Path) -> dict[MessageQueue, int]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["offsets"]
        return {
            MessageQueue(
                topic=str(row["topic"]), broker_name=str(row["brokerName"]), queue_id=int(row["queueId"])
            ): int(row["offset"])
            for row in rows
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreIOError("reading offsets", path, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FlareMQError(f"{path} holds no offsets ({error}): repair or remove it") from None


def _write_file(path: Path, offsets: dict[MessageQueue, int]) -> None:
    rows = [
        {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in sorted(offsets.items())
    ]
    try:
        replace_file(path, json.dumps({"offsets": rows}, indent=1).encode())
    except OSError as error:
        raise StoreIOError("writing offsets", path, error) from error
