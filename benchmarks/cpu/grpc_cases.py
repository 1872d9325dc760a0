"""What the port of gRPC does for a client that sends, receives and acknowledges, sockets included.

A real broker runs in a thread of its own, and before it a client that is as dumb as it can be: it writes frames and
takes what it needs from the replies. Its own thread does not count. Like RocketMQ's Java client it has one connection,
gives every call a new request id and acknowledges message by message; several calls come with one read.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hpack import Encoder

from benchmarks.cpu.cases import Slice
from benchmarks.messages import make_body

_TOPIC: Final = "backlog"
_BACKLOG: Final = 4_096
_BATCH: Final = 32
_AT_ONCE: Final = 8  # calls in a read
_WINDOW: Final = 1 << 20  # as grpc-java has it
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE, _END_STREAM, _END_HEADERS = 0, 1, 4, 8, 1, 4
_INITIAL_WINDOW: Final = 4


class Client:
    """One connection. Calls that are made together are written together."""

    def __init__(self, address: str) -> None:
        from flaremq.grpc.messages.methods import METHODS

        host, _, port = address.rpartition(":")
        self._methods = METHODS
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._encoder = Encoder()
        self._stream = -1
        self._calls = 0
        self._buffer = b""
        window = _INITIAL_WINDOW.to_bytes(2, "big") + _WINDOW.to_bytes(4, "big")
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, window) + _window_update(_WINDOW))

    def call(self, name: str, *requests: Any) -> list[bytes]:
        """The replies' messages, each with its length before it; in the order in which they ended."""
        path = self._methods[name].path
        self._socket.sendall(b"".join([self._request(path, request.SerializeToString()) for request in requests]))
        return list(self._replies(len(requests)))

    def _request(self, path: str, request: bytes) -> bytes:
        self._stream += 2
        self._calls += 1
        block = self._encoder.encode(
            [
                (":authority", "127.0.0.1:8081"),
                (":path", path),
                (":method", "POST"),
                (":scheme", "http"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("user-agent", "grpc-java-netty/1.53.0"),
                ("x-mq-language", "JAVA"),
                ("x-mq-protocol", "v2"),
                ("x-mq-client-version", "5.2.0"),
                ("x-mq-namespace", ""),
                ("x-mq-date-time", "20261120T000000Z"),
                ("x-mq-request-id", f"{self._calls:032x}"),
                ("x-mq-client-id", "host@4711@0@2nrkxi5dd"),
                ("grpc-accept-encoding", "gzip"),
                ("grpc-timeout", f"{9_999_000 + self._calls % 999}u"),
            ],
            huffman=False,  # grpc-java writes short texts as they are
        )
        data = b"\0" + len(request).to_bytes(4, "big") + request
        return _frame(_HEADERS, _END_HEADERS, self._stream, block) + _frame(_DATA, _END_STREAM, self._stream, data)

    def _replies(self, count: int) -> Iterator[bytes]:
        data: dict[int, list[bytes]] = {}
        taken = 0
        while count:
            kind, flags, stream, payload = self._next()
            if kind == _DATA:
                taken += len(payload)
                data.setdefault(stream, []).append(payload)
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                count -= 1
                yield b"".join(data.pop(stream, ()))
        if taken:
            self._socket.sendall(_window_update(taken))

    def _next(self) -> tuple[int, int, int, bytes]:
        while len(self._buffer) < 9 or len(self._buffer) < 9 + int.from_bytes(self._buffer[:3], "big"):
            more = self._socket.recv(1 << 18)
            if not more:
                raise RuntimeError("the broker closed the connection")
            self._buffer += more
        end = 9 + int.from_bytes(self._buffer[:3], "big")
        frame, self._buffer = self._buffer[:end], self._buffer[end:]
        return frame[3], frame[4], int.from_bytes(frame[5:9], "big"), frame[9:]


class Lab:
    """A broker with a backlog, and a client."""

    def __init__(self, folder: Path) -> None:
        from flaremq.client.blocking import LoopThread
        from flaremq.clock import SystemClock
        from flaremq.grpc.messages import classes
        from flaremq.protocol.bodies.topic import TopicConfig
        from flaremq.testing import ephemeral_broker

        self.classes: Any = classes
        self.broker = ephemeral_broker(
            clock=SystemClock(),
            path=str(folder),
            flushDiskType="ASYNC_FLUSH",
            mappedFileSizeCommitLog=1 << 30,
            grpcServerPort=0,
        )
        thread = LoopThread("broker")
        thread.call(self.broker.__aenter__())
        topic = TopicConfig(topic_name=_TOPIC, read_queue_nums=8, write_queue_nums=8)
        thread.apply(self.broker.broker.state.topics.update, topic)
        self.client = Client(self.broker.grpc_address)
        self.resource = classes.Resource(name=_TOPIC)
        self._sent = self._groups = 0
        self.send(_BACKLOG)

    def send(self, count: int) -> float:
        """Microseconds a message."""
        body, micros = make_body(1024), 0.0
        for _ in range(0, count, _AT_ONCE):
            requests = [self._send_request(body) for _ in range(_AT_ONCE)]
            _, spent = self._timed("SendMessage", *requests)
            micros += spent
        return micros / count

    def drain(self) -> tuple[float, float]:
        """A new group receives the backlog and acknowledges it: microseconds a message for either."""
        classes = self.classes
        self._groups += 1
        group = classes.Resource(name=f"group-{self._groups}")
        ask = classes.ReceiveMessageRequest(group=group, batch_size=_BATCH)
        ask.message_queue.topic.CopyFrom(self.resource)
        ask.filter_expression.expression, ask.filter_expression.type = "*", 1
        ask.invisible_duration.seconds = 60
        ask.long_polling_timeout.seconds = 5
        receiving = acknowledging = 0.0
        left = _BACKLOG
        while left:
            (reply,), spent = self._timed("ReceiveMessage", ask)
            receiving += spent
            acks = [self._ack_request(group, message) for message in self._messages(reply)]
            left -= len(acks)
            for first in range(0, len(acks), _AT_ONCE):
                replies, spent = self._timed("AckMessage", *acks[first : first + _AT_ONCE])
                acknowledging += spent
                if any(classes.AckMessageResponse.FromString(each[5:]).status.code != 20_000 for each in replies):
                    raise RuntimeError("an acknowledgement was refused")
        return receiving / _BACKLOG, acknowledging / _BACKLOG

    def _timed(self, name: str, *requests: Any) -> tuple[list[bytes], float]:
        began, own = time.process_time(), time.thread_time()
        replies = self.client.call(name, *requests)
        return replies, (time.process_time() - began - (time.thread_time() - own)) * 1e6

    def _messages(self, reply: bytes) -> Iterator[Any]:
        at = 0
        while at < len(reply):
            size = int.from_bytes(reply[at + 1 : at + 5], "big")
            found = self.classes.ReceiveMessageResponse.FromString(reply[at + 5 : at + 5 + size])
            if found.HasField("message"):
                yield found.message
            at += 5 + size

    def _send_request(self, body: bytes) -> Any:
        self._sent += 1
        message = self.classes.Message(topic=self.resource, body=body)
        system = message.system_properties
        system.message_id, system.message_type, system.body_encoding = f"01{self._sent:032X}", 1, 1
        system.born_timestamp.seconds, system.born_timestamp.nanos = 1_700_000_000, 123_000_000
        system.born_host = "client-host"
        return self.classes.SendMessageRequest(messages=[message])

    def _ack_request(self, group: Any, message: Any) -> Any:
        system = message.system_properties
        entry = self.classes.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
        return self.classes.AckMessageRequest(group=group, topic=self.resource, entries=[entry])


def _slices(folder: Path, work: Callable[[Lab], float]) -> Slice:
    lab = Lab(folder)
    work(lab)  # loads what is loaded late
    return lambda: work(lab)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _window_update(size: int) -> bytes:
    return _frame(_WINDOW_UPDATE, 0, 0, size.to_bytes(4, "big"))


CASES: dict[str, dict[str, Callable[[Path], Slice]]] = {
    "grpc": {
        "send 1 KB": lambda folder: _slices(folder, lambda lab: lab.send(2_000)),
        "receive 32 x 1 KB": lambda folder: _slices(folder, lambda lab: lab.drain()[0]),
        "acknowledge": lambda folder: _slices(folder, lambda lab: lab.drain()[1]),
    },
}
