"""Who is not let in, and who cannot go on: each is told in the log, nothing is stored or believed, others go on."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.broker.replication import ha_connection, listener
from flaremq.broker.replication.door import LOOPBACK, Door
from flaremq.log_lines import LimitedLog
from flaremq.remoting.options import RemotingOptions
from flaremq.replication.sync_rules import SyncMode, SyncRules
from flaremq.storage.status import PutMessageStatus
from tests.support.broker_lab import until
from tests.support.replication_lab import FILE, GROUP, Node, run, same_stores

TLS = Path(__file__).parents[2] / "remoting"
CERTIFICATE, KEY = str(TLS / "test-server.pem"), str(TLS / "test-server.key")
SECRET = Door(group=GROUP, networks=(), secret=b"correct horse battery")
OTHER_SECRET = replace(SECRET, secret=b"another secret of many bytes")
OPEN = Door(group=GROUP)
NOBODY = Door(group=GROUP, networks=())


@pytest.fixture(autouse=True)
def every_line_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_connection, "_refusals", LimitedLog(ha_connection._log, seconds=0))


async def connect(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", node.server.port)


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other end closes."""
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""


def report(offset: int) -> bytes:
    return struct.pack(">q", offset)


# The door


def test_ends_with_the_same_secret_replicate(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", door=SECRET) as master,
            Node(tmp_path / "b", is_slave=True, door=SECRET) as slave,
        ):
            master.append(300)
            slave.follow(master)
            await same_stores(master, slave)
            assert master.server.slaves[0].broker_id == 1

    run(scenario)


@pytest.mark.parametrize(
    ("of_master", "of_slave", "words"),
    [
        (SECRET, OTHER_SECRET, "does not know the shared secret"),
        (SECRET, OPEN, "does not prove the shared secret"),
        (OPEN, SECRET, "this broker has none"),
        (SECRET, replace(SECRET, group="DefaultCluster/broker-b"), "not of 'DefaultCluster/broker-a'"),
    ],
)
def test_ends_that_do_not_agree_get_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_master: Door, of_slave: Door, words: str
) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", door=of_master) as master,
            Node(tmp_path / "b", is_slave=True, door=of_slave) as slave,
        ):
            master.append(10)
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            assert slave.end == 0 and not master.server.slaves
            assert "before it sent anything" in slave.client.facts.failure

    run(scenario)
    assert words in caplog.text
    assert [record for record in caplog.records if record.levelno == logging.ERROR and "stands still" in record.message]


def test_rocketmq_slave_is_let_in_beside_a_secret_by_its_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", door=replace(SECRET, networks=LOOPBACK)) as master:
            master.append(5)
            await master.has(master.end)
            reader, writer = await connect(master)
            writer.write(report(0))
            assert struct.unpack(">qi", await reader.readexactly(12)) == (0, master.end)
            writer.close()

    run(scenario)


def test_address_that_is_not_listed_is_turned_away_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", door=NOBODY) as master:
            reader, writer = await connect(master)
            assert await closed(reader) == b""
            writer.close()

    run(scenario)
    assert "haPeerAllow has it not" in caplog.text


def test_slave_follows_no_master_at_an_address_that_is_not_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Node(tmp_path / "a", door=OPEN) as master,
            Node(tmp_path / "b", is_slave=True, door=NOBODY) as slave,
        ):
            master.append(10)
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            assert slave.end == 0 and not master.server.slaves
            assert "haPeerAllow" in slave.client.facts.failure

    run(scenario)


def tls_door() -> Door:
    remoting = RemotingOptions(tls_cert_path=CERTIFICATE, tls_key_path=KEY, tls_trust_path=CERTIFICATE)
    return Door.of(BrokerOptions(ha_tls_mode="enforcing"), remoting)


def test_log_is_replicated_over_tls_by_the_loop_and_by_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_connection, "FAR_BYTES", 20 << 10)
    monkeypatch.setattr(ha_connection, "NEAR_BYTES", 4 << 10)

    async def scenario() -> None:
        door = tls_door()
        async with Node(tmp_path / "a", door=door) as master, Node(tmp_path / "b", is_slave=True, door=door) as slave:
            master.append(1500)
            slave.follow(master)
            await same_stores(master, slave)
            for _ in range(5):
                await master.put(b"later")
            await same_stores(master, slave)

    run(scenario)


def test_end_without_tls_gets_nothing_from_one_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", door=tls_door()) as master, Node(tmp_path / "b", is_slave=True) as slave:
            master.append(5)
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: bool(slave.client.facts.failure), "the slave is refused")
            assert slave.end == 0 and not master.server.slaves

    run(scenario)


def test_end_with_tls_gives_the_alarm_at_one_without(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True, door=tls_door()) as slave:
            master.append(5)
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            assert slave.end == 0

    run(scenario)


# Peers that say nothing, or nonsense


def test_half_open_connections_keep_nobody_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            silent = [await connect(master) for _ in range(3 * listener.HALF_OPEN_MAX)]
            master.append(50)
            slave.follow(master)
            await same_stores(master, slave)
            assert len(master.server._listener.connections) <= listener.HALF_OPEN_MAX + 1
            for _, writer in silent:
                writer.close()

    run(scenario)


def test_more_slaves_than_allowed_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", door=replace(OPEN, connections_max=2)) as master:
            writers = []
            for number in range(2):
                _, writer = await connect(master)
                writer.write(report(0))
                writers.append(writer)
                await until(lambda number=number: len(master.server.slaves) == number + 1, "the slave is in")
            reader, writer = await connect(master)
            writer.write(report(0))
            assert await closed(reader) == b""
            for each in [*writers, writer]:
                each.close()

    run(scenario)
    assert "haConnectionsMax" in caplog.text


@pytest.mark.parametrize("first", [-5, -(2**63), 2**62])
def test_report_that_cannot_be_true_closes_the_connection_and_counts_for_nothing(tmp_path: Path, first: int) -> None:
    async def scenario() -> None:
        rules = SyncRules(mode=SyncMode.ANY_SLAVE)
        async with Node(tmp_path / "a", rules=rules) as master:
            reader, writer = await connect(master)
            writer.write(report(first))
            assert await closed(reader) == b""
            writer.close()
            result = await master.put(b"x")
            assert result.status is PutMessageStatus.SLAVE_NOT_AVAILABLE

    run(scenario)


def test_acknowledgement_of_bytes_that_were_not_sent_counts_for_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = SyncRules(mode=SyncMode.ANY_SLAVE)
        async with Node(tmp_path / "a", rules=rules) as master:
            reader, writer = await connect(master)
            writer.write(report(0))
            await until(lambda: bool(master.server.slaves), "the liar is in")
            put = asyncio.ensure_future(master.put(b"x"))
            await reader.readexactly(12)
            writer.write(report(master.end + 1))
            result = await put
            assert result.status is PutMessageStatus.SLAVE_NOT_AVAILABLE
            writer.close()

    run(scenario)


def test_noise_disturbs_nobody_and_takes_no_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        noise = random.Random(7)
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            slave.follow(master)
            for number in range(60):
                _, writer = await connect(master)
                writer.write(noise.randbytes(noise.choice((1, 7, 8, 9, 52, 4096))))
                if number % 3 == 0:
                    writer.write_eof()
                master.append(3)
                writer.transport.abort()
            await same_stores(master, slave)
            await until(lambda: len(master.server._listener.connections) == 1, "only the slave is left")

    run(scenario)


def test_peer_that_never_speaks_is_closed_after_the_housekeeping_interval(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", ha_housekeeping_interval=100) as master:
            reader, writer = await connect(master)
            writer.write(b"abc")
            assert await closed(reader) == b""
            writer.close()

    run(scenario)


def test_slave_that_falls_silent_is_closed_and_counts_no_longer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", ha_housekeeping_interval=100) as master:
            reader, writer = await connect(master)
            writer.write(report(0))
            await until(lambda: len(master.replicas) == 1, "the slave counts")
            await closed(reader)
            await until(lambda: len(master.replicas) == 0, "it counts no longer")
            writer.close()

    run(scenario)


def test_slave_that_reads_nothing_makes_the_master_hold_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a", flush_disk_type="ASYNC_FLUSH", mapped_file_size_commit_log=8 << 20) as master:
            _, writer = await connect(master)
            writer.write(report(0))
            await until(lambda: bool(master.server.slaves), "the slave is in")
            for _ in range(40):
                master.append(100, 8000)
                await asyncio.sleep(0)
            (connection,) = master.server._listener.connections
            transport = connection._transport
            assert transport is not None
            assert transport.get_write_buffer_size() <= ha_connection.WRITE_MAX + master.options.ha_transfer_batch_size
            assert (await master.put(b"and it goes on")).ok
            writer.transport.abort()

    run(scenario)


# Histories that do not fit


async def fake_master(frames: bytes) -> tuple[asyncio.Server, str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(8)
            writer.write(frames)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (struct.pack(">qi", 100, 4) + b"abcd", "no multiple of our file size"),
        (struct.pack(">qi", 0, -600), "announced -600 data bytes"),
        (struct.pack(">qi", 0, 1 << 30), "data bytes"),
        (struct.pack(">qi", 0, 200) + bytes(200), "no record starts here"),
        (random.Random(3).randbytes(500), ""),
    ],
)
def test_master_that_sends_nonsense_is_not_believed(tmp_path: Path, frames: bytes, words: str) -> None:
    async def scenario() -> None:
        server, address = await fake_master(frames)
        async with Node(tmp_path / "b", is_slave=True) as slave:
            slave.client.pause_max = 0.01
            slave.follow(address)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            assert words in slave.client.facts.failure
            assert slave.end == 0
        server.close()

    run(scenario)


def test_slave_that_is_ahead_of_its_master_stands_still_with_a_clear_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "b", is_slave=True) as slave:
            async with Node(tmp_path / "a") as master:
                master.append(50)
                slave.follow(master)
                await slave.has(master.end)
            async with Node(tmp_path / "other") as younger:
                younger.append(5)
                await younger.has(younger.end)
                slave.client.pause_max = 0.01
                before = slave.log_bytes()
                slave.follow(younger)
                await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
                younger.append(100)  # past the end of the slave's log: still nothing is sent
                await younger.has(younger.end)
                assert slave.log_bytes() == before

    run(scenario)
    assert "ahead of its master" in caplog.text


def test_slave_that_is_ahead_by_less_than_is_compared_stands_still_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "b", is_slave=True) as slave:
            async with Node(tmp_path / "a") as master:
                master.append(20, 100)
                slave.follow(master)
                await slave.has(master.end)
            async with Node(tmp_path / "c", is_slave=True) as shorter:
                begun = slave.log_bytes()
                at = 0
                while (size := int.from_bytes(begun[at : at + 4], "big")) + at < len(begun):
                    at += size
                shorter.driver.append_replica(0, begun[:at])  # without the last record
                shorter.driver.sync()
                slave.client.pause_max = 0.01
                slave.follow(shorter)
                await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
                assert "ahead of our master" in slave.client.facts.failure
                assert slave.log_bytes() == begun
                await slave.client.stop()  # no connection may come while the other one stops

    run(scenario)


def test_slave_does_not_append_to_another_past(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "b", is_slave=True) as slave:
            async with Node(tmp_path / "a") as master:
                master.append(20, 100)
                slave.follow(master)
                await slave.has(master.end)
            async with Node(tmp_path / "other") as younger:
                younger.append(60, 150)
                await younger.has(younger.end)
                before = slave.log_bytes()
                slave.client.pause_max = 0.01
                slave.follow(younger)
                await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
                assert "lost the end of its own" in slave.client.facts.failure
                assert slave.log_bytes() == before

    run(scenario)


def test_slave_whose_next_bytes_were_deleted_stands_still_with_a_clear_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            master.append(20)
            slave.follow(master)
            await same_stores(master, slave)
            slave.follow(None)
            await until(lambda: not master.server.slaves, "the slave is away")
            master.append(900)
            await master.has(master.end)
            assert await asyncio.to_thread(master.store.delete_expired, force=True)
            assert master.driver.min_offset >= FILE
            slave.client.pause_max = 0.01
            slave.follow(master)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")

    run(scenario)
    assert "what is between was deleted here" in caplog.text


def test_empty_slave_begins_where_the_masters_log_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master:
            master.append(900)
            await master.has(master.end)
            assert await asyncio.to_thread(master.store.delete_expired, force=True)
            assert master.driver.min_offset >= FILE
            for _ in range(2):  # and goes on when it is opened again
                async with Node(tmp_path / "b", is_slave=True) as slave:
                    slave.follow(master)
                    await slave.has(master.end)
                    assert slave.driver.min_offset == master.driver.min_offset
                    assert slave.log_bytes() == master.log_bytes()
                master.append(50)

    run(scenario)


def test_alarm_goes_away_when_bytes_flow_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path / "a") as master, Node(tmp_path / "b", is_slave=True) as slave:
            server, address = await fake_master(struct.pack(">qi", 0, -1))
            slave.client.pause_max = 0.01
            slave.follow(address)
            await until(lambda: slave.client.facts.is_alarm, "the slave gives the alarm")
            slave.follow(master)
            master.append(5)
            await same_stores(master, slave)
            assert not slave.client.facts.is_alarm and not slave.client.facts.failure
            server.close()

    run(scenario)


def test_older_connection_of_an_address_counts_again_only_by_what_was_sent_on_it_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = SyncRules(mode=SyncMode.COPIES, copies=3)
        async with Node(tmp_path / "a", rules=rules) as master:
            pairs = [await connect(master) for _ in range(2)]
            for _, writer in pairs:
                writer.write(report(0))
            await until(lambda: len(master.server.slaves) == 2, "both are connected")
            put = asyncio.ensure_future(master.put(b"x"))
            for reader, _ in pairs:
                _, size = struct.unpack(">qi", await reader.readexactly(12))
                await reader.readexactly(size)
            newest, older = pairs[1][1], pairs[0][1]
            newest.write(report(master.end))
            await until(lambda: master.replicas.lines(master.end)[1].acknowledged == master.end, "it is acknowledged")
            assert not put.done()
            older.write(report(master.end))
            assert (await put).status is PutMessageStatus.PUT_OK
            for _, writer in pairs:
                writer.transport.abort()

    run(scenario)
