"""One connection to a broker, spoken to frame by frame: sends with their reply codes and times, pulls, questions.

Standard library only, and no code of ours: what is tested here must not vouch for itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

OK, FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 0, 10, 11, 12
NO_TOPIC = 17

_SEND_V2 = 310
_PULL = 11
_RUNTIME_INFO = 28
_MAX_OFFSET = 30
_MIN_OFFSET = 31
_UPDATE_OFFSET = 15
_QUERY_OFFSET = 14
_HA_STATUS = 907
_ROUTE = 105
_SYNC_STATE_DATA = 1006
_DELAY_PROGRESS = 45
_UPDATE_GROUP = 200
_WITH_SUBSCRIPTION = 4
_BORN = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        """The body; RocketMQ's JSON has integers as keys, which are not JSON."""
        return json.loads(re.sub(r"([{,])\s*(-?\d+)\s*:", r'\1"\2":', self.body.decode()))


class Talk:
    """One request at a time; a connection that was lost is made anew with the next request."""

    def __init__(self, address: str, *, timeout_s: float = 20.0) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Reply:
        """The reply, whatever its code; OSError if there is none."""
        self._opaque += 1
        texts = {name: str(value) for name, value in (fields or {}).items()}
        header = {"code": code, "language": "JAVA", "version": 407, "opaque": self._opaque, "flag": 0}
        encoded = json.dumps(header | {"extFields": texts}).encode()
        frame = struct.pack(">ii", 4 + len(encoded) + len(body), len(encoded)) + encoded + body
        began = time.monotonic()
        try:
            connection = self._connected()
            connection.sendall(frame)
            while True:
                head, rest = self._frame(connection)
                if head.get("opaque") == self._opaque and int(head.get("flag", 0)) & 1:
                    break
        except OSError:
            self.close()
            raise
        fields_back = {name: str(value) for name, value in (head.get("extFields") or {}).items()}
        elapsed = time.monotonic() - began
        return Reply(int(head["code"]), str(head.get("remark") or ""), fields_back, rest, elapsed)

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        tags: str = "",
        keys: str = "",
        delay_level: int = 0,
        wait: bool = True,
        **properties: str,
    ) -> Reply:
        if tags:
            properties["TAGS"] = tags
        if keys:
            properties["KEYS"] = keys
        if delay_level:
            properties["DELAY"] = str(delay_level)
        properties["WAIT"] = "true" if wait else "false"
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        values = ("writers", topic, "TBW102", 4, queue_id, 0, _BORN, 0, text, 0, "false")
        return self.ask(_SEND_V2, dict(zip("abcdefghijk", values, strict=True)), body)

    def pull(self, topic: str, offset: int, *, queue_id: int = 0, group: str = "readers", count: int = 32) -> Reply:
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": count,
            "sysFlag": _WITH_SUBSCRIPTION,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        }
        return self.ask(_PULL, fields)

    def master_address(self, topic: str = "TBW102") -> str | None:
        """Of a name server: where the master of the only broker name is; None if there is none now."""
        reply = self.ask(_ROUTE, {"topic": topic})
        brokers = reply.json()["brokerDatas"] if reply.code == OK else []
        address: str | None = brokers[0]["brokerAddrs"].get("0") if brokers else None
        return address

    def replicas(self, broker_name: str) -> dict[str, Any]:
        """Of a controller: master and SyncStateSet; empty while it does not know the name or does not lead."""
        reply = self.ask(_SYNC_STATE_DATA, {}, json.dumps([broker_name]).encode())
        table = reply.json().get("replicasInfoTable", {}) if reply.code == OK and reply.body else {}
        found: dict[str, Any] = table.get(broker_name, {})
        return found

    def runtime_info(self) -> dict[str, str]:
        """Empty while the broker is still starting."""
        reply = self.ask(_RUNTIME_INFO)
        table: dict[str, str] = reply.json()["table"] if reply.code == OK else {}
        return table

    def log_end(self) -> int:
        return int(self.runtime_info()["commitLogMaxOffset"])

    def ha_status(self) -> Any:
        return self.ask(_HA_STATUS).json()

    def delay_progress(self) -> dict[int, int]:
        """By level: the offset up to which delayed messages were delivered."""
        reply = self.ask(_DELAY_PROGRESS)
        table = reply.json().get("offsetTable", {}) if reply.code == OK and reply.body else {}
        return {int(level): int(offset) for level, offset in table.items()}

    def max_offset(self, topic: str, queue_id: int = 0) -> int:
        return int(self.ask(_MAX_OFFSET, {"topic": topic, "queueId": queue_id}).fields.get("offset", 0))

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> Reply:
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
        return self.ask(_UPDATE_OFFSET, fields)

    def committed_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        reply = self.ask(_QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": queue_id})
        return int(reply.fields["offset"]) if reply.code == OK else None

    def make_group(self, group: str, *, retry_max: int) -> Reply:
        config = {
            "groupName": group,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "retryQueueNums": 1,
            "retryMaxTimes": retry_max,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }
        return self.ask(_UPDATE_GROUP, {}, json.dumps(config).encode())

    def _connected(self) -> socket.socket:
        if self._socket is None:
            host, port = self.address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)), timeout=self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    @staticmethod
    def _frame(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
        length, header_length = struct.unpack(">ii", _exactly(connection, 8))
        frame = _exactly(connection, length - 4)
        header_length &= 0xFFFFFF
        head: dict[str, Any] = json.loads(frame[:header_length])
        return head, frame[header_length:]


def messages(reply: Reply) -> list[tuple[int, bytes]]:
    """(queue offset, body) of the messages in a pull's reply."""
    data, found = reply.body, []
    while data:
        (size,) = struct.unpack_from(">i", data)
        (queue_offset,) = struct.unpack_from(">q", data, 20)
        (length,) = struct.unpack_from(">i", data, 84)  # hosts are IPv4 here
        found.append((queue_offset, data[88 : 88 + length]))
        data = data[size:]
    return found


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("closed in the middle of a frame")
        received += chunk
    return bytes(received)
