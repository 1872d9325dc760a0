"""A dozen lines of protocol: asks a name server for a route, to see from outside that servers are ready; makes a topic.

Standard library only, and no code of ours: what is tested here must not vouch for itself.
"""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable

_GET_ROUTE = 105
_UPDATE_TOPIC = 17
# Any topic would do that a broker registers by itself as soon as it can serve.
_BUILT_IN_TOPIC = "TBW102"

# The key and the secret of an account.
Signer = tuple[str, str]


def has_route(
    name_server: str,
    topic: str = _BUILT_IN_TOPIC,
    *,
    timeout_s: float = 1.0,
    signer: Signer | None = None,
    tls: ssl.SSLContext | None = None,
) -> bool:
    """Whether the name server answers and knows a live broker for the topic; one with access control wants a signer."""
    try:
        return _reply(name_server, _GET_ROUTE, _signed({"topic": topic}, signer), timeout_s, tls)[0] == 0
    except OSError:
        return False


def broker_count(name_server: str, topic: str = _BUILT_IN_TOPIC) -> int:
    """How many brokers the name server knows for the topic; 0 if it does not answer."""
    try:
        code, body = _reply(name_server, _GET_ROUTE, {"topic": topic}, 1.0)
    except OSError:
        return 0
    return len(json.loads(body)["brokerDatas"]) if code == 0 else 0


def create_topic(broker: str, topic: str, *, queues: int, signer: Signer | None = None) -> None:
    fields = {
        "topic": topic,
        "defaultTopic": _BUILT_IN_TOPIC,
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    code, _body = _reply(broker, _UPDATE_TOPIC, _signed(fields, signer), 10.0)
    if code != 0:
        raise RuntimeError(f"creation of {topic} was answered with code {code}")


def _signed(fields: dict[str, str], signer: Signer | None) -> dict[str, str]:
    """The fields of a request without a body, with the proof of who sends it."""
    if signer is None:
        return fields
    key, secret = signer
    fields = {**fields, "AccessKey": key}
    content = "".join(fields[name] for name in sorted(fields)).encode()
    return {**fields, "Signature": base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()}


def _reply(
    address: str, code: int, fields: dict[str, str], timeout_s: float, tls: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Code and body of the answer to one request on a connection of its own."""
    host, port = address.rsplit(":", 1)
    header = {"code": code, "language": "JAVA", "version": 407, "opaque": 1, "flag": 0, "extFields": fields}
    encoded = json.dumps(header).encode()
    with (
        socket.create_connection((host, int(port)), timeout=timeout_s) as plain,
        plain if tls is None else tls.wrap_socket(plain) as connection,
    ):
        connection.sendall(struct.pack(">ii", 4 + len(encoded), len(encoded)) + encoded)
        length, header_length = struct.unpack(">ii", _exactly(connection, 8))
        frame = _exactly(connection, length - 4)
    header_length &= 0xFFFFFF
    return int(json.loads(frame[:header_length])["code"]), frame[header_length:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("closed in the middle of a frame")
        received += chunk
    return received


def is_open(address: str) -> bool:
    """Whether something accepts connections there."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def wait(what: str, condition: Callable[[], bool], *, seconds: float) -> None:
    """Poll a condition until it holds; the failure says what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still no {what}")
        time.sleep(0.02)
