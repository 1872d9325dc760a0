"""POP over stops and crashes: nothing is lost, and what is settled on the log stays settled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flaremq.broker.pop.check_point import PopCheckPoint, read_revive_record
from flaremq.java_json import parse_java_json
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.codes import ResponseCode
from flaremq.storage.message_store import MessageStore
from tests.broker.pop_lab import GROUP, HOST, RETRY_TOPIC, REVIVE_GROUP, REVIVE_TOPIC, TOPIC, PopLab, run


def test_unacknowledged_messages_in_memory_come_back_after_a_crash(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop()
        await lab.ack(reply.messages[0])
        await lab.crash(saved_offsets=True)
        assert {"b", "c"} <= set((await lab.pop()).bodies)

    run(tmp_path, scenario)


def test_a_check_point_goes_to_the_log_when_it_is_not_acknowledged_soon_and_lets_the_offset_move(
    tmp_path: Path,
) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop()
        await lab.ack(reply.messages[1])
        assert lab.committed() == 0
        await lab.pass_time(10_000)
        assert lab.committed() == 3
        (record,) = lab.revive_records()
        assert record.tags == "ck"
        popped = reply.messages[0].receipt.pop_time
        assert parse_java_json(record.body) == {
            "bm": 2,
            "bn": "broker-a",
            "c": GROUP,
            "d": [0, 1, 2],
            "it": 60_000,
            "n": 3,
            "pt": popped,
            "q": 0,
            "ro": 0,
            "so": 0,
            "t": TOPIC,
        }
        assert record.properties["TIMER_DELIVER_MS"] == str(popped + 59_000)

    run(tmp_path, scenario)


def test_a_stored_check_point_is_honoured_after_a_crash(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop(invisibleTime=30_000)
        await lab.ack(reply.messages[0])
        await lab.pass_time(10_000)
        assert await lab.ack(reply.messages[1]) == [0]
        await lab.crash(saved_offsets=True)
        assert (await lab.pop()).code == 210
        await lab.pass_time(20_000)
        (message,) = (await lab.pop()).messages
        assert (message.body, message.reconsume_times) == ("c", 1)

    run(tmp_path, scenario)


def test_a_receipt_from_before_a_crash_is_good_if_its_check_point_was_stored(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        reply = await lab.pop(invisibleTime=30_000)
        await lab.pass_time(10_000)
        await lab.crash(saved_offsets=True)
        assert await lab.ack(reply.messages[0]) == [0]
        assert (await lab.change(reply.messages[1].receipt, 40_000)).code == 0
        await lab.pass_time(39_000)
        assert (await lab.pop()).code == 210
        await lab.pass_time(1_001)
        assert (await lab.pop()).bodies == ["b"]

    run(tmp_path, scenario)


def test_what_the_log_covers_is_not_popped_again_although_the_offsets_were_not_saved(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c", "d")
        reply = await lab.pop(maxMsgNums=3, invisibleTime=30_000)
        await lab.ack(reply.messages[1])
        await lab.pass_time(10_000)
        await lab.ack(reply.messages[2])
        await lab.crash()
        assert lab.committed() == -1
        assert (await lab.pop()).bodies == ["d"]
        await lab.pass_time(20_000)
        assert (await lab.pop()).bodies == ["a"]
        await lab.pass_time(120_000)
        assert "b" not in (await lab.pop()).bodies

    run(tmp_path, scenario)


def test_an_ack_is_durable_before_it_is_answered_if_nothing_is_kept_in_memory(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop(invisibleTime=30_000)
        assert await lab.ack(*reply.messages[:2]) == [0, 0]
        records = lab.revive_records()
        assert sorted(record.tags or "" for record in records) == ["bAck", "ck"]
        await lab.crash()
        assert (await lab.pop()).code == 210
        await lab.pass_time(30_000)
        assert (await lab.pop()).bodies == ["c"]

    run(tmp_path, scenario, enable_pop_buffer_merge=False)


def test_single_and_batched_acks_have_the_originals_form_on_the_log(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop()
        popped = reply.messages[0].receipt.pop_time
        await lab.ack(reply.messages[0])
        await lab.batch_ack(*reply.messages[1:])
        _, single, batch = lab.revive_records()
        common = {"bn": "broker-a", "c": GROUP, "pt": popped, "q": 0, "so": 0, "t": TOPIC}
        assert (single.tags, parse_java_json(single.body)) == ("ack", {"ao": 0} | common)
        assert (batch.tags, parse_java_json(batch.body)) == ("bAck", {"ao": -1, "aol": [1, 2]} | common)

    run(tmp_path, scenario, enable_pop_buffer_merge=False)


def test_a_crash_between_giving_again_and_the_next_save_costs_no_further_delivery(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        await lab.pop(maxMsgNums=1, invisibleTime=3_600_000)
        await lab.pop(maxMsgNums=1, invisibleTime=15_000)
        await lab.pass_time(10_000)
        await lab.pass_time(5_000)
        assert [message.body for message in lab.messages_of(RETRY_TOPIC)] == [b"b"]
        await lab.crash()
        await lab.pass_time(60_000)
        assert [message.body for message in lab.messages_of(RETRY_TOPIC)] == [b"b"]
        await lab.pass_time(3_600_000)
        assert [message.body for message in lab.messages_of(RETRY_TOPIC)] == [b"b", b"a"]

    run(tmp_path, scenario)


def test_the_log_is_read_from_the_first_open_check_point_on(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send(*(f"m{number}" for number in range(24)))
        popped = [(await lab.pop(maxMsgNums=1)).messages[0] for _ in range(24)]
        for message in popped:
            if message.receipt.queue_offset != 9:  # the second check point of revive queue 1
                await lab.ack(message)
        await lab.pass_time(0)
        committed = [lab.committed(REVIVE_TOPIC, queue_id, REVIVE_GROUP) for queue_id in range(8)]
        assert committed == [5, 0, 5, 5, 5, 5, 5, 5]
        await lab.ack(popped[9])
        await lab.pass_time(0)
        assert lab.committed(REVIVE_TOPIC, 1, REVIVE_GROUP) == 5

    run(tmp_path, scenario, enable_pop_buffer_merge=False)


def test_an_orderly_stop_stores_what_is_handed_out(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        reply = await lab.pop(maxMsgNums=2, invisibleTime=30_000)
        await lab.ack(reply.messages[0])
        await lab.restart()
        assert lab.committed() == 2
        assert (await lab.pop()).bodies == ["c"]
        await lab.pass_time(30_000)
        assert (await lab.pop()).bodies == ["b"]

    run(tmp_path, scenario)


def test_a_message_that_was_put_off_comes_back_after_a_crash_at_its_new_time(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        (message,) = (await lab.pop(invisibleTime=5_000)).messages
        assert (await lab.change(message.receipt, 30_000)).code == 0
        assert lab.committed() == 1
        await lab.crash(saved_offsets=True)
        await lab.pass_time(29_000)
        assert (await lab.pop()).code == 210
        await lab.pass_time(1_001)
        assert (await lab.pop()).bodies == ["a"]

    run(tmp_path, scenario)


def test_a_reset_before_a_crash_is_not_undone_by_what_the_log_covers(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        stored = await lab.pop(maxMsgNums=1, invisibleTime=30_000)
        await lab.pass_time(10_000)
        fresh = await lab.pop(maxMsgNums=1, invisibleTime=30_000)
        await lab.ack(*stored.messages)
        lab.offsets.reset(GROUP, TOPIC, 0, 0)
        assert (await lab.pop(maxMsgNums=1)).bodies == ["a"]
        await lab.ack(*fresh.messages)
        await lab.pass_time(5_000)
        await lab.crash(saved_offsets=True)
        assert (await lab.pop()).bodies == ["a", "b"]

    run(tmp_path, scenario)


def test_an_ack_for_a_check_point_lost_in_a_crash_proves_nothing_and_the_message_is_given_again(
    tmp_path: Path,
) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        reply = await lab.pop()
        await lab.crash(saved_offsets=True)
        lab.clock.advance(1)
        assert await lab.ack(reply.messages[0]) == [ResponseCode.NO_MESSAGE]
        assert (await lab.pop()).bodies == ["a", "b"]
        assert await lab.ack(reply.messages[0]) == [0]  # of an earlier pop: there is nothing to do
        await lab.pass_time(60_000)
        assert (await lab.pop()).bodies == ["a", "b"]

    run(tmp_path, scenario)


def test_records_that_others_put_into_the_log_are_followed(tmp_path: Path) -> None:
    """A Java broker leaves check points and acknowledgements in its timer; they arrive when they are due."""

    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        lab.offsets.commit(GROUP, TOPIC, 0, 2)
        lab.groups.find(GROUP)
        popped = lab.clock.now_ms() - 60_000

        async def put(tag: str, body: str) -> None:
            form = StoredForm(
                topic=REVIVE_TOPIC,
                queue_id=3,
                body=body.encode(),
                properties=encode_properties({"TAGS": tag, "TIMER_DELIVER_MS": str(popped + 60_000)}),
                born_host=HOST,
            )
            assert (await lab.store_loop.put(form)).ok
            lab.store_loop.dispatching.catch_up()

        await put("nonsense", "{")
        await put(
            "ack",
            f'{{"ackOffset":0,"consumerGroup":"G","popTime":{popped},"queueId":0,"startOffset":0,"topic":"orders"}}',
        )
        await put(
            "ck",
            f'{{"bm":0,"bn":"broker-a","c":"G","d":[0,1],"it":60000,"n":2,"pt":{popped},"q":0,"so":0,"t":"orders"}}',
        )
        await lab.pass_time(0)
        await lab.pass_time(0)
        assert (await lab.pop()).bodies == ["b"]
        assert lab.committed(REVIVE_TOPIC, 3, REVIVE_GROUP) >= 2

    run(tmp_path, scenario)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"t":"x"}', b'{"t":"x","c":"g","n":99,"so":0,"q":0,"pt":1,"it":1}'])
def test_a_record_that_is_not_understood_is_passed_over(tmp_path: Path, body: bytes) -> None:
    async def scenario(lab: PopLab) -> None:
        for tag in ("ck", "ack", "bAck", "reset", "other"):
            form = StoredForm(
                topic=REVIVE_TOPIC,
                queue_id=0,
                body=body or b"\xff",
                properties=encode_properties({"TAGS": tag}),
                born_host=HOST,
            )
            assert (await lab.store_loop.put(form)).ok
        lab.store_loop.dispatching.catch_up()
        await lab.restart()
        await lab.pass_time(0)
        assert lab.committed(REVIVE_TOPIC, 0, REVIVE_GROUP) == 4
        assert len(lab.service.table) == 0

    run(tmp_path, scenario)


def test_a_committed_offset_beyond_the_end_of_the_log_hides_no_check_point(tmp_path: Path) -> None:
    """After a power cut the log may have lost its end; what is written there afterwards must be read."""

    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=30_000)
        await lab.pass_time(10_000)
        for queue_id in range(8):
            lab.offsets.commit(REVIVE_GROUP, REVIVE_TOPIC, queue_id, 7)
        await lab.crash(saved_offsets=True)
        assert len(lab.service.table) == 1
        await lab.send("b")
        for _ in range(8):
            await lab.pop(invisibleTime=30_000, maxMsgNums=1)
        await lab.pass_time(10_000)
        await lab.crash(saved_offsets=True)
        await lab.pass_time(30_000)
        assert set((await lab.pop()).bodies) == {"a", "b"}

    run(tmp_path, scenario)


def test_a_refusing_store_delays_giving_again_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        reply = await lab.pop(invisibleTime=1_000)
        await lab.ack(reply.messages[0])
        refuse = lab.store_loop.put

        async def refused(form: StoredForm) -> object:
            result = await refuse(form)
            result.status = type(result.status).SERVICE_NOT_AVAILABLE
            return result

        lab.store_loop.put = refused  # type: ignore[method-assign, assignment]
        await lab.pass_time(1_000)
        lab.store_loop.put = refuse  # type: ignore[method-assign]
        assert lab.committed() == 0
        await lab.pass_time(10_000)
        assert "b" in (await lab.pop()).bodies
        assert lab.committed() == 2

    run(tmp_path, scenario)


class Disk:
    """A disk that is as far behind the log as a test wants it to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_stuck = False
        self._durable = 0
        real = MessageStore.flushed_offset.fget  # type: ignore[attr-defined]

        def flushed_offset(store: MessageStore) -> int:
            if not self.is_stuck:
                self._durable = real(store)
            return self._durable

        monkeypatch.setattr(MessageStore, "flushed_offset", property(flushed_offset))


def test_an_offset_that_relies_on_a_check_point_is_held_until_the_check_point_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)

    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        await lab.pop()
        lab.store.flush()
        assert lab.store.flushed_offset > 0
        disk.is_stuck = True
        await lab.pass_time(10_000)
        assert [record.tags for record in lab.revive_records()] == ["ck"]
        assert lab.committed() == 0
        assert (await lab.pop()).code == 210  # they stay handed out all the same
        await lab.send("c")
        third = await lab.pop()
        assert third.bodies == ["c"]
        await lab.ack(*third.messages)  # needs no record, but stands behind the others
        await lab.pass_time(1_000)
        assert lab.committed() == 0
        disk.is_stuck = False
        await lab.pass_time(1_000)
        assert lab.committed() == 3

    run(tmp_path, scenario)


def test_an_offset_does_not_pass_a_message_before_the_copy_that_is_given_again_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)

    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=1_000)
        lab.store.flush()
        assert lab.store.flushed_offset > 0
        disk.is_stuck = True
        await lab.pass_time(2_000)
        assert len(lab.messages_of(RETRY_TOPIC)) == 1
        assert lab.committed() == 0
        disk.is_stuck = False
        await lab.pass_time(1)
        assert lab.committed() == 1

    run(tmp_path, scenario)


def test_the_log_is_not_given_up_before_what_closed_its_check_points_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)

    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        reply = await lab.pop()
        await lab.pass_time(10_000)
        queue_id = lab.revive_records()[0].queue_id
        before = lab.committed(REVIVE_TOPIC, queue_id, REVIVE_GROUP)
        disk.is_stuck = lab.store.flushed_offset > 0
        await lab.ack(*reply.messages)
        await lab.pass_time(1_000)
        assert lab.committed(REVIVE_TOPIC, queue_id, REVIVE_GROUP) == before
        disk.is_stuck = False
        await lab.pass_time(1_000)
        assert lab.committed(REVIVE_TOPIC, queue_id, REVIVE_GROUP) > before

    run(tmp_path, scenario)


def test_a_reset_lets_go_of_an_offset_that_was_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b")
        await lab.pop()
        lab.store.flush()
        disk.is_stuck = lab.store.flushed_offset > 0
        await lab.pass_time(10_000)
        lab.offsets.reset(GROUP, TOPIC, 0, 1)
        assert (await lab.pop()).bodies == ["b"]
        disk.is_stuck = False
        await lab.pass_time(1_000)
        assert lab.committed() == 1

    run(tmp_path, scenario)


def test_a_check_point_survives_being_written_and_read_with_all_its_bits() -> None:
    class Stored:
        tags, queue_id, queue_offset = "ck", 5, 77

        def __init__(self, body: bytes) -> None:
            self.body = body

    point = PopCheckPoint(
        topic="t",
        group="g",
        queue_id=3,
        start_offset=1 << 40,
        offsets=[(1 << 40) + 3 * number for number in range(32)],
        pop_time=1_700_000_000_000,
        invisible_time=60_000,
        revive_queue_id=5,
        broker_name="b",
        suspended=True,
    )
    for acked in (0, 1, 1 << 31, (1 << 32) - 1):
        again = read_revive_record(Stored(point.to_json(acked)))  # type: ignore[arg-type]
        assert isinstance(again, PopCheckPoint)
        assert (again.key, again.offsets, again.acked, again.suspended) == (point.key, point.offsets, acked, True)
        assert -(2**31) <= parse_java_json(point.to_json(acked))["bm"] < 2**31
        assert again.revive_offset == 77


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("in_memory", [True, False])
def test_random_histories_with_crashes_deliver_every_message_until_it_is_acknowledged(
    tmp_path: Path, seed: int, in_memory: bool
) -> None:
    chance = random.Random(seed)
    sent: set[str] = set()
    acked: set[str] = set()
    held: list[object] = []

    async def scenario(lab: PopLab) -> None:
        lab.set_group(retry_max_times=10_000)
        for _ in range(120):
            step = chance.random()
            if step < 0.25:
                names = [f"m{len(sent) + number}" for number in range(chance.randint(1, 5))]
                await lab.send(*names, queue_id=chance.randrange(2))
                sent.update(names)
            elif step < 0.55:
                reply = await lab.pop(
                    maxMsgNums=chance.randint(1, 8), invisibleTime=chance.choice([500, 5_000, 20_000])
                )
                held.extend(reply.messages)
            elif step < 0.75 and held:
                message = held.pop(chance.randrange(len(held)))
                if lab.clock.now_ms() < message.receipt.revive_time:  # type: ignore[attr-defined]
                    await lab.ack(message)  # type: ignore[arg-type]
                    acked.add(message.body)  # type: ignore[attr-defined]
            elif step < 0.82 and held:
                message = held.pop(chance.randrange(len(held)))
                await lab.change(message.receipt, chance.choice([100, 8_000]))  # type: ignore[attr-defined]
            elif step < 0.96:
                await lab.pass_time(chance.choice([1, 300, 4_000, 11_000]))
            elif step < 0.98:
                await lab.crash(saved_offsets=chance.random() < 0.5)
            else:
                await lab.restart()
        got: set[str] = set()
        for _ in range(200):
            await lab.pass_time(30_000)
            reply = await lab.pop(invisibleTime=30_000)
            got.update(reply.bodies)
            await lab.ack(*reply.messages)
            if reply.code == 210 and len(lab.service.table) == 0:
                break
        assert sent - acked <= got, f"seed {seed}: lost {sorted(sent - acked - got)}"
        assert len(lab.service.table) == 0
        if not in_memory:
            assert not acked & got, f"seed {seed}: came back {sorted(acked & got)}"

    run(tmp_path, scenario, queues=2, enable_pop_buffer_merge=in_memory)
