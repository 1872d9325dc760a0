"""Renewal at several brokers: what one of them does not answer stays its own, and so many requests at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.calls.renewal import Renewal
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.receipts import NORMAL, Receipt
from flaremq.protocol.command import RemotingCommand

CLIENT = ("", "c1")
AT_ONCE = 256


class Brokers:
    """Brokers that renew what they are asked to, or do not answer, or break."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.answering = asyncio.Event()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.under_way_max = 0
        self.breaks: type[Exception] | None = None

    def now_ms(self) -> int:
        return self.now

    async def ask(self, broker: str, request: RemotingCommand, *, seconds: float) -> RemotingCommand:
        self.asked[broker] += 1
        if self.breaks is not None:
            raise self.breaks("as it happens")
        if broker == "hung":
            self.under_way_max = max(self.under_way_max, self.asked[broker] - self.answered[broker])
            await self.answering.wait()
        self.answered[broker] += 1
        ext = request.ext or {}
        return RemotingCommand.response(
            0, ext={"popTime": str(self.now), "invisibleTime": str(ext["invisibleTime"]), "reviveQid": "0"}
        )


def brokers_test(scenario: Callable[[Brokers, Renewal], Awaitable[None]]) -> Callable[[], None]:
    """Brokers, and the renewal of messages of theirs."""

    def run() -> None:
        async def within() -> None:
            brokers = Brokers()
            renewal = Renewal(cast("Backend", brokers), CallLimits(renew_period_ms=1))
            try:
                async with asyncio.timeout(20):
                    await scenario(brokers, renewal)
            finally:
                await renewal.stop()

        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


def hold(brokers: Brokers, renewal: Renewal, broker: str, count: int) -> None:
    for offset in range(count):
        receipt = Receipt(offset, brokers.now, 60_000, 0, NORMAL, broker, 0, offset, 0)
        renewal.add(CLIENT, "G", "T", f"{broker}-{offset}", receipt, 0)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@brokers_test
async def test_a_broker_that_does_not_answer_holds_up_no_other(brokers: Brokers, renewal: Renewal) -> None:
    hold(brokers, renewal, "hung", 1000)
    hold(brokers, renewal, "fine", 1000)
    renewal.start()
    for looks in (1, 2, 3):
        brokers.now += 300_000  # more than they were put off by
        await until(lambda at_least=1000 * looks: brokers.answered["fine"] >= at_least)
    assert brokers.asked["hung"] == AT_ONCE
    brokers.answering.set()
    await until(lambda: brokers.answered["hung"] >= 1000)
    assert brokers.under_way_max == AT_ONCE
    assert len(renewal) == 2000


@brokers_test
async def test_what_a_client_held_that_is_gone_is_let_go_a_number_at_a_time(brokers: Brokers, renewal: Renewal) -> None:
    hold(brokers, renewal, "hung", 1000)
    hold(brokers, renewal, "fine", 1000)
    renewal.client_gone(CLIENT)
    assert len(renewal) == 0
    await until(lambda: brokers.answered["fine"] == 1000)
    assert brokers.asked["hung"] == AT_ONCE
    brokers.answering.set()
    await until(lambda: brokers.answered["hung"] == 1000)
    assert brokers.under_way_max == AT_ONCE


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
def test_an_error_that_nobody_expects_loses_no_message(error: type[Exception]) -> None:
    @brokers_test
    async def scenario(brokers: Brokers, renewal: Renewal) -> None:
        hold(brokers, renewal, "fine", 300)
        brokers.now += 60_000
        brokers.breaks = error
        await renewal.run_due()
        assert brokers.asked["fine"] == len(renewal) == 300
        brokers.breaks = None
        await renewal.run_due()
        assert brokers.answered["fine"] == len(renewal) == 300

    scenario()
