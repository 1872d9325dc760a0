"""Transactional sends, seen from the wire."""

from __future__ import annotations

import asyncio

import pytest

from flaremq.client.producer.producer import Producer
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import InvalidArgumentError, TransactionStateError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.client.consumer.test_received import record
from tests.support.fake_cluster import FakeCluster, fake_cluster


class Listener:
    """Answers what the test puts in."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        self.checked: list[bytes] = []

    def execute(self, message: Message, argument: object) -> TransactionState:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome  # type: ignore[return-value]  # wrong on purpose, sometimes

    def check(self, message: MessageExt) -> TransactionState:
        self.checked.append(message.body)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome  # type: ignore[return-value]  # as above


async def transact(cluster: FakeCluster, listener: Listener) -> RemotingCommand:
    """Run one transaction; what the broker was told in the end."""
    async with Producer(cluster.address, group="p", listener=listener) as producer:
        try:
            await producer.transaction(Message("T", b"x"), "argument")
        finally:
            (ended,) = await cluster.broker().until(1, RequestCode.END_TRANSACTION)
    return ended


@pytest.mark.parametrize(
    ("state", "code"), [(TransactionState.COMMIT, 8), (TransactionState.ROLLBACK, 12), (TransactionState.UNKNOWN, 0)]
)
def test_half_is_marked_and_its_end_reported(state: TransactionState, code: int) -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            ended = await transact(cluster, Listener(state))
            (half,) = cluster.broker().sends
            assert cluster.broker().requests[0].code == RequestCode.HEART_BEAT  # or nobody could be asked back
        assert half.field("f") == "4"
        assert "TRAN_MSG\x01true\x02" in half.field("i") and "PGROUP\x01p\x02" in half.field("i")
        assert ended.int_field("commitOrRollback") == code
        assert ended.int_field("commitLogOffset") == ended.int_field("tranStateTableOffset") == 0
        assert ended.is_oneway == (state is TransactionState.UNKNOWN)

    asyncio.run(run())


def test_listener_that_raises_leaves_the_state_unknown() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            with pytest.raises(ZeroDivisionError):
                await transact(cluster, Listener(ZeroDivisionError()))
            (ended,) = cluster.broker().of(RequestCode.END_TRANSACTION)
            assert ended.int_field("commitOrRollback") == 0

    asyncio.run(run())


def test_listener_that_answers_no_state_is_told_so() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            with pytest.raises(TransactionStateError, match="True"):
                await transact(cluster, Listener(True))

    asyncio.run(run())


def test_half_that_is_not_safely_stored_is_rolled_back_without_local_work() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:

            def answer(request: RemotingCommand) -> RemotingCommand:
                reply = cluster.broker().store(request)
                reply.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
                return reply

            cluster.broker().answers[RequestCode.SEND_MESSAGE_V2] = answer
            ended = await transact(cluster, Listener(AssertionError("must not be asked")))
            assert ended.int_field("commitOrRollback") == 12

    asyncio.run(run())


def test_delayed_message_cannot_be_transactional() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster, Producer(cluster.address, listener=Listener(None)) as producer:
            with pytest.raises(InvalidArgumentError, match="cannot be delayed"):
                await producer.transaction(Message("T", b"x", delay_level=1))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("outcome", "code"), [(TransactionState.COMMIT, 8), (TransactionState.ROLLBACK, 12), (ValueError("broken"), 0)]
)
def test_check_back_is_answered_with_what_the_listener_says(
    outcome: object, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            listener = Listener(TransactionState.COMMIT)
            async with Producer(cluster.address, group="p", listener=listener) as producer:
                await producer.transaction(Message("T", b"x"))
                listener.outcome = outcome
                ext = {
                    "tranStateTableOffset": "17",
                    "commitLogOffset": "1234",
                    "msgId": "u-1",
                    "transactionId": "t-1",
                    "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
                    "bname": "broker-a",
                }
                half = record(b"half", UNIQ_KEY="u-1")
                (connection,) = cluster.broker().connections
                connection.notify(RemotingCommand.request(RequestCode.CHECK_TRANSACTION_STATE, ext, half, oneway=True))
                answer = (await cluster.broker().until(2, RequestCode.END_TRANSACTION))[-1]
        assert listener.checked == [b"half"]
        for name in ("tranStateTableOffset", "commitLogOffset", "transactionId", "topic", "bname"):
            assert answer.field(name) == ext[name]
        assert (answer.field("fromTransactionCheck"), answer.int_field("commitOrRollback")) == ("true", code)
        assert answer.is_oneway

    with caplog.at_level("CRITICAL", logger="flaremq.client.producer.transactions"):
        asyncio.run(run())
