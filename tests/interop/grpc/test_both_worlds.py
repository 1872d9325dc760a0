"""Two worlds: what clients of the older protocol send, clients of gRPC receive, and the other way round."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flaremq.message.message import Message
from flaremq.sync import Consumer, Producer
from tests.interop.grpc import clients, doors, scenarios
from tests.interop.wire import java_client, programs
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop
_JAVA = "5.5.0"
_SUM, _PROPERTIES = 3, 8  # in what Contents.java prints of a message


class _Seen(NamedTuple):
    body: bytes
    tag: str
    keys: frozenset[str]
    properties: Mapping[str, str]


_SENT = (
    _Seen(b"plain", "A", frozenset(("k1", "k2")), {"colour": "red"}),
    _Seen("Größe 中文".encode(), "B", frozenset(("Schlüssel",)), {"name": "Wert 中文"}),
    _Seen(b"squeezed " * 4000, "C", frozenset(("k3",)), {"colour": "green"}),  # its body is compressed on the way
)
_NAMES = {name for each in _SENT for name in each.properties}


@pytest.mark.parametrize("client", [pytest.param(clients.PYTHON, marks=pytest.mark.wire_core), clients.JAVA])
def test_a_message_goes_through_both_worlds_and_stays_what_it_is(client: str, door: doors.Door, tmp_path: Path) -> None:
    require(clients.why_not(client))
    run = f"gworlds{client}"
    topic = scenarios.topic(run, "relay")
    with door.admin() as admin:
        for name in (topic, f"{topic}-back"):
            admin.create_topic(name, read_queues=4, write_queues=4)
    with Producer(door.behind.name_server, group=f"{run}-p") as producer:
        identities = {
            producer.send(
                Message(topic, each.body, tags=each.tag, keys=each.keys, properties=dict(each.properties))
            ).message_id
            for each in _SENT
        }
    result = clients.run(client, door, ("relay",), run=run, scratch=tmp_path)["relay"]
    assert result["ok"], result["error"]
    found = []
    with Consumer(door.behind.name_server, group=f"{run}-c", subscribe=f"{topic}-back", start_from="first") as consumer:
        while len(found) < len(_SENT):
            received = consumer.receive(timeout=30)
            assert received is not None, f"only {len(found)} messages came back"
            own = {name: value for name, value in received.properties.items() if name in _NAMES}
            found.append(_Seen(received.body, received.tags or "", frozenset(received.keys), own))
            assert received.properties["attempt"] == "1"
            identities.discard(received.properties["id"])
    assert sorted(found) == sorted(_SENT)
    assert not identities


def test_a_java_client_of_the_older_protocol_sees_what_was_sent_by_grpc(door: doors.Door, tmp_path: Path) -> None:
    require(clients.why_not(clients.PYTHON))
    require(programs.why_no_java(_JAVA))
    results = clients.run(clients.PYTHON, door, ("send", "fifo"), run="gseen", scratch=tmp_path)
    assert all(result["ok"] for result in results.values()), results
    topics = java_client.contents(door.behind, _JAVA, "gseen-", scratch=tmp_path)["topics"]
    (hello,) = _messages(topics["gseen-send"])
    assert hello[_SUM] == zlib.crc32(b"hello")
    for pair in ("TAGS=A", "KEYS=k", "colour=red", "__BORNHOST="):
        assert pair in hello[_PROPERTIES]
    assert any(name.startswith("byKey k") and found for name, found in topics["gseen-send"].items())
    ordered = _messages(topics["gseen-fifo"])
    red = [message[_SUM] for message in ordered if "__SHARDINGKEY=red" in message[_PROPERTIES]]
    assert red == [zlib.crc32(f"red-{number}".encode()) for number in range(10)]


def _messages(topic: Mapping[str, Any]) -> list[Any]:
    return [message for queue in topic["queues"].values() for message in queue["messages"]]
