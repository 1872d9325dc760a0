"""A name server and broker that only pretends: ``python -m benchmarks.cpu.fake_broker``, its port on standard output.

Every send is stored at once, every pull finds messages of 1 KB, without end. It knows nothing of FlareMQ, so that the
clients of two trees meet the same bytes, and what it costs is not theirs.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from typing import Any

QUEUES = 8
TOPIC = "bench"
_BROKER = "broker-a"
_ROUTE, _SEND, _SEND_BATCH, _PULL = 105, 310, 320, 11
_ONEWAY = 2
_BODY = bytes(range(256)) * 4
_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4, "big")
_PULLED_MAX = 220  # as many 1 KB records as 256 KiB hold


class FakeBroker(asyncio.Protocol):
    """One connection."""

    address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._buffer = bytearray()
        self._stored = [0] * QUEUES

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 8:
            length, word = struct.unpack_from(">iI", buffer, at)
            if len(buffer) - at < length + 4:
                break
            head_end = at + 8 + (word & 0xFFFFFF)
            header = json.loads(bytes(buffer[at + 8 : head_end]))
            if not header.get("flag", 0) & _ONEWAY:
                self._answer(header, memoryview(buffer)[head_end : at + 4 + length])
            at += length + 4
        del buffer[:at]

    def _answer(self, header: dict[str, Any], body: memoryview) -> None:
        ext, code = header.get("extFields") or {}, header["code"]
        if code in (_SEND, _SEND_BATCH):
            self._reply(header, ext=self._store(int(ext["e"]), _count(body) if code == _SEND_BATCH else 1))
        elif code == _PULL:
            first, count = int(ext["queueOffset"]), min(int(ext["maxMsgNums"]), _PULLED_MAX)
            found = {
                "nextBeginOffset": str(first + count),
                "minOffset": "0",
                "maxOffset": str(1 << 40),
                "suggestWhichBrokerId": "0",
            }
            self._reply(header, ext=found, body=_records(int(ext["queueId"]), first, count))
        elif code == _ROUTE:
            self._reply(header, body=json.dumps(self._route()).encode())
        else:
            self._reply(header, ext={"offset": "0"})  # whichever is asked for

    def _store(self, queue_id: int, count: int) -> dict[str, str]:
        offset = self._stored[queue_id]
        self._stored[queue_id] += count
        ids = ",".join(f"7F00000100002A9F{at:016X}" for at in range(offset, offset + count))
        return {"msgId": ids, "queueId": str(queue_id), "queueOffset": str(offset)}

    def _route(self) -> dict[str, Any]:
        queues = {"brokerName": _BROKER, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
        broker = {"cluster": "bench", "brokerName": _BROKER, "brokerAddrs": {"0": self.address}}
        return {"queueDatas": [queues | {"topicSysFlag": 0}], "brokerDatas": [broker], "filterServerTable": {}}

    def _reply(self, header: dict[str, Any], *, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        fields = {"code": 0, "flag": 1, "language": "JAVA", "opaque": header["opaque"], "version": 475}
        head = json.dumps(fields | {"extFields": ext or {}, "serializeTypeCurrentRPC": "JSON"}).encode()
        self._transport.writelines([struct.pack(">ii", 4 + len(head) + len(body), len(head)), head, body])


def _count(body: memoryview) -> int:
    """Messages of a batch."""
    count = at = 0
    while at < len(body):
        at += int.from_bytes(body[at : at + 4], "big")
        count += 1
    return count


def _records(queue_id: int, first: int, count: int) -> bytes:
    template = _template(queue_id)
    data = bytearray(template * count)
    for number in range(count):
        struct.pack_into(">qq", data, number * len(template) + 20, first + number, (first + number) * len(template))
    return bytes(data)


def _template(queue_id: int) -> bytes:
    properties = b"KEYS\x01key-00000000\x02UNIQ_KEY\x01" + b"7" * 32 + b"\x02"
    tail = _BODY + bytes((len(TOPIC),)) + TOPIC.encode() + struct.pack(">h", len(properties)) + properties
    times = struct.pack(">q", 1_700_000_000_000)
    head = struct.pack(">iiiii", 88 + len(tail), -626_843_481, 0, queue_id, 0) + bytes(20) + times + _HOST + times
    return head + _HOST + struct.pack(">iqi", 0, 0, len(_BODY)) + tail


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(FakeBroker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    FakeBroker.address = f"127.0.0.1:{port}"
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)  # ends with whoever started it


if __name__ == "__main__":
    asyncio.run(_main())
