"""A broker with transactions on the simulated disk, and a producer that is connected to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.transactions import EndTransactionHandler
from flaremq.broker.transactions.service import TransactionService
from flaremq.message.topics import OP_HALF_TOPIC
from flaremq.message.transaction import parse_operation
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.command import RemotingCommand
from flaremq.storage.put.put_result import PutResult
from tests.broker.waiting_lab import HOST, FakeConnection, WaitingLab, run

GROUP = "GP_TX"
CONFIG = BrokerOptions()


class Bank:
    """A broker with transactions, and a producer that is connected to it."""

    def __init__(self, lab: WaitingLab | None = None, **options: Any) -> None:
        self.lab = lab or WaitingLab()
        self.options = replace(CONFIG, **options)
        self.offsets: ConsumerOffsets = self.lab.offsets(self.options)
        self.producers = ProducerTable(self.options, self.lab.clock)
        self.producer = FakeConnection()
        self.producers.register(
            GROUP, ClientInfo(connection=self.producer.connection, client_id="c", language="JAVA", version=1)
        )
        self.topics = self.lab.topics(self.options)
        self.topics.update(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4))
        self.service = TransactionService(
            self.options, self.lab.clock, self.lab.access, self.topics, self.offsets, self.producers, HOST
        )
        run(self.service.load())
        self.handler = EndTransactionHandler(self.service)

    def half(self, body: bytes, **properties: str) -> PutResult:
        """A transactional message is sent."""
        return self.lab.send(body, "orders", 1, TRAN_MSG="true", PGROUP=GROUP, **properties)

    def end(self, half: PutResult, *, commit: bool, answer: bool = False, group: str = GROUP) -> None:
        run(self.ending(half.queue_offset, half.physical_offset, commit=commit, answer=answer, group=group))

    async def ending(
        self, queue_offset: int, physical_offset: int, *, commit: bool, answer: bool = False, group: str = GROUP
    ) -> None:
        await self.service.end(
            producer_group=group,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            is_commit=commit,
            is_answer=answer,
        )

    def check(self) -> list[RemotingCommand]:
        """A round; the questions the producer got."""
        self.producer.notified.clear()
        run(self.service.check_round())
        return list(self.producer.notified)

    def answer(self, question: RemotingCommand, *, commit: bool) -> None:
        run(self.answering(question, commit=commit))

    async def answering(self, question: RemotingCommand, *, commit: bool) -> None:
        asked = question.int_field("tranStateTableOffset"), question.int_field("commitLogOffset")
        await self.ending(*asked, commit=commit, answer=True)

    def committed(self) -> list[bytes]:
        return self.lab.bodies("orders", 1)

    def noted(self) -> list[int]:
        return [
            offset
            for message in self.lab.messages(OP_HALF_TOPIC)
            for offset in parse_operation(bytes(message.stored_body))
        ]

    async def save(self) -> None:
        await self.service.persist()
        await self.offsets.persist_if_changed()

    def restart(self) -> Bank:
        run(self.save())
        return Bank(self.lab.restart())

    def crash(self, seed: int | str) -> Bank:
        return Bank(self.lab.crash(seed))
