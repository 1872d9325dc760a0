"""Dead letters of real brokers: listed and given back to their group from our command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flaremq import sync
from flaremq.message.message import Message
from tests.interop import jvm
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.support.admin_cli import until
from tests.support.cli import flaremq

pytestmark = pytest.mark.interop

_TARGETS = [f"rocketmq-{version}" for version in jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")]
_GROUP, _TOPIC = "doubters", "Doubted"


@pytest.mark.parametrize("target", _TARGETS)
def test_a_dead_letter_of_a_real_broker_comes_to_its_group_again(target: str, tmp_path: Path) -> None:
    require(servers.why_not(target))
    with servers.started(target, tmp_path) as started:
        address = started.name_server

        def rows(*arguments: object) -> list[dict[str, Any]]:
            done = flaremq(*arguments, "-n", address, "-o", "jsonl")
            assert done.code == 0, done
            return [json.loads(line) for line in done.out.splitlines()]

        with sync.Admin(address) as admin:
            admin.create_topic(_TOPIC, read_queues=1, write_queues=1)
            admin.create_group(_GROUP)
        with sync.Producer(address) as producer:
            message = Message(_TOPIC, b"doubtful", tags="paid", keys=["o-1"], properties={"region": "eu"})
            sent = producer.send(message)
        with sync.Consumer(address, group=_GROUP, subscribe=_TOPIC, start_from="first") as consumer:
            failed = consumer.receive(timeout=60)
            assert failed is not None
            failed.retry(-1)
        dead_letters = f"%DLQ%{_GROUP}"
        until(lambda: dead_letters in {row["topic"] for row in rows("topic", "list")})
        # Before 5.x brokers make the topic of dead letters write-only, as docs/cli.md says.
        assert flaremq("topic", "create", dead_letters, "--perm", "rw", "--queues", 1, "-n", address).code == 0
        until(lambda: len(rows("message", "dead-letters", "--group", _GROUP)) == 1)
        (row,) = rows("message", "dead-letters", "--group", _GROUP)
        assert (row["messageId"], row["originTopic"], row["body"]) == (sent.message_id, _TOPIC, "doubtful")
        (result,) = rows("message", "resend", "--group", _GROUP, "--id", sent.message_id)
        assert (result["status"], result["topic"]) == ("SEND_OK", f"%RETRY%{_GROUP}")
        with sync.Consumer(address, group=_GROUP, subscribe=_TOPIC) as consumer:
            again = consumer.receive(timeout=60)
            assert again is not None
            assert (again.message_id, again.topic, again.body) == (sent.message_id, _TOPIC, b"doubtful")
            assert (again.tags, list(again.keys), again.properties["region"]) == ("paid", ["o-1"], "eu")
            assert again.delivery_attempt == 1
