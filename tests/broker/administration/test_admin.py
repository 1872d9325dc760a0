"""The broker as a whole: runtime information, configuration, cleaning, what a slave would copy."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.runtime_info import format_bytes, format_runtime
from flaremq.broker.statistics.store_rates import Counters, StoreRates
from flaremq.java_json import parse_java_json
from flaremq.options import parse_properties, rows
from flaremq.protocol.bodies.topic import DataVersion, KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.options import StoreOptions
from tests.support.admin_lab import AdminLab

# What clusterList, clusterList -m and brokerStatus read, RocketMQ 4.9 and 5.
KEYS = """
    putTps getTransferedTps getTransferredTps getFoundTps getMissTps getTotalTps
    sendThreadPoolQueueSize pullThreadPoolQueueSize ackThreadPoolQueueSize queryThreadPoolQueueSize
    sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity ackThreadPoolQueueCapacity queryThreadPoolQueueCapacity
    litePullThreadPoolQueueSize litePullThreadPoolQueueCapacity EndTransactionQueueSize
    EndTransactionThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
    ackThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
    consumeQueueDiskRatio brokerVersionDesc brokerActive timerReadBehind timerOffsetBehind timerCongestNum
    timerEnqueueTps timerDequeueTps msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
    msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow bootTimestamp runtime
    putMessageTimesTotal putMessageSizeTotal putMessageFailedTimes putMessageAverageSize putMessageEntireTimeMax
    getMessageEntireTimeMax putMessageDistributeTime dispatchMaxBuffer putLatency99 putLatency999 commitLogMinOffset
    commitLogMaxOffset dispatchBehindBytes remainTransientStoreBufferNumbs remainHowManyDataToFlush
    commitLogDirCapacity startAcceptSendRequestTimeStamp
""".split()  # noqa: SIM905


async def runtime_info(lab: AdminLab) -> dict[str, str]:
    reply = await lab.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert reply.code == ResponseCode.SUCCESS
    return KVTable.from_json(reply.body_bytes).table


async def config(lab: AdminLab) -> dict[str, str]:
    return parse_properties((await lab.ask(RequestCode.GET_BROKER_CONFIG)).body_bytes.decode())


# Runtime information


def test_runtime_info_has_every_key_the_tools_read(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            assert set(KEYS) <= (await runtime_info(lab)).keys()

    asyncio.run(run())


def test_runtime_info_tells_what_happened(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            booted = lab.clock.now_ms()
            for number in range(10):
                put = await lab.send("T", number % 2)
                lab.statistics.note_put("T", 1, put.size)
                lab.runtime_info.tick(lab.clock.now_ms())
            lab.statistics.note_get("G", "T", 5, 500)
            lab.statistics.note_get("G", "T", 0, 0)
            info = await runtime_info(lab)
            assert info["bootTimestamp"] == str(booted)
            assert info["runtime"] == "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"
            assert info["putMessageTimesTotal"] == info["msgPutTotalTodayNow"] == "10"
            assert info["putMessageSizeTotal"] == info["commitLogMaxOffset"] == str(10 * put.size)
            assert float(info["putMessageAverageSize"]) == put.size
            assert info["msgGetTotalTodayNow"] == "5"
            assert [float(rate) for rate in info["putTps"].split(" ")] == [1.0, 1.0, 1.0]
            assert info["earliestMessageTimeStamp"] == str(booted + 1000)
            assert info["commitLogMinOffset"] == info["dispatchBehindBytes"] == "0"
            assert info["remainHowManyDataToFlush"] == "0 B"
            assert 0 <= float(info["commitLogDiskRatio"]) <= 1
            assert info["brokerVersionDesc"] == "V5_5_0"
            counts = [int(part.rsplit(":", 1)[1]) for part in info["putMessageDistributeTime"].split()]
            assert sum(counts) == 10 and len(counts) == 13

    asyncio.run(run())


def test_runtime_info_tells_what_recovery_did_and_what_it_would_do_now(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for _ in range(10):
                await lab.send("T", 0)
            info = await runtime_info(lab)
            assert (info["lastRecoveryClean"], info["lastRecoveryTruncatedBytes"]) == ("true", "0")
            assert float(info["lastRecoverySeconds"]) >= 0
            assert int(info["recoveryStartOffset"]) == 0 < int(info["commitLogMaxOffset"])
            lab.store.close()  # everything is durable now
        async with AdminLab(tmp_path) as lab:
            again = await runtime_info(lab)
            assert again["recoveryStartOffset"] == again["commitLogMaxOffset"] == info["commitLogMaxOffset"]
            await lab.send("T", 0)
            kept = lab.store.max_physical_offset
            lab.store.abandon()
        async with AdminLab(tmp_path) as lab:
            crashed = await runtime_info(lab)
            assert crashed["lastRecoveryClean"] == "false"
            assert int(crashed["lastRecoveryCheckedBytes"]) == kept - int(info["commitLogMaxOffset"])
            assert crashed["lastRecoveryDamagedRanges"] == crashed["damagedReads"] == crashed["repairedUnits"] == "0"

    asyncio.run(run())


def test_rates_cover_ten_seconds_a_minute_and_ten_minutes() -> None:
    rates = StoreRates(0, Counters(), {"<=0ms": 0})
    put = 0
    for second in range(1, 1001):
        put += 10 if second > 990 else 4 if second > 940 else 1
        rates.tick(second * 1000, Counters(put=put, get_found=second, get_miss=2 * second), {"<=0ms": put})
    ten, minute, ten_minutes = map(float, rates.tps("put").split(" "))
    assert (ten, minute) == (10.0, 5.0)
    assert ten_minutes == pytest.approx((540 + 200 + 100) / 600)
    assert rates.total_get_tps() == "3.0 3.0 3.0"
    rates.tick(0, Counters(put=put), {"<=0ms": put})  # the clock was set back
    assert rates.tps("put") == "0.0 0.0 0.0"


def test_latencies_are_those_of_the_last_full_minute() -> None:
    buckets = {"<=0ms": 0, "0~10ms": 0, "10~50ms": 0}
    rates = StoreRates(0, Counters(), buckets)
    first = {"<=0ms": 90, "0~10ms": 10, "10~50ms": 0}
    assert rates.latencies(first) == first  # no full minute yet: since the start
    rates.tick(60_000, Counters(), first)
    second = {"<=0ms": 100, "0~10ms": 20, "10~50ms": 10}
    assert rates.latencies(second) == first
    rates.tick(120_000, Counters(), second)
    assert rates.latencies(second) == {"<=0ms": 10, "0~10ms": 10, "10~50ms": 10}
    assert rates.latency_ms(0.0, second) == 0.0
    assert rates.latency_ms(0.5, second) == 5.0
    assert rates.latency_ms(0.99, second) == pytest.approx(46.0)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3686, "3.6 KiB"), (252 << 30, "252.0 GiB"), (2**63, "8.0 EiB")],
)
def test_sizes_read_as_rocketmq_prints_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_running_time_reads_as_rocketmq_prints_it() -> None:
    assert format_runtime(((26 * 60 + 3) * 60 + 2) * 1000 + 999) == "[ 1 days, 2 hours, 3 minutes, 2 seconds ]"
    assert format_runtime(-5) == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"


# Configuration


def test_config_shows_every_option_of_every_layer(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.GET_BROKER_CONFIG)
            assert reply.ext is not None
            assert DataVersion.from_value(parse_java_json(str(reply.ext["version"]))).counter == 0
            shown = parse_properties(reply.body_bytes.decode())
            names = {row.key for options in (BrokerOptions, StoreOptions) for row in rows(options)}
            assert names | {"serverChannelMaxIdleTimeSeconds"} <= shown.keys()
            assert shown["brokerName"] == "broker-a" and shown["fileReservedTime"] == "72"
            assert shown["messageDelayLevel"].startswith("1s 5s 10s")

    asyncio.run(run())


def test_allowed_options_change_at_once_and_raise_the_version(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            seen: list[Any] = []
            lab.config.on_change.append(seen.append)
            body = b"fileReservedTime=48\nautoCreateTopicEnable=false\ndeleteWhen=02;03\n"
            reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, body)
            assert reply.code == ResponseCode.SUCCESS
            assert lab.store.options.file_reserved_time == 48
            assert lab.store.options.delete_hours == {2, 3}
            assert not lab.options.auto_create_topic_enable
            assert seen == [{"fileReservedTime": "48", "autoCreateTopicEnable": "false", "deleteWhen": "02;03"}]
            shown = await config(lab)
            assert (shown["fileReservedTime"], shown["autoCreateTopicEnable"]) == ("48", "false")
            assert lab.config.data_version.counter == 1
            await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, body)
            assert lab.config.data_version.counter == 1  # nothing new

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"storePathRootDir=/elsewhere\n", ResponseCode.NO_PERMISSION),
        (b"namesrvAddr=192.0.2.1:9876\n", ResponseCode.NO_PERMISSION),
        (b"brokerName=other\n", ResponseCode.NO_PERMISSION),
        (b"brokerConfigPath=/elsewhere\n", ResponseCode.NO_PERMISSION),
        (b"filterServerNums=1\n", ResponseCode.NO_PERMISSION),
        (b"rocketmqHome=$(touch it)\n", ResponseCode.NO_PERMISSION),
        (b"mappedFileSizeCommitLog=1048576\n", ResponseCode.NO_PERMISSION),
        (b"flushDiskType=ASYNC_FLUSH\n", ResponseCode.NO_PERMISSION),  # nobody said how
        (b"noSuchOption=1\n", ResponseCode.NO_PERMISSION),
        (b"fileReservedTime=soon\n", ResponseCode.SYSTEM_ERROR),
        (b"fileReservedTime=-1\n", ResponseCode.SYSTEM_ERROR),
        (b"diskMaxUsedSpaceRatio=100\n", ResponseCode.SYSTEM_ERROR),
        (b"autoCreateTopicEnable=maybe\n", ResponseCode.SYSTEM_ERROR),
        (b"\xff\xfe=1\n", ResponseCode.SYSTEM_ERROR),
        (b"x=\\u12\n", ResponseCode.SYSTEM_ERROR),
        (b"a=1\n" * 20_000, ResponseCode.SYSTEM_ERROR),
        (b"".join(b"n%d=1\n" % number for number in range(200)), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_one_bad_line_refuses_the_whole_change(tmp_path: Path, body: bytes, code: ResponseCode) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            before = await config(lab)
            good = b"" if len(body) > 1000 else b"autoCreateTopicEnable=false\nfileReservedTime = 1\n"
            reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, good + body)
            assert reply.code == code, reply.remark
            assert "Traceback" not in (reply.remark or "") and len(reply.remark or "") < 1200
            assert await config(lab) == before
            assert lab.config.data_version.counter == 0

    asyncio.run(run())


def test_value_that_stays_as_it_is_is_no_change(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            everything = (await lab.ask(RequestCode.GET_BROKER_CONFIG)).body_bytes.split(b"\n")
            body = b"\n".join(everything[:90])
            assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, body)).code == ResponseCode.SUCCESS
            assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG)).code == ResponseCode.SUCCESS
            assert lab.config.data_version.counter == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("defaultQueryMaxNum", "64"),
        ("syncFlushTimeout", "1234"),
        ("maxMessageSize", "100"),
        ("readUnCommitted", "true"),
        ("maxTransferCountOnMessageInMemory", "7"),
        ("frameSeconds", "20"),
        ("forceRegister", "false"),
    ],
)
def test_option_of_every_layer_changes_while_the_broker_runs(tmp_path: Path, name: str, text: str) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, f"{name}={text}\n".encode())
            assert reply.code == ResponseCode.SUCCESS, reply.remark
            assert (await config(lab))[name] == text

    asyncio.run(run())


def test_option_that_needs_more_than_a_value_is_applied_by_whoever_can(tmp_path: Path) -> None:
    applied: list[str] = []

    async def apply(text: str) -> None:
        applied.append(text)

    async def run() -> None:
        async with AdminLab(tmp_path, appliers={"flushDiskType": apply}) as lab:
            body = b"flushDiskType=ASYNC_FLUSH\n"
            assert (await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, body)).code == ResponseCode.SUCCESS
            assert applied == ["ASYNC_FLUSH"]
            assert (await config(lab))["flushDiskType"] == "ASYNC_FLUSH"
            reply = await lab.ask(RequestCode.UPDATE_BROKER_CONFIG, b"flushDiskType=SOMETIMES\n")
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert applied == ["ASYNC_FLUSH"]

    asyncio.run(run())


def test_nothing_that_may_change_names_a_path_an_address_or_a_command() -> None:
    for row in (*rows(StoreOptions), *rows(BrokerOptions), *rows(RemotingOptions)):
        if not row.live:
            continue
        name = row.key
        free_text = isinstance(row.default, str) and not row.choices and not row.pattern
        assert not free_text, f"{name} takes any text"
        dangerous = ("path", "dir", "addr", "ip1", "ip2", "class", "home")
        assert isinstance(row.default, int) or not any(word in name.lower() for word in dangerous), name


# Cleaning


def test_queues_of_deleted_topics_are_deleted_and_their_numbering_starts_over(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            lab.topic("Kept")
            for topic in ("Kept", "Unused"):
                for queue_id in (0, 1, 1):
                    await lab.send(topic, queue_id)
            assert (await lab.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == ResponseCode.SUCCESS
            assert lab.store.queues() == [("Kept", 0), ("Kept", 1)]
            assert not (tmp_path / "consumequeue" / "Unused" / "0").exists()
            assert (await lab.send("Unused", 1)).queue_offset == 0
            assert lab.store.max_offset("Unused", 1) == 1
            assert lab.store.max_offset("Kept", 1) == 2
        async with AdminLab(tmp_path) as lab:
            assert lab.store.recovery is not None
            assert lab.store.max_offset("Unused", 1) == 1 and lab.store.max_offset("Unused", 0) == 0
            assert (await lab.send("Unused", 1)).queue_offset == 1

    asyncio.run(run())


def test_system_topics_are_never_unused(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            await lab.send("rmq_sys_of_some_other_version")
            await lab.ask(RequestCode.CLEAN_UNUSED_TOPIC)
            assert lab.store.queues() == [("rmq_sys_of_some_other_version", 0)]

    asyncio.run(run())


def test_expired_logs_are_deleted_on_demand_and_queues_follow(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            for _ in range(40):
                await lab.send("T", body=bytes(1000))
            assert lab.store.max_physical_offset > 2 * lab.store.options.mapped_file_size_commit_log
            await lab.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
            assert lab.store.min_physical_offset == 0  # nothing is old enough
            lab.clock.advance(73 * 3_600_000)
            assert (await lab.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS
            assert lab.store.min_physical_offset > 0
            assert (await lab.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == ResponseCode.SUCCESS
            assert lab.store.min_offset("T", 0) > 0
            assert lab.store.max_offset("T", 0) == 40

    asyncio.run(run())


def test_only_one_cleaning_runs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path) as lab:
            may_end = threading.Event()
            monkeypatch.setattr(lab.store._engine.retention, "follow_log", lambda: may_end.wait(10))
            first = asyncio.ensure_future(lab.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE))
            await asyncio.sleep(0)  # lets it begin
            try:
                reply = await lab.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
                assert reply.code == ResponseCode.SYSTEM_BUSY
            finally:
                may_end.set()
            assert (await first).code == ResponseCode.SUCCESS
            assert (await lab.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == ResponseCode.SUCCESS

    asyncio.run(run())


# What slaves copy


class Progress:
    def document(self) -> dict[str, Any]:
        return {"dataVersion": {"counter": 1}, "offsetTable": {3: 5, 4: 7}}


def test_delay_progress_is_told_as_rocketmq_tells_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with AdminLab(tmp_path, delay=Progress()) as lab:
            reply = await lab.ask(RequestCode.GET_ALL_DELAY_OFFSET)
            assert reply.body_bytes == b'{"dataVersion":{"counter":1},"offsetTable":{3:5,4:7}}'
        async with AdminLab(tmp_path) as lab:
            assert (await lab.ask(RequestCode.GET_ALL_DELAY_OFFSET)).body_bytes == b'{"offsetTable":{}}'

    asyncio.run(run())
