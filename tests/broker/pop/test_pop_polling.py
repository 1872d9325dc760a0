"""Pops and notifications that wait: who is woken by what, and what ends the waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flaremq.broker.pop.answer import PopAnswer, PopAsk
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.broker.pop_lab import GROUP, TOPIC, Client, PopLab, Reply, run


def _notification(lab: PopLab, **changes: Any) -> RemotingCommand:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "pollTime": 10_000, "bornTime": lab.clock.now_ms()}
    return RemotingCommand.request(RequestCode.NOTIFICATION, {k: str(v) for k, v in (ext | changes).items()})


async def _waiting(lab: PopLab, queue_id: int = -1) -> int:
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id)}
    response = await lab.call(RequestCode.POLLING_INFO, ext)
    assert response.ext is not None
    return int(response.ext["pollingNum"])


def test_a_waiting_pop_is_woken_by_a_message_without_any_time_passing(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        request = lab.pop_request(pollTime=15_000)
        assert await lab.begin(request) is None
        assert await _waiting(lab) == 1
        await lab.send("a")
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["a"]
        assert await _waiting(lab) == 0

    run(tmp_path, scenario)


def test_a_waiting_pop_ends_with_polling_timeout_when_its_time_is_over(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        request = lab.pop_request(pollTime=15_000)
        assert await lab.begin(request) is None
        await lab.pass_time(14_999)
        assert await _waiting(lab) == 1
        await lab.pass_time(1)
        assert Reply(await lab.reply_to(request), TOPIC).code == 210
        assert lab.store_loop.dispatching.awaited == {}

    run(tmp_path, scenario)


def test_a_pop_born_earlier_waits_only_for_the_rest_of_its_time(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        request = lab.pop_request(pollTime=15_000, bornTime=lab.clock.now_ms() - 10_000)
        assert await lab.begin(request) is None
        await lab.pass_time(5_000)
        assert Reply(await lab.reply_to(request), TOPIC).code == 210

    run(tmp_path, scenario)


def test_a_client_whose_clock_is_wrong_by_days_or_who_sends_none_waits_all_the_same(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        now = lab.clock.now_ms()
        for born_time in (now - 10**9, now + 10**9, 0):
            request = lab.pop_request(pollTime=15_000, bornTime=born_time)
            assert await lab.begin(request) is None
            await lab.pass_time(14_999)
            assert request.opaque not in lab.client.replies
            await lab.pass_time(1)
            assert Reply(await lab.reply_to(request), TOPIC).code == 210

    run(tmp_path, scenario)


def test_one_message_wakes_one_of_several_waiting_pops_and_more_messages_wake_more(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        requests = [lab.pop_request(pollTime=15_000, maxMsgNums=1) for _ in range(3)]
        for request in requests:
            assert await lab.begin(request) is None
        await lab.send("a")
        assert Reply(await lab.reply_to(requests[0]), TOPIC).bodies == ["a"]
        assert await _waiting(lab) == 2
        await lab.send("b", "c")
        bodies = [Reply(await lab.reply_to(request), TOPIC).bodies for request in requests[1:]]
        assert sorted(bodies) == [["b"], ["c"]]

    run(tmp_path, scenario)


def test_a_message_wakes_who_waits_for_its_queue_not_who_waits_for_another(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        zero, one = (lab.pop_request(pollTime=15_000, queueId=queue_id) for queue_id in (0, 1))
        assert await lab.begin(zero) is None
        assert await lab.begin(one) is None
        await lab.send("for one", queue_id=1)
        assert Reply(await lab.reply_to(one), TOPIC).bodies == ["for one"]
        assert (await _waiting(lab, 0), await _waiting(lab, 1)) == (1, 0)

    run(tmp_path, scenario, queues=2)


def test_a_waiting_pop_is_woken_when_an_unacknowledged_message_comes_back(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=5_000)
        request = lab.pop_request(pollTime=15_000)
        assert await lab.begin(request) is None
        await lab.pass_time(5_000)
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["a"]

    run(tmp_path, scenario)


def test_a_message_the_filter_does_not_want_leaves_the_pop_waiting(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        request = lab.pop_request(pollTime=15_000, exp="red")
        assert await lab.begin(request) is None
        await lab.send("b", TAGS="blue")
        await lab.eventually(lambda: lab.committed() == 1 and len(lab.handler.pops) == 1)
        await lab.send("r", TAGS="red")
        assert Reply(await lab.reply_to(request), TOPIC).bodies == ["r"]

    run(tmp_path, scenario)


def test_too_many_waiting_pops_get_polling_full(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        for _ in range(3):
            assert await lab.begin(lab.pop_request(pollTime=15_000)) is None
        refused = await lab.begin(lab.pop_request(pollTime=15_000))
        assert refused is not None and refused.code == 209
        assert Reply(refused, TOPIC).messages == []
        assert await lab.begin(lab.pop_request(pollTime=15_000, consumerGroup="OTHER")) is None
        refused = await lab.begin(lab.pop_request(pollTime=15_000, consumerGroup="THIRD"))
        assert refused is not None and refused.code == 209

    run(tmp_path, scenario, pop_polling_size=2, max_pop_polling_size=4)


def test_a_message_goes_past_a_waiting_client_that_is_gone(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        gone, alive = Client(), Client()
        first, second = lab.pop_request(pollTime=15_000), lab.pop_request(pollTime=15_000)
        assert await lab.begin(first, gone) is None
        assert await lab.begin(second, alive) is None
        gone.is_open = False
        await lab.send("a")
        assert Reply(await lab.reply_to(second, alive), TOPIC).bodies == ["a"]
        assert gone.replies == {}

    run(tmp_path, scenario)


def test_polls_of_a_client_end_with_its_connection(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        gone = Client()
        await lab.begin(lab.pop_request(pollTime=100_000), gone)
        gone.close()
        assert len(lab.handler.pops) == 0
        assert lab.store_loop.dispatching.awaited == {}

    run(tmp_path, scenario)


def test_stopping_answers_everybody_who_waits(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        pop, notification = lab.pop_request(pollTime=15_000), _notification(lab)
        assert await lab.begin(pop) is None
        assert await lab.begin(notification) is None
        await lab.handler.stop()
        assert lab.client.replies[pop.opaque].code == 210
        assert (lab.client.replies[notification.opaque].ext or {})["hasMsg"] == "false"

    run(tmp_path, scenario)


def test_a_notification_says_at_once_or_later_that_there_are_messages_and_takes_none(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        request = _notification(lab)
        assert await lab.begin(request) is None
        await lab.send("a")
        assert ((await lab.reply_to(request)).ext or {})["hasMsg"] == "true"
        response = await lab.begin(_notification(lab))
        assert response is not None and (response.ext or {})["hasMsg"] == "true"
        assert (await lab.pop()).bodies == ["a"]
        request = _notification(lab)
        assert await lab.begin(request) is None
        await lab.pass_time(10_000)
        reply = await lab.reply_to(request)
        assert reply.code == 0 and (reply.ext or {})["hasMsg"] == "false"

    run(tmp_path, scenario)


def test_too_many_notifications_are_told_so(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        assert await lab.begin(_notification(lab)) is None
        response = await lab.begin(_notification(lab))
        assert response is not None
        assert (response.ext or {})["hasMsg"] == "false"
        assert (response.ext or {})["pollingFull"] == "true"

    run(tmp_path, scenario, max_pop_polling_size=1)


def test_a_pop_does_not_look_on_after_its_deadline_or_for_a_client_that_is_gone(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        taking = lab.service.taking
        looks = 0
        client = Client()

        async def nothing_yet(ask: PopAsk) -> PopAnswer:
            nonlocal looks
            looks += 1
            assert looks < 100, "it looks for ever"
            lab.clock.advance(1_000)
            if looks == 20:
                client.is_open = False
            answer = PopAnswer(lab.clock.now_ms(), ask.invisible_time, 0)
            answer.has_more = True
            return answer

        taking.pop = nothing_yet  # type: ignore[method-assign]
        request = lab.pop_request(pollTime=10_000)
        assert Reply(await lab.begin(request) or await lab.reply_to(request), TOPIC).code == 210
        assert looks == 11, "the last look begins before the deadline"
        assert await lab.begin(lab.pop_request(pollTime=60_000), client) is None
        assert looks == 20 and not client.replies and len(lab.handler.pops) == 0
        assert await lab.begin(lab.pop_request(pollTime=60_000), client) is None
        assert looks == 20, "a client that is gone is given nothing"

    run(tmp_path, scenario)
