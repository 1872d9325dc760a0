"""Pull replies from the map to the socket, gathered or copied first: ``python -m benchmarks.wire.zero_copy``.

One process holds broker and client, and both ways take turns; what is compared is processor time per pull, in which
the client's share is the same for both.
"""

from __future__ import annotations

import asyncio
import json
import time

from benchmarks.messages import send_fields
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.testing import ephemeral_broker

_MESSAGES = 20_000
_PULLS = 2_000
_ROUNDS = 5


async def _fill(address: str, client: RemotingClient, size: int) -> None:
    ext = send_fields("copy", 0, queues=1)
    for start in range(0, _MESSAGES, 500):
        count = min(500, _MESSAGES - start)
        requests = (RemotingCommand.request(310, ext, bytes(size)) for _ in range(count))
        await asyncio.gather(*(client.request(address, request, 30) for request in requests))


async def _pulls(address: str, client: RemotingClient) -> float:
    """Microseconds of processor time a pull."""
    began = time.process_time()
    for number in range(_PULLS):
        ext = {
            "consumerGroup": "g",
            "topic": "copy",
            "queueId": 0,
            "queueOffset": number * 32 % (_MESSAGES - 32),
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subVersion": 0,
            "subscription": "*",
        }
        reply = await client.request(address, RemotingCommand.request(11, ext), 30)
        assert reply.code == 0 and len(reply.body) > 32
    return (time.process_time() - began) / _PULLS * 1e6


def _copying(write: object) -> object:
    def write_copied(self: Connection, parts: list[bytes]) -> None:
        write(self, [b"".join(parts)])  # type: ignore[operator]

    return write_copied


async def _measure(size: int) -> dict[str, float]:
    async with ephemeral_broker(flushDiskType="ASYNC_FLUSH", mappedFileSizeCommitLog=1 << 28) as broker:
        client = RemotingClient()
        await _fill(broker.address, client, size)
        broker.broker.store_loop.dispatching.catch_up()
        gathered, copied = Connection.write, _copying(Connection.write)
        best = {"gathered": 1e9, "copied": 1e9}
        try:
            for _ in range(_ROUNDS):
                for name, write in (("gathered", gathered), ("copied", copied)):
                    Connection.write = write  # type: ignore[method-assign,assignment]
                    best[name] = min(best[name], await _pulls(broker.address, client))
        finally:
            Connection.write = gathered  # type: ignore[method-assign]
        await client.close()
    return {name: round(value, 1) for name, value in best.items()} | {
        "ratio": round(best["copied"] / best["gathered"], 2)
    }


def main() -> None:
    import flaremq.storage.get.views  # noqa: F401  # the kernels, before the clock starts
    from flaremq.remoting import event_loop

    print(json.dumps({f"32 x {size} B": event_loop.run(_measure(size)) for size in (128, 1024, 4096)}, indent=2))


if __name__ == "__main__":
    main()
