"""A master and a slave of different kinds: catch-up, live and waiting puts, faults; equal files in the end.

The tests of a combination share one pair and run in order, but each makes what it needs, so any of them runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.replication import store_files
from tests.interop.replication.combinations import code_without_slave, combinations, require_group, sync_master
from tests.interop.replication.group import FILE_SIZE, Group
from tests.interop.replication.load import Load
from tests.interop.replication.talk import FLUSH_SLAVE_TIMEOUT, OK, SLAVE_NOT_AVAILABLE
from tests.support.tcp_proxy import DOWN

pytestmark = pytest.mark.interop

# A JVM that is killed and started again and again takes a minute: real slaves have a short test of their own below.
_CORE = ("flaremq>flaremq", "rocketmq-4.9.7>flaremq")
_AT_ONCE_S = 0.7  # half of slaveTimeout: clearly not what waited for it, also on a busy machine


class Pair:
    def __init__(self, group: Group) -> None:
        self.group = group
        self.load = Load()

    def with_slave(self) -> Group:
        """Both run, and the slave has everything."""
        self.group.link.heal()
        self.group.start()
        # Whether the slave is connected shows in the answer: 4.9 does not wait for one that is not.
        self.group.wait("send that a slave has", lambda: self._send_code() == OK)
        self.group.wait_caught_up()
        return self.group

    def without_slave(self) -> Group:
        self.group.slave.kill()
        self.group.start_master()
        self.group.wait("end of the connection", lambda: self.group.link.open_connections == 0)
        return self.group

    def _send_code(self) -> int:
        return self.group.master.talk.send("orders", b"is a slave there").code


@pytest.fixture(scope="module", params=combinations(core=_CORE))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    require_group(request.param)
    folder: Path = tmp_path_factory.mktemp("pair")
    with Group(request.param, folder / "group", master_options=sync_master(request.param)) as group:
        yield Pair(group)


def test_send_without_a_slave_is_stored_and_answered_as_by_the_original(pair: Pair) -> None:
    group = pair.without_slave()
    before = group.master.talk.log_end()
    wanted = code_without_slave(group.master.options)
    reply = group.master.talk.send("orders", b"nobody copies this yet")
    assert reply.code == wanted, reply
    assert reply.fields["msgId"] and reply.fields["queueOffset"], "the full reply of a send"
    if wanted == SLAVE_NOT_AVAILABLE:
        assert reply.seconds < _AT_ONCE_S
    assert group.master.talk.log_end() > before
    assert group.master.talk.send("orders", b"does not wait", wait=False).code == OK


def test_empty_slave_gets_the_log(pair: Pair) -> None:
    group = pair.without_slave()
    group.slave.wipe()
    pair.load.fill(group, 2 * FILE_SIZE + FILE_SIZE // 3)
    pair.with_slave()


def test_send_is_acknowledged_when_the_slave_has_it(pair: Pair) -> None:
    group = pair.with_slave()
    for _ in range(20):
        place = pair.load.send(group, wait=True)
        assert group.slave.talk.log_end() > place


def test_message_that_waits_for_nobody_arrives_too(pair: Pair) -> None:
    group = pair.with_slave()
    reply = group.master.talk.send("orders", b"does not wait", wait=False)
    assert reply.code == OK and reply.seconds < _AT_ONCE_S
    group.wait_caught_up()


def test_send_beside_a_frozen_slave_times_out_and_arrives_after_it_wakes(pair: Pair) -> None:
    group = pair.with_slave()
    group.slave.freeze()
    try:
        reply = group.master.talk.send("orders", b"for a frozen slave")
        assert reply.code == FLUSH_SLAVE_TIMEOUT, reply
        assert reply.seconds >= _AT_ONCE_S
        reply = group.master.talk.send("orders", b"does not wait", wait=False)
        assert reply.code == OK and reply.seconds < _AT_ONCE_S
    finally:
        group.slave.thaw()
    group.wait_caught_up()
    assert group.master.talk.send("orders", b"awake").code == OK


def test_slave_comes_back_after_its_connection_was_cut(pair: Pair) -> None:
    group = pair.with_slave()
    group.link.cut()
    reply = group.master.talk.send("orders", b"over a cut link")
    assert reply.code in (FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE), reply
    group.link.heal()
    pair.with_slave()


def test_killed_slave_catches_up_over_file_ends(pair: Pair) -> None:
    group = pair.with_slave()
    pair.without_slave()
    assert group.master.talk.send("orders", b"to nobody").code == code_without_slave(group.master.options)
    pair.load.fill(group, FILE_SIZE + FILE_SIZE // 2)
    pair.with_slave()


def test_transfer_that_breaks_inside_a_record_is_continued(pair: Pair) -> None:
    group = pair.with_slave()
    pair.without_slave()
    pair.load.fill(group, FILE_SIZE // 2)
    group.link.limit(DOWN, 200_001)
    pair.with_slave()


def test_slave_killed_in_the_middle_of_a_transfer_recovers(pair: Pair) -> None:
    group = pair.with_slave()
    pair.without_slave()
    pair.load.fill(group, FILE_SIZE)
    group.link.bytes_per_second = 400_000
    end = group.master.talk.log_end()
    passed = group.link.passed[DOWN]
    group.start_slaves()
    group.wait("some of the log", lambda: group.link.passed[DOWN] > passed + 200_000)
    assert group.slave.talk.log_end() < end
    group.slave.kill()
    pair.with_slave()


def test_files_of_both_are_equal_in_the_end(pair: Pair) -> None:
    group = pair.with_slave()
    pair.load.fill(group, FILE_SIZE // 4)
    group.assert_equal_stores()


@pytest.mark.wire_core
@pytest.mark.parametrize("slave", ["rocketmq-5.5.0", "rocketmq-4.9.7"])
def test_real_slave_follows_our_master_from_its_first_byte(slave: str, tmp_path: Path) -> None:
    """The short form of the above: a full copy, and sends that wait."""
    kinds = f"flaremq>{slave}"
    require_group(kinds)
    with Group(kinds, tmp_path / "group", master_options=sync_master(kinds)) as group:
        group.start_master()
        pair = Pair(group)
        pair.load.fill(group, FILE_SIZE + FILE_SIZE // 3)
        pair.with_slave()
        for _ in range(5):
            place = pair.load.send(group, wait=True)
            assert group.slave.talk.log_end() > place
        end = group.wait_caught_up()
        store_files.assert_same_bytes(group.master.store, group.slave.store, 0, end, file_size=FILE_SIZE)
        assert (group.slave.store / "commitlog" / f"{0:020d}").exists(), "an empty slave gets the whole log from ours"
