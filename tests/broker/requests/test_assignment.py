"""Rebalance by the broker: who reads which queues, and how."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.cluster_queues import ClusterQueues
from flaremq.broker.requests.assignment import AssignmentHandler
from flaremq.errors import UnavailableError
from flaremq.java_json import parse_java_json
from flaremq.protocol.bodies.client import ConsumerData
from flaremq.protocol.bodies.queue import MessageQueue, QueryAssignmentResponseBody
from flaremq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.fake_connection import FakeConnection
from tests.support.metadata_lab import MetadataLab


class AssignmentLab(MetadataLab):
    """A broker that hands out the queues in ``queues``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.queues: list[MessageQueue] | None = [MessageQueue("T", "broker-a", number) for number in (3, 1, 0, 2)]
        AssignmentHandler(self.options, self.consumers, self.modes, self._find).register(self.table)

    async def _find(self, topic: str) -> list[MessageQueue] | None:
        return self.queues

    def join(self, *client_ids: str) -> None:
        for number, client_id in enumerate(client_ids):
            info = ClientInfo(FakeConnection(f"127.0.0.1:{number + 1}"), client_id, "JAVA", 407)
            self.consumers.register(info, ConsumerData(group_name="G"))

    def share(self, client_id: str, **more: Any) -> list[tuple[int, str]] | None:
        body = {
            "topic": "T",
            "consumerGroup": "G",
            "clientId": client_id,
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
            **more,
        }
        reply = self.ask(RequestCode.QUERY_ASSIGNMENT, body=json.dumps(body).encode())
        assert reply.code == 0, reply
        assignments = QueryAssignmentResponseBody.from_json(reply.body_bytes).message_queue_assignments
        if assignments is None:
            return None
        return [(assignment.message_queue.queue_id, assignment.mode) for assignment in assignments]

    def set_mode(self, **more: Any) -> int:
        body = {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0, **more}
        return self.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(body).encode()).code


@pytest.fixture
def lab(tmp_path: Path) -> AssignmentLab:
    return AssignmentLab(tmp_path)


def test_queues_are_shared_out_in_neighbouring_runs(lab: AssignmentLab) -> None:
    lab.join("c2", "c1", "c3")
    assert lab.share("c1") == [(0, "PULL"), (1, "PULL")]
    assert lab.share("c2") == [(2, "PULL")]
    assert lab.share("c3") == [(3, "PULL")]


def test_queues_are_dealt_out_by_circle(lab: AssignmentLab) -> None:
    lab.join("c1", "c2")
    assert lab.share("c2", strategyName="AVG_BY_CIRCLE") == [(1, "PULL"), (3, "PULL")]


def test_client_too_many_gets_an_empty_list(lab: AssignmentLab) -> None:
    lab.join("c1", "c2", "c3", "c4", "c5")
    assert lab.share("c5") == []
    assert lab.share("stranger") == []


def test_client_keeps_what_it_has_when_nothing_can_be_said(lab: AssignmentLab) -> None:
    assert lab.share("c1") is None  # nobody is registered
    lab.join("c1")
    assert lab.share("c1", strategyName="NO_SUCH") is None
    assert lab.share("c1", strategyName="CONSISTENT_HASH") is None  # known to clients only
    lab.queues = None
    assert lab.share("c1") is None


def test_broadcasting_and_switched_off_balance_give_everything_to_everybody(lab: AssignmentLab) -> None:
    lab.join("c1", "c2")
    everything = [(3, "PULL"), (1, "PULL"), (0, "PULL"), (2, "PULL")]
    assert lab.share("c1", messageModel="BROADCASTING") == everything
    lab.options.change({"serverLoadBalancerEnable": "false"})
    assert lab.share("c2") == everything


def test_pop_gives_every_client_the_whole_broker(lab: AssignmentLab) -> None:
    lab.join("c1", "c2")
    assert lab.set_mode() == 0
    assert lab.share("c1") == [(-1, "POP")] == lab.share("c2")


def test_pop_can_be_limited_to_neighbours(lab: AssignmentLab) -> None:
    lab.join("c1", "c2", "c3", "c4")
    lab.set_mode(popShareQueueNum=1)
    assert lab.share("c1") == [(0, "POP"), (1, "POP")]
    assert lab.share("c4") == [(3, "POP"), (0, "POP")]
    lab.set_mode(popShareQueueNum=3)  # as many as there are others: no limit
    assert lab.share("c1") == [(-1, "POP")]


def test_limited_pop_leaves_nobody_empty_handed(lab: AssignmentLab) -> None:
    lab.queues = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)]
    lab.join("c1", "c2", "c3", "c4")
    lab.set_mode(popShareQueueNum=1)
    assert [lab.share(f"c{number}") for number in (1, 2, 3, 4)] == [[(0, "POP")]] * 4


def test_mode_survives_a_restart_in_rocketmqs_form(lab: AssignmentLab) -> None:
    lab.set_mode(popShareQueueNum=8)
    assert (lab.folder / "config" / "messageRequestMode.json").read_text() == (
        '{\n\t"messageRequestModeMap":{\n\t\t"T":{\n\t\t\t"G":{\n\t\t\t\t"consumerGroup":"G",\n\t\t\t\t"mode":"POP",\n'
        '\t\t\t\t"popShareQueueNum":8,\n\t\t\t\t"topic":"T"\n\t\t\t}\n\t\t}\n\t}\n}'
    )
    assert lab.reopened().modes.find("T", "G").pop_share_queue_num == 8
    reply = lab.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert parse_java_json(reply.body_bytes) == lab.on_disk("messageRequestMode")
    lab.modes.remove_topic("T")
    lab.modes.save_now()
    assert lab.reopened().modes.find("T", "G").mode == "PULL"


def test_default_mode_holds_for_all_but_retry_topics(lab: AssignmentLab) -> None:
    lab.options.change({"defaultMessageRequestMode": "POP"})
    assert lab.modes.find("T", "G").mode == "POP"
    assert lab.modes.find("T", "G").pop_share_queue_num == -1
    assert lab.modes.find("%RETRY%G", "G").mode == "PULL"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "%RETRY%G"}, ResponseCode.NO_PERMISSION),
        ({"topic": "a b"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": ""}, ResponseCode.INVALID_PARAMETER),
        ({"mode": "PUSH"}, ResponseCode.INVALID_PARAMETER),
        ({"popShareQueueNum": "x"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_bad_mode_is_refused(lab: AssignmentLab, change: dict[str, Any], code: int) -> None:
    assert lab.set_mode(**change) == code
    assert lab.modes.find("T", "G").mode == "PULL"


# Routes


class FakeNameServers(RemotingClient):
    """Answers routes from memory; an address that is not there cannot be reached."""

    def __init__(self, routes: dict[str, Callable[[], Awaitable[RemotingCommand] | RemotingCommand]]) -> None:
        self.routes = routes
        self.asked: list[str] = []

    async def request(self, address: str, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        self.asked.append(address)
        await asyncio.sleep(0)
        if address not in self.routes:
            raise UnavailableError(f"{address} is not reachable")
        reply = self.routes[address]()
        return reply if isinstance(reply, RemotingCommand) else await reply


def route(*rows: tuple[str, int, int]) -> RemotingCommand:
    data = TopicRouteData(
        queue_datas=tuple(
            QueueData(broker_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)
            for name, count, perm in rows
        ),
        broker_datas=tuple(
            BrokerData(broker_name=name, cluster="C", broker_addrs={0: "127.0.0.1:10911"}) for name, _, _ in rows
        ),
    )
    return RemotingCommand.response(body=data.to_json())


def cluster(lab: MetadataLab, client: FakeNameServers, *addresses: str) -> ClusterQueues:
    return ClusterQueues(lab.options, lab.topics, lab.clock, client, addresses)


def test_queues_of_all_brokers_are_found_sorted_and_readable_only(lab: AssignmentLab) -> None:
    client = FakeNameServers({"b:1": lambda: route(("broker-b", 1, 6), ("broker-a", 2, 4), ("broker-c", 3, 2))})
    queues = cluster(lab, client, "down:1", "b:1")
    assert asyncio.run(queues.find("T")) == [
        MessageQueue("T", "broker-a", 0),
        MessageQueue("T", "broker-a", 1),
        MessageQueue("T", "broker-b", 0),
    ]
    assert client.asked == ["down:1", "b:1"]


def test_queues_of_an_absurd_route_are_not_listed(lab: AssignmentLab) -> None:
    brokers = [(f"broker-{number}", 2**31 - 1, 6) for number in range(3)]
    queues = cluster(lab, FakeNameServers({"a:1": lambda: route(*brokers)}), "a:1")
    assert asyncio.run(queues.find("T")) is None


def test_route_is_kept_for_a_moment_and_asked_for_once_by_many(lab: AssignmentLab) -> None:
    client = FakeNameServers({"a:1": lambda: route(("broker-a", 1, 6))})
    queues = cluster(lab, client, "a:1")

    async def many() -> None:
        await asyncio.gather(*(queues.find("T") for _ in range(10)))

    asyncio.run(many())
    assert client.asked == ["a:1"]
    lab.clock.advance(5_000)
    asyncio.run(many())
    assert client.asked == ["a:1", "a:1"]


def test_old_route_is_better_than_none(lab: AssignmentLab) -> None:
    client = FakeNameServers({"a:1": lambda: route(("broker-z", 1, 6))})
    queues = cluster(lab, client, "a:1")
    asyncio.run(queues.find("T"))
    lab.clock.advance(60_000)
    client.routes.clear()
    assert asyncio.run(queues.find("T")) == [MessageQueue("T", "broker-z", 0)]


def test_own_queues_are_all_there_is_without_a_route(lab: AssignmentLab) -> None:
    lab.topics.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=1))
    lab.topics.update(TopicConfig(topic_name="W", perm=2))
    unknown = FakeNameServers({"a:1": lambda: RemotingCommand.response(ResponseCode.TOPIC_NOT_EXIST)})
    for client, addresses in ((unknown, ["a:1"]), (FakeNameServers({}), []), (FakeNameServers({}), ["down:1"])):
        queues = cluster(lab, client, *addresses)
        assert asyncio.run(queues.find("T")) == [MessageQueue("T", "broker-a", number) for number in (0, 1)]
        assert asyncio.run(queues.find("W")) is None
        assert asyncio.run(queues.find("absent")) is None


def test_useless_answers_of_a_name_server_are_passed_over(lab: AssignmentLab) -> None:
    client = FakeNameServers(
        {
            "odd:1": lambda: RemotingCommand.response(body=b"{"),
            "busy:1": lambda: RemotingCommand.response(ResponseCode.SYSTEM_BUSY),
            "huge:1": lambda: route(("broker-a", 2**31 - 1, 6)),
        }
    )
    found = asyncio.run(cluster(lab, client, "odd:1", "busy:1", "huge:1").find("T"))
    assert found is not None and len(found) == 65_536
