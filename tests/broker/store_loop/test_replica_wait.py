"""Durability with slaves: an append is acknowledged when disk and slaves have it, whichever comes last."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.broker.store_loop.durability import ALONE_APPENDS
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.storage.status import PutMessageStatus
from tests.broker.store_loop.test_store_loop import TOPIC, form, held_syncs, run
from tests.support.broker_lab import until

OK = PutMessageStatus.PUT_OK


class FakeGroup:
    """Slaves that have what the test says."""

    def __init__(self, acknowledged: int = 0) -> None:
        self.acknowledged = acknowledged
        self.is_away = False
        self.is_too_small = False

    def confirmed(self, own: int) -> int:
        return min(own, self.acknowledged)

    def is_unavailable(self, record_end: int) -> bool:
        return self.is_away and record_end > self.acknowledged

    def refusal(self, own_end: int) -> object | None:
        return "too few" if self.is_too_small else None


def join(store_loop: StoreLoop) -> FakeGroup:
    group = FakeGroup()
    store_loop.durability.slave_timeout_seconds = 60.0
    store_loop.durability.wait_for(group)
    return group


def has_all(store_loop: StoreLoop, group: FakeGroup) -> None:
    group.acknowledged = store_loop.driver.appended
    store_loop.durability.group_changed()


def test_slave_first_then_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        with held_syncs(monkeypatch) as held:
            putting = asyncio.ensure_future(store_loop.put(form()))
            await until(lambda: store_loop.durability.unacknowledged == 1)
            has_all(store_loop, group)
            assert not putting.done() and store_loop.store.max_offset(TOPIC, 0) == 0
            held.permits.release(1000)
            assert (await putting).status is OK

    run(scenario, tmp_path)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_disk_first_then_the_slave(flush: str, tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        putting = [asyncio.ensure_future(store_loop.put(form(b"%d" % number))) for number in range(3)]
        await until(lambda: store_loop.durability.unacknowledged == 3)
        if flush == "SYNC_FLUSH":
            await until(lambda: store_loop.driver.durable == store_loop.driver.appended)
        assert not any(each.done() for each in putting) and store_loop.store.max_offset(TOPIC, 0) == 0
        has_all(store_loop, group)
        assert [(await each).status for each in putting] == [OK, OK, OK]
        await until(lambda: store_loop.store.max_offset(TOPIC, 0) == 3)

    run(scenario, tmp_path, flush_disk_type=flush)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_message_that_waits_for_nobody_is_shown_when_slaves_have_it(flush: str, tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        assert (await store_loop.put(form(wait_store_msg_ok=False))).ok
        store_loop.dispatching.catch_up()
        assert store_loop.store.max_offset(TOPIC, 0) == 0
        await until(lambda: flush == "ASYNC_FLUSH" or store_loop.driver.durable == store_loop.driver.appended)
        has_all(store_loop, group)
        await until(lambda: store_loop.store.max_offset(TOPIC, 0) == 1)

    run(scenario, tmp_path, flush_disk_type=flush)


def test_slaves_that_are_away_are_told_when_the_disk_has_it_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        join(store_loop).is_away = True
        with held_syncs(monkeypatch) as held:
            putting = asyncio.ensure_future(store_loop.put(form()))
            await until(lambda: store_loop.durability.unacknowledged == 1)
            store_loop.durability.group_changed()
            assert not putting.done()
            held.permits.release(1000)
            assert (await putting).status is PutMessageStatus.SLAVE_NOT_AVAILABLE

    run(scenario, tmp_path)


def test_slaves_that_are_late_are_not_waited_for_without_end(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        store_loop.durability.slave_timeout_seconds = 0.0
        assert (await store_loop.put(form())).status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        assert store_loop.durability.unacknowledged == 0
        store_loop.durability.slave_timeout_seconds = 60.0
        has_all(store_loop, group)
        await until(lambda: store_loop.store.max_offset(TOPIC, 0) == 1)

    run(scenario, tmp_path)


def test_nothing_is_stored_while_too_few_slaves_keep_up(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        group.is_too_small = True
        result = await store_loop.put(form())
        assert result.status is PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH and result.physical_offset == -1
        assert store_loop.driver.appended == 0

    run(scenario, tmp_path)


def test_who_waits_is_not_acknowledged_because_slaves_are_waited_for_no_longer(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        join(store_loop)
        putting = asyncio.ensure_future(store_loop.put(form()))
        await until(lambda: store_loop.durability.unacknowledged == 1)
        store_loop.durability.wait_for(None)
        assert (await putting).status is not OK
        assert (await store_loop.put(form())).status is OK

    run(scenario, tmp_path)


def test_growth_is_told_once_a_turn(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        told: list[int] = []
        store_loop.durability.on_progress = lambda: told.append(store_loop.driver.appended)
        for _ in range(5):
            store_loop.driver.append_form(form())
            store_loop.durability.appended()
        assert told == []
        await asyncio.sleep(0)
        assert told == [store_loop.driver.appended]
        store_loop.durability.on_progress = None

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def append(store_loop: StoreLoop, outcomes: list[PutMessageStatus]) -> None:
    """Append one message and wait for it as the short ways of sends do."""
    result = store_loop.driver.append_form(form())
    store_loop.durability.when_durable(result.physical_offset + result.size, outcomes.append)


async def send_alone(store_loop: StoreLoop, group: FakeGroup) -> None:
    """So many messages, one after the other, that the next one is expected to be alone too."""
    for _ in range(ALONE_APPENDS):
        outcomes: list[PutMessageStatus] = []
        append(store_loop, outcomes)
        await asyncio.sleep(0)
        has_all(store_loop, group)
        assert outcomes == [OK]


def test_slaves_get_at_once_what_is_sent_alone_and_others_gathered(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group, told, outcomes = join(store_loop), list[int](), list[PutMessageStatus]()
        await send_alone(store_loop, group)
        store_loop.durability.on_progress = lambda: told.append(store_loop.driver.appended)
        append(store_loop, outcomes)
        assert told == [store_loop.driver.appended] and not outcomes
        append(store_loop, outcomes)
        append(store_loop, outcomes)
        assert len(told) == 1
        await asyncio.sleep(0)
        assert told[1:] == [store_loop.driver.appended] and not outcomes
        has_all(store_loop, group)
        assert outcomes == [OK] * 3
        append(store_loop, outcomes)  # those before it were not alone
        assert len(told) == 2
        has_all(store_loop, group)
        store_loop.durability.on_progress = None

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def test_who_sends_alone_is_answered_when_the_slaves_have_gone(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group, outcomes = join(store_loop), list[PutMessageStatus]()
        await send_alone(store_loop, group)
        group.is_away = True
        append(store_loop, outcomes)
        assert not outcomes
        await asyncio.sleep(0)
        assert outcomes == [PutMessageStatus.SLAVE_NOT_AVAILABLE]

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def test_who_sends_alone_is_answered_when_no_slave_is_needed_any_more(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group, outcomes = join(store_loop), list[PutMessageStatus]()
        await send_alone(store_loop, group)
        group.acknowledged = 1 << 40
        append(store_loop, outcomes)
        await asyncio.sleep(0)
        assert outcomes == [OK]

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def test_message_that_could_not_be_told_to_slaves_still_waits_for_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("while writing to a slave")

    async def scenario(store_loop: StoreLoop) -> None:
        group, outcomes = join(store_loop), list[PutMessageStatus]()
        await send_alone(store_loop, group)
        store_loop.durability.on_progress = fail
        append(store_loop, outcomes)
        store_loop.durability.on_progress = None
        assert not outcomes
        has_all(store_loop, group)
        assert outcomes == [OK]

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")
    assert "while writing to a slave" in caplog.text


def test_callback_that_fails_alone_leaves_the_next_ones_together(tmp_path: Path) -> None:
    def fail(_: PutMessageStatus) -> None:
        raise ZeroDivisionError("while answering")

    async def scenario(store_loop: StoreLoop) -> None:
        group = join(store_loop)
        result = store_loop.driver.append_form(form())
        store_loop.durability.when_durable(result.physical_offset + result.size, fail)
        with pytest.raises(ZeroDivisionError):
            has_all(store_loop, group)
        assert not store_loop.durability.answers_alone

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def test_callback_knows_whether_others_are_let_go_with_it(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        group, alone = join(store_loop), list[bool]()
        durability = store_loop.durability
        for count in (1, 3, 1):
            for _ in range(count):
                end = (result := store_loop.driver.append_form(form())).physical_offset + result.size
                durability.when_durable(end, lambda _: alone.append(durability.answers_alone))
            has_all(store_loop, group)
        assert alone == [True, False, False, False, True] and not durability.answers_alone

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")
