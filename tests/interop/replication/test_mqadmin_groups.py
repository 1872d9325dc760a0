"""The real mqadmin looks at a master and a slave: who is in the group, how far they are, what they have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.replication.combinations import combinations, require_group
from tests.interop.replication.group import Group
from tests.interop.wire import mqadmin, programs
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop


@dataclass(frozen=True, slots=True)
class Look:
    """A running tool and the group it looks at."""

    tool: mqadmin.Mqadmin
    group: Group

    def found(self, command: str, pattern: str, *words: str) -> None:
        answer = self.tool.run(command, [word.format_map(self._names) for word in words])
        assert not answer.has_failed, answer.text
        names = {name: re.escape(value) for name, value in self._names.items()}
        for name, value in names.items():
            pattern = pattern.replace("{" + name + "}", value)
        assert re.search(pattern.replace(" ", r"\s+"), answer.text), f"no {pattern!r} in\n{answer.text}"

    @property
    def _names(self) -> dict[str, str]:
        return {**self.tool.names, "master": self.group.master.address, "slave": self.group.slave.address}


class _Target:
    def __init__(self, group: Group) -> None:
        self.name_server, self.broker = group.name_server, group.master.address


@pytest.fixture(scope="module", params=combinations())
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    require_group(request.param)
    version = "4.9.7" if "4.9.7" in request.param else "5.5.0"
    require(programs.why_no_java(version))
    folder: Path = tmp_path_factory.mktemp("mqadmin")
    with Group(request.param, folder / "group") as group:
        group.start()
        with mqadmin.Mqadmin(version, _Target(group), "wrep", folder / "tool") as tool:
            group.wait_caught_up()
            yield Look(tool, group)


def test_cluster_list_has_master_and_slave(look: Look) -> None:
    look.found("clusterList", r"broker-a 0 {master} ")
    look.found("clusterList", r"broker-a 1 {slave} ")


def test_ha_status_of_the_master_names_its_slave(look: Look) -> None:
    _needs_5(look)
    end = look.group.wait_caught_up()
    look.found("haStatus", rf"#MasterAddr {{master}} #MasterCommitLogMaxOffset {end} #SlaveNum 1", "-b", "{master}")
    look.found("haStatus", rf"127\.0\.0\.1:\d+ {end} 0 [\d.]+ OK {end}", "-b", "{master}")


def test_ha_status_of_the_slave_names_its_master(look: Look) -> None:
    _needs_5(look)
    end = look.group.wait_caught_up()
    host = re.escape(look.group.link.address)
    look.found("haStatus", rf"#MasterAddr {host} #CommitLogMaxOffset {end}", "-b", "{slave}")


def test_both_find_a_message_by_its_key(look: Look) -> None:
    look.found("queryMsgByKey", "{unique_id} {queue} 2", "-t", "{topic}", "-k", "{key}")
    for where in ("{master}", "{slave}"):
        look.found("brokerStatus", rf"commitLogMaxOffset : {look.group.wait_caught_up()}", "-b", where)


def test_progress_of_a_group_is_shown(look: Look) -> None:
    look.found("consumerProgress", "{topic} broker-a 0 3 3 0", "-g", "{group}")


def test_key_is_found_when_only_the_slave_is_left(look: Look) -> None:
    """Last of all: the master ends here."""
    group = look.group
    topics = 21
    known = look.tool.names["topic"]
    group.wait(
        "topic at the slave", lambda: known in group.slave.talk.ask(topics).json()["topicConfigTable"], seconds=90
    )
    group.master.kill()
    look.found("queryMsgByKey", "{unique_id} {queue} 2", "-t", "{topic}", "-k", "{key}")
    look.found("clusterList", r"broker-a 1 {slave} ")


def _needs_5(look: Look) -> None:
    if look.tool.version[0] == "4" or "4.9.7" in look.group.kinds:
        pytest.skip("4.9 has no haStatus")
