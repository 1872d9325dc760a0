"""Transactions over restarts and crashes: each commit exactly once, no rolled-back message ever, checks go on."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from flaremq.broker.catalog.groups import TRANSACTION_GROUP
from flaremq.clock import ManualClock
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.put.put_result import PutResult
from tests.broker.bank_lab import Bank
from tests.broker.waiting_lab import OPTIONS, WaitingLab, run
from tests.support.crash_fs import CrashFS


def test_open_transactions_are_open_after_a_restart_and_ended_ones_are_not() -> None:
    bank = Bank()
    committed, rolled_back, open_ = bank.half(b"committed"), bank.half(b"rolled back"), bank.half(b"open")
    bank.end(committed, commit=True)
    bank.end(rolled_back, commit=False)
    bank = bank.restart()
    for ended in (committed, rolled_back):
        with pytest.raises(RequestError):
            bank.end(ended, commit=True)
    bank.lab.clock.advance(10_000)
    (question,) = bank.check()
    assert question.field("msgId") == "open"
    bank = bank.restart()
    bank.end(open_, commit=True)  # the first record's place: the copy is found by its key
    assert bank.committed() == [b"committed", b"open"]
    bank.lab.clock.advance(60_000)
    assert bank.check() == []


def test_progress_is_rocketmqs_offset_of_its_own_group() -> None:
    bank = Bank()
    for number in range(3):
        bank.end(bank.half(b"%d" % number), commit=True)
    bank.half(b"open")
    bank.end(bank.half(b"last"), commit=True)
    bank.check()
    assert bank.offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == 3
    assert bank.offsets.find(TRANSACTION_GROUP, OP_HALF_TOPIC, 0) == 3


def test_progress_is_not_given_out_before_it_is_durable() -> None:
    lab = WaitingLab(replace(OPTIONS, flush_disk_type="ASYNC_FLUSH"))
    bank = Bank(lab)
    half = bank.half(b"a")
    lab.store.flush()
    bank.end(half, commit=True)
    assert lab.store.flushed_offset < lab.store.max_physical_offset
    run(bank.service.persist())
    assert lab.store.flushed_offset == lab.store.max_physical_offset


def test_lost_progress_costs_nothing_since_the_topics_tell_all() -> None:
    bank = Bank()
    bank.end(bank.half(b"committed"), commit=True)
    bank.half(b"open")
    for _ in range(3):
        bank.lab.clock.advance(30_000)
        bank.check()
    lab = bank.lab.restart()  # the offsets were never saved
    bank = Bank(lab)
    assert bank.offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == -1
    bank.lab.clock.advance(30_000)
    (question,) = bank.check()  # one question about one transaction, not one for each copy
    assert MessageExt(question.body_bytes).properties["TRANSACTION_CHECK_TIMES"] == "4"
    bank.answer(question, commit=True)
    bank.lab.clock.advance(30_000)
    assert bank.check() == []
    assert bank.committed() == [b"committed", b"open"]


@pytest.mark.parametrize("by", ["check", "commit", "rollback"])
def test_commit_whose_note_was_lost_is_not_repeated(by: str) -> None:
    bank = Bank()
    half = bank.half(b"a")
    with bank.lab.refusing(OP_HALF_TOPIC):
        bank.end(half, commit=True)
    bank = bank.crash(0)
    assert bank.committed() == [b"a"]
    bank.lab.clock.advance(30_000)
    if by == "check":
        assert bank.check() == []
    elif by == "commit":
        bank.end(half, commit=True)
    else:
        with pytest.raises(RequestError):
            bank.end(half, commit=False)
    assert bank.committed() == [b"a"]
    assert bank.noted() == [0]
    bank.lab.clock.advance(30_000)
    assert bank.check() == []


def test_op_records_of_either_version_and_damaged_ones_are_read() -> None:
    bank = Bank()
    for number in range(4):
        bank.half(b"%d" % number)
    for body in (b"0", b"1,3,", b"nonsense", b""):
        bank.lab.store.put_form(replace(bank.lab.form(b"op", OP_HALF_TOPIC), body=body))
    bank = Bank(bank.lab.restart())
    bank.lab.clock.advance(10_000)
    assert [question.field("msgId") for question in bank.check()] == ["2"]


# Crashes


class Ledger:
    """What the producer was told, over all lives: each outcome exactly once, no rolled-back message ever."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, PutResult] = {}
        self.committed: set[bytes] = set()  # end of transaction acknowledged
        self.rolled_back: set[bytes] = set()

    def verify(self, bank: Bank) -> None:
        bodies = bank.committed()
        assert len(bodies) == len(set(bodies)), "a transaction was committed twice"
        assert self.committed <= set(bodies), "a commit was lost"
        assert not self.rolled_back & set(bodies), "a rolled-back message appeared"
        assert not self.rolled_back & set(bank.lab.bodies(CHECK_MAX_TIME_TOPIC))


@pytest.mark.parametrize("seed", range(16))
def test_over_crashes_commits_are_exact_and_rollbacks_final(seed: int) -> None:
    chance = random.Random(f"transactions {seed}")
    bank, ledger = Bank(), Ledger()
    questions: list[RemotingCommand] = []
    outcome: dict[bytes, bool] = {}

    def finish(body: bytes, ending: Awaitable[None]) -> None:
        try:
            run(ending)
        except RequestError:
            return  # it has ended already: what it ended with is in the ledger
        (ledger.committed if outcome[body] else ledger.rolled_back).add(body)

    def by_itself(body: bytes) -> Awaitable[None]:
        half = ledger.acknowledged[body]
        return bank.ending(half.queue_offset, half.physical_offset, commit=outcome[body])

    for step in range(150):
        chosen = chance.choice(("half", "half", "end", "answer", "pass", "check", "save", "tick", "unnoted", "crash"))
        if chosen == "half":
            body = b"%03d" % step
            outcome[body] = chance.random() < 0.5
            ledger.acknowledged[body] = bank.half(body)
        elif chosen == "end" and ledger.acknowledged:
            body = chance.choice(list(ledger.acknowledged))
            finish(body, by_itself(body))
        elif chosen == "answer" and questions:
            question = questions.pop(chance.randrange(len(questions)))
            body = MessageExt(question.body_bytes).body
            finish(body, bank.answering(question, commit=outcome[body]))
        elif chosen == "unnoted" and ledger.acknowledged:
            body = chance.choice(list(ledger.acknowledged))
            if outcome[body]:
                with bank.lab.refusing(OP_HALF_TOPIC):
                    finish(body, by_itself(body))
        elif chosen == "pass":
            bank.lab.clock.advance(chance.randrange(1, 20_000))
        elif chosen == "check":
            questions += bank.check()
        elif chosen == "save":
            run(bank.save())
        elif chosen == "tick":
            bank.lab.store.tick()
        elif chosen == "crash" and step % 3 == 0:
            bank = bank.crash(f"{seed} {step}")
        ledger.verify(bank)
    bank = bank.crash(f"{seed} end")
    ended = ledger.committed | ledger.rolled_back
    for _ in range(3):  # the producer answers everything it is asked: nothing stays open
        bank.lab.clock.advance(60_000)
        for question in bank.check():
            body = MessageExt(question.body_bytes).body
            assert body not in ended, "an ended transaction is asked about"
            bank.answer(question, commit=outcome[body])
            (ledger.committed if outcome[body] else ledger.rolled_back).add(body)
            ended.add(body)
    ledger.verify(bank)
    assert ended == set(ledger.acknowledged)
    assert set(bank.committed()) == ledger.committed


def test_crash_at_any_call_to_the_disk_while_a_transaction_ends() -> None:
    bank = Bank()
    halves = [bank.half(b"0"), bank.half(b"1")]
    images: list[tuple[CrashFS, set[bytes], set[bytes]]] = []
    committed: set[bytes] = set()
    rolled_back: set[bytes] = set()
    bank.lab.disk.observer = lambda operation, path: images.append(
        (bank.lab.disk.crash(len(images)), set(committed), set(rolled_back))
    )
    bank.end(halves[0], commit=True)
    committed.add(b"0")
    bank.end(halves[1], commit=False)
    rolled_back.add(b"1")
    run(bank.save())
    bank.lab.disk.observer = None
    assert len(images) > 4
    for image, known_committed, known_rolled_back in images:
        after = Bank(WaitingLab(disk=image, clock=ManualClock(bank.lab.clock.now_ms())))
        assert known_committed <= set(after.committed()) <= {b"0"}
        after.lab.clock.advance(10_000)
        for question in after.check():
            body = MessageExt(question.body_bytes).body
            assert body not in known_committed | known_rolled_back
            after.answer(question, commit=body == b"0")
        assert after.committed() == [b"0"]
