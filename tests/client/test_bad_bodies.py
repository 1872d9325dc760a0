"""A body that cannot be inflated passes through a consumer's loop like any other."""

from __future__ import annotations

from flaremq.message.message import Message
from flaremq.sync import Admin, Consumer
from flaremq.testing import ephemeral_broker


def test_loop_goes_on_past_a_body_that_is_not_what_it_says() -> None:
    with ephemeral_broker() as broker:
        with Admin(broker.name_server) as admin:
            admin.create_topic("orders", read_queues=1, write_queues=1)
        store = broker.broker.store
        for body, sys_flag in ((b"before", 0), (b"not zlib", 1), (b"no such type", 1 | 7 << 8), (b"behind", 0)):
            store.put(Message("orders", body), queue_id=0, sys_flag=sys_flag)
        found = []
        with Consumer(broker.name_server, group="billing", subscribe={"orders": "*"}, start_from="first") as consumer:
            for message in consumer:
                found.append((message.body, message.body_error is None))
                if len(found) == 4:
                    break
    assert found == [(b"before", True), (b"not zlib", False), (b"no such type", False), (b"behind", True)]
