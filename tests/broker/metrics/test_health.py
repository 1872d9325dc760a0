"""/healthz and /readyz tell the truth, state by state."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.errors import StoreIOError, UnavailableError
from flaremq.storage.runtime.health import RunningFlag
from tests.support.broker_lab import BrokerLab, run, until
from tests.support.ports import free_ports

_ON: dict[str, Any] = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}


def _ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def ask(broker: BrokerService, path: str = "/readyz") -> tuple[int, str]:
    assert broker.monitor is not None
    return await asyncio.to_thread(_ask, broker.monitor.port, path)


async def told(broker: BrokerService, name: str) -> float:
    status, page = await ask(broker, f"/metrics?name[]={name}")
    assert status == 200
    return float(page.splitlines()[-1].rpartition(" ")[2])


def test_a_broker_that_serves_is_ready_and_says_so() -> None:
    async def scenario(lab: BrokerLab) -> None:
        assert await ask(lab.broker) == (200, "ready\n")
        assert await ask(lab.broker, "/healthz") == (200, "ok\n")
        assert (await told(lab.broker, "flaremq_broker_ready"), await told(lab.broker, "flaremq_broker_writable")) == (
            1,
            1,
        )
        assert await told(lab.broker, "flaremq_name_servers_connected") == 1

    run(scenario, **_ON)


def test_a_full_disk_keeps_a_broker_from_being_ready_but_not_from_being_alive() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.store.health_state.set(RunningFlag.DISK_FULL, "the disk of the commit log is 97% full")
        assert await ask(lab.broker) == (503, "the disk of the commit log is 97% full\n")
        assert await ask(lab.broker, "/healthz") == (200, "ok\n")
        assert await told(lab.broker, "flaremq_broker_writable") == 0
        lab.broker.store.health_state.clear(RunningFlag.DISK_FULL)
        assert (await ask(lab.broker))[0] == 200

    run(scenario, **_ON, diskMaxUsedSpaceRatio=95)


def test_a_failed_sync_is_said() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.store.health_state.fail_stop(StoreIOError("sync", "log", OSError("gone")))
        status, page = await ask(lab.broker)
        assert (status, "writing stopped after a failed sync" in page) == (503, True)

    run(scenario, **_ON)


def test_damage_that_was_stepped_over_is_no_reason() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.store.health_state.set(RunningFlag.LOG_DAMAGED, "one range of the log")
        assert (await ask(lab.broker))[0] == 200

    run(scenario, **_ON)


@pytest.mark.parametrize(("permission", "word"), [(4, "read-only"), (2, "reading is not permitted")])
def test_permissions_that_are_missing_are_said(permission: int, word: str) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.options.change({"brokerPermission": str(permission)})
        status, page = await ask(lab.broker)
        assert (status, word in page) == (503, True)
        assert await told(lab.broker, "rocketmq_broker_permission") == permission

    run(scenario, **_ON)


def test_a_master_that_holds_its_writes_says_why() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.role.hold_writes("no controller is heard")
        assert await ask(lab.broker) == (503, "no controller is heard\n")
        lab.broker.role.resume_writes()
        assert (await ask(lab.broker))[0] == 200

    run(scenario, **_ON)


def _options(path: Path, **more: Any) -> Any:
    settings = {
        "listenPort": "0",
        "storePathRootDir": str(path),
        "mappedFileSizeCommitLog": "1048576",
        "diskMaxUsedSpaceRatio": "95",
        **{name: str(value) for name, value in {**_ON, **more}.items()},
    }
    return load_options(None, settings)


def test_a_broker_that_no_name_server_knows_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        broker = BrokerService(tmp_path, *_options(tmp_path, namesrvAddr=f"127.0.0.1:{free_ports()}"))
        await broker.start()
        try:
            status, page = await ask(broker)
            assert (status, "no name server knows this broker" in page) == (503, True)
        finally:
            await broker.stop()

    asyncio.run(main())


def test_a_broker_without_name_servers_to_register_at_does_not_miss_them(tmp_path: Path) -> None:
    async def main() -> None:
        broker = BrokerService(tmp_path, *_options(tmp_path))
        await broker.start()
        assert (await ask(broker))[0] == 200
        await broker.stop()

    asyncio.run(main())


def test_a_slave_without_its_master_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        master = f"127.0.0.1:{free_ports()}"
        broker = BrokerService(tmp_path, *_options(tmp_path, brokerRole="SLAVE", brokerId=1, haMasterAddress=master))
        await broker.start()
        try:
            status, page = await ask(broker)
            assert (status, "slave without a master" in page) == (503, True)
            assert await told(broker, "flaremq_broker_writable") == 0
        finally:
            await broker.stop()

    asyncio.run(main())


def test_while_the_store_is_opened_the_port_answers_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        broker = BrokerService(tmp_path, *_options(tmp_path))
        usual, go_on = broker._open_store, asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(cut_at: int | None) -> Any:
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
            return usual(cut_at)

        broker._open_store = slow  # type: ignore[method-assign]
        starting = asyncio.create_task(broker.start())
        await until(lambda: broker.monitor is not None and broker.monitor.port > 0)
        assert await ask(broker) == (503, "the store is being opened\n")
        assert await ask(broker, "/healthz") == (200, "ok\n")
        assert await told(broker, "flaremq_broker_ready") == 0
        go_on.set()
        await starting
        assert (await ask(broker))[0] == 200
        await broker.stop()

    asyncio.run(main())


def test_a_broker_that_closes_its_parts_is_not_ready_and_answers_still(tmp_path: Path) -> None:
    async def main() -> None:
        broker = BrokerService(tmp_path, *_options(tmp_path))
        await broker.start()
        await broker._exit.aclose()
        assert await ask(broker) == (503, "it is stopping\n")
        await broker.reopen()
        assert (await ask(broker))[0] == 200
        await broker.stop()

    asyncio.run(main())


def test_a_port_that_is_taken_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerLab(**_ON) as lab:
            assert lab.broker.monitor is not None
            port = lab.broker.monitor.port
            other = BrokerService(tmp_path, *_options(tmp_path, metricsPromExporterPort=port))
            with pytest.raises(UnavailableError, match="cannot listen for metrics"):
                await other.start()

    asyncio.run(main())
