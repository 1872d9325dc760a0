"""Reading a cluster that asks who is there: what an account needs, and what it is told if it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import flaremq
from flaremq import Credentials, sync
from flaremq.client.admin.access import AclEntry
from flaremq.errors import AccessDeniedError, InvalidArgumentError
from flaremq.message.message import Message
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources.open import source_spec
from tests.pipeline.wire_lab import check_progress, commit_progress
from tests.support import planted
from tests.support.guarded_lab import ROOT, GuardedLab, write_private

APP = Credentials(access_key="app", secret_key=planted.CLIENT)
READING = {"Topic:orders": "Sub", "Group:flaremq-scan": "Sub"}
COUNT = 10


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLab]:
    with GuardedLab(tmp_path_factory.mktemp("guarded")) as lab:
        with sync.Admin(lab.name_server, credentials=ROOT) as admin:
            admin.create_topic("orders", read_queues=1, write_queues=1)
        with sync.Producer(lab.name_server, credentials=ROOT) as producer:
            for number in range(COUNT):
                producer.send(Message("orders", b"%d" % number, keys=[f"k-{number}"]))
        yield lab


@pytest.fixture
def let(lab: GuardedLab) -> Iterator[Callable[[dict[str, str]], None]]:
    """Make the account with these policies."""
    with sync.Admin(lab.name_server, credentials=ROOT) as admin:

        def make(policies: dict[str, str]) -> None:
            admin.create_user(lab.broker.address, APP.access_key, APP.secret_key)
            entries = [
                AclEntry(resource=name, actions=tuple(actions.split(",")), decision="Allow")
                for name, actions in policies.items()
            ]
            if entries:
                admin.create_acl(lab.broker.address, f"User:{APP.access_key}", entries)
            lab.look()

        yield make
        admin.delete_user(lab.broker.address, APP.access_key)


def test_an_account_reads_with_sub_on_the_topic_and_on_the_group_of_scans(
    lab: GuardedLab, let: Callable[[dict[str, str]], None]
) -> None:
    let(READING)
    reading = {"name_server": lab.name_server, "topic": "orders", "credentials": APP}
    assert flaremq.scan(**reading).read_all().num_rows == COUNT
    assert flaremq.scan(**reading, keys="k-3").read_all()["body"].to_pylist() == [b"3"]
    assert flaremq.scan(**reading, starting_timestamp="1h").read_all().num_rows == COUNT


def test_the_account_of_a_scan_may_stand_among_its_options(
    lab: GuardedLab, let: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    let(READING)
    place = write_private(tmp_path / "secret", APP.secret_key)
    named = {"accessKey": "app", "secretKeyFile": place}
    assert flaremq.scan(name_server=lab.name_server, topic="orders", **named).read_all().num_rows == COUNT
    with pytest.raises(InvalidArgumentError, match=r"both credentials .* and options"):
        flaremq.scan(name_server=lab.name_server, topic="orders", credentials=APP, **named)


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({}, "Topic:orders"),
        ({"Topic:orders": "Sub"}, "Group:flaremq-scan"),
        ({"Topic:orders": "Pub", "Group:flaremq-scan": "Sub"}, "Topic:orders"),
    ],
)
def test_an_account_is_told_what_it_lacks(
    lab: GuardedLab, let: Callable[[dict[str, str]], None], policies: dict[str, str], words: str
) -> None:
    let(policies)
    with pytest.raises(AccessDeniedError, match=f"User:app has no permission to access {words}") as caught:
        flaremq.scan(name_server=lab.name_server, topic="orders", credentials=APP).read_all()
    assert not planted.found_in(str(caught.value))


def test_progress_is_reported_by_an_account_that_may_do_no_more_than_that(
    lab: GuardedLab, let: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    let({"Topic:orders": "Sub", "Group:progress": "Sub"})
    with sync.Admin(lab.name_server, credentials=ROOT) as admin:
        admin.create_group("progress")
        place = write_private(tmp_path / "secret", APP.secret_key)
        options = {"nameServer": lab.name_server, "topic": "orders", "accessKey": "app", "secretKeyFile": place}
        spec = source_spec(parse_options(options))
        check_progress(spec, "progress")
        commit_progress(spec, "progress", {"orders": {"broker-a": {"0": 7}}})
        (queue,) = [queue for queue in admin.queues("orders")]
        assert admin.committed("progress", queue) == 7
