"""A consumer that may not consume is told so when it starts, instead of waiting for messages that never come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flaremq.client.admin.access import AclEntry
from flaremq.client.credentials import Credentials
from flaremq.errors import AccessDeniedError
from flaremq.sync import Admin, Consumer
from tests.support.guarded_lab import ROOT, GuardedLab

APP = Credentials(access_key="app", secret_key="app-secret-1")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLab]:
    with GuardedLab(tmp_path_factory.mktemp("guarded")) as lab:
        with Admin(lab.name_server, credentials=ROOT) as admin:
            broker = lab.broker.address
            admin.create_topic("orders", read_queues=1, write_queues=1, broker=broker)
            admin.create_user(broker, APP.access_key, APP.secret_key)
            allowed = {"Topic:orders": ("Sub",), "Group:mine": ("Sub",)}
            entries = [AclEntry(resource=name, actions=acts, decision="Allow") for name, acts in allowed.items()]
            admin.create_acl(broker, "User:app", entries)
        lab.look()
        yield lab


def test_a_group_that_is_not_ones_own_stops_the_start(lab: GuardedLab) -> None:
    consumer = Consumer(lab.name_server, group="others", subscribe="orders", credentials=APP)
    with pytest.raises(AccessDeniedError, match="Group:others"):
        consumer.start()


def test_the_own_group_starts(lab: GuardedLab) -> None:
    with Consumer(lab.name_server, group="mine", subscribe="orders", credentials=APP):
        pass
