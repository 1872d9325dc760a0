"""Clients that come, change and go; what the others hear of it."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.clock import ManualClock
from flaremq.protocol.bodies.client import (
    ConsumerConnection,
    ConsumerData,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionData,
)
from flaremq.protocol.bodies.group import GetConsumerListByGroupResponseBody, SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer
from tests.support.fake_connection import FakeConnection, ask
from tests.support.metadata_lab import MetadataLab


@pytest.fixture
def lab(tmp_path: Path) -> MetadataLab:
    return MetadataLab(tmp_path)


def subscription(topic: str = "T", expression: str = "*", version: int = 1, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "subString": expression, "subVersion": version, "classFilterMode": False, **more}


def consumer(group: str = "G", *subscriptions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": list(subscriptions or [subscription()]),
        "unitMode": False,
        **more,
    }


class Client:
    """A client with one connection, as a broker sees it."""

    def __init__(self, lab: MetadataLab, name: str, port: int = 40001) -> None:
        self.lab = lab
        self.name = name
        self.connection = FakeConnection(f"127.0.0.1:{port}")

    def heartbeat(self, *consumers: dict[str, Any], producers: tuple[str, ...] = (), **more: Any) -> RemotingCommand:
        body = {
            "clientID": self.name,
            "consumerDataSet": consumers,
            "producerDataSet": [{"groupName": group} for group in producers],
            **more,
        }
        return self.lab.ask(RequestCode.HEART_BEAT, body=json.dumps(body).encode(), connection=self.connection)

    def notified(self) -> list[tuple[int, str]]:
        """Code and group of what the broker sent on its own since the last time."""
        commands = self.connection.take_notified()
        assert all(command.is_oneway for command in commands)
        return [(command.code, command.field("consumerGroup")) for command in commands]


CHANGED = int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)


# Registration


def test_heartbeat_registers_consumer_and_producer(lab: MetadataLab) -> None:
    client = Client(lab, "c1")
    reply = client.heartbeat(
        consumer("G", subscription("T", "TagA"), subscription("%RETRY%G")), producers=("P", "CLIENT_INNER_PRODUCER")
    )
    assert reply.code == 0
    assert reply.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    group = lab.consumers.find_group("G")
    assert group is not None and group.client_ids() == ["c1"] == lab.consumers.client_ids("G")
    assert set(group.subscriptions) == {"T", "%RETRY%G"}
    assert group.message_model == "CLUSTERING" and group.consume_type == "CONSUME_PASSIVELY"
    assert lab.consumers.find_connection("G", "c1") is client.connection
    found = lab.consumers.find_subscription("G", "T")
    assert found is not None and found.code_set == {2598919}
    assert lab.producers.pick("P", "T") is client.connection
    assert lab.producers.find_client("c1") is client.connection
    info = group.connections[client.connection]
    assert (info.language, info.version) == ("JAVA", 407)


def test_heartbeats_of_go_and_ali_ons_are_understood(lab: MetadataLab) -> None:
    go = consumer("GO", subscription("T", "TagA", 1_700_000_000_000_000_000, codeSet=["2598919"], tagsSet=["TagA"]))
    node = consumer("NODE", subscription("T", "TagA", expressionType=None), subscription("U", expressionType=""))
    assert Client(lab, "go").heartbeat(go).code == 0
    assert Client(lab, "node").heartbeat(node).code == 0
    for group in ("GO", "NODE"):
        found = lab.consumers.find_subscription(group, "T")
        assert found is not None and found.is_tag_type and found.code_set == {2598919}


def test_first_heartbeat_creates_group_and_retry_topic(lab: MetadataLab) -> None:
    lab.groups.update(SubscriptionGroupConfig(group_name="G", retry_queue_nums=3))
    Client(lab, "c1").heartbeat(consumer("G"), consumer("H"))
    again = lab.reopened()  # on disk before the reply
    assert again.topics.find("%RETRY%G") == TopicConfig(
        topic_name="%RETRY%G", read_queue_nums=3, write_queue_nums=3, perm=6
    )
    assert again.topics.find("%RETRY%H") is not None
    assert "H" in again.groups


def test_reply_waits_until_the_retry_topic_is_published(lab: MetadataLab) -> None:
    async def scenario() -> None:
        published = asyncio.Event()

        async def publish(_: TopicConfig | None) -> None:
            await published.wait()

        lab.topics.on_change.append(publish)
        body = json.dumps({"clientID": "c", "consumerDataSet": [consumer("G")]}).encode()
        request = RemotingCommand(RequestCode.HEART_BEAT, body=body)
        first = asyncio.ensure_future(ask(lab.table, FakeConnection(), request))
        second = asyncio.ensure_future(ask(lab.table, FakeConnection("127.0.0.1:40002"), request))
        for _ in range(100):
            await asyncio.sleep(0)
        assert lab.consumers.client_ids("G") == ["c"]  # registered already
        assert not first.done() and not second.done()  # also for the one that found the topic there
        published.set()
        assert (await first).code == 0 and (await second).code == 0
        third = lab.table.entries[RequestCode.HEART_BEAT][0](FakeConnection("127.0.0.1:40003"), request)
        assert isinstance(third, RemotingCommand)  # nothing left to wait for

    asyncio.run(scenario())


def test_retry_topic_of_an_ordered_topic_is_ordered(lab: MetadataLab) -> None:
    lab.topics.update(TopicConfig(topic_name="T", order=True))
    Client(lab, "c1").heartbeat(consumer("G"))
    found = lab.topics.find("%RETRY%G")
    assert found is not None and found.order


def test_without_automatic_groups_an_unknown_group_is_left_out(lab: MetadataLab) -> None:
    lab.options.change({"autoCreateSubscriptionGroup": "false"})
    assert Client(lab, "c1").heartbeat(consumer("G"), producers=("P",)).code == 0
    assert lab.consumers.find_group("G") is None
    assert lab.topics.find("%RETRY%G") is None
    assert lab.producers.pick("P", "T") is not None


def test_pull_consumers_can_be_rejected(lab: MetadataLab) -> None:
    lab.options.change({"rejectPullConsumerEnable": "true"})
    Client(lab, "c1").heartbeat(consumer("A", consumeType="CONSUME_ACTIVELY"), consumer("B"))
    assert lab.consumers.groups() == ["B"]


def test_subscriptions_follow_the_newest_version_and_drop_what_is_no_longer_named(lab: MetadataLab) -> None:
    client = Client(lab, "c1")
    client.heartbeat(consumer("G", subscription("T", "A", 5), subscription("U")))
    client.heartbeat(consumer("G", subscription("T", "B", 4), subscription("V")))
    group = lab.consumers.find_group("G")
    assert group is not None
    assert {topic: data.sub_string for topic, data in group.subscriptions.items()} == {"T": "A", "V": "*"}
    client.heartbeat(consumer("G", subscription("T", "B", 6)))
    found = lab.consumers.find_subscription("G", "T")
    assert found is not None and found.sub_string == "B"
    assert lab.consumers.groups_subscribed_to("T") == {"G"} and lab.consumers.groups_subscribed_to("V") == set()


def test_filters_hear_of_subscriptions_and_of_the_end(lab: MetadataLab) -> None:
    heard: list[Any] = []
    lab.consumers.on_subscribed.append(lambda group, data: heard.append((group, sorted(one.topic for one in data))))
    lab.consumers.on_gone.append(heard.append)
    client = Client(lab, "c1")
    client.heartbeat(consumer("G", subscription("T", "a > 1", expressionType="SQL92"), subscription("U")))
    client.connection.close()
    assert heard == [("G", ["T", "U"]), "G"]


# Who hears of it


def test_everybody_in_the_group_hears_of_a_newcomer_who_hears_it_too(lab: MetadataLab) -> None:
    first, second, other = Client(lab, "c1", 1), Client(lab, "c2", 2), Client(lab, "c3", 3)
    first.heartbeat(consumer("G"))
    other.heartbeat(consumer("H"))
    assert first.notified() == [(CHANGED, "G")]
    assert other.notified() == [(CHANGED, "H")]
    second.heartbeat(consumer("G"))
    assert first.notified() == [(CHANGED, "G")] == second.notified()
    assert other.notified() == []


def test_heartbeat_without_news_tells_nobody(lab: MetadataLab) -> None:
    first = Client(lab, "c1")
    first.heartbeat(consumer("G"))
    first.notified()
    first.heartbeat(consumer("G"))
    first.heartbeat(consumer("G", subscription("T", "TagB", 2)))  # another expression moves no queue
    assert first.notified() == []


@pytest.mark.parametrize("topics", [("T", "U"), ("U",), ()])
def test_change_of_topics_is_told(lab: MetadataLab, topics: tuple[str, ...]) -> None:
    first, second = Client(lab, "c1", 1), Client(lab, "c2", 2)
    first.heartbeat(consumer("G"))
    second.heartbeat(consumer("G"))
    first.notified()
    second.notified()
    first.heartbeat({**consumer("G"), "subscriptionDataSet": [subscription(topic) for topic in topics]})
    assert first.notified() == [(CHANGED, "G")] == second.notified()


def test_broadcasting_groups_are_left_in_peace(lab: MetadataLab) -> None:
    first, second = Client(lab, "c1", 1), Client(lab, "c2", 2)
    first.heartbeat(consumer("G", messageModel="BROADCASTING"))
    second.heartbeat(consumer("G", messageModel="BROADCASTING"))
    second.connection.close()
    assert first.notified() == []


@pytest.mark.parametrize("by_group", [True, False])
def test_notification_can_be_switched_off_for_a_group_or_for_all(lab: MetadataLab, by_group: bool) -> None:
    if by_group:
        lab.groups.update(SubscriptionGroupConfig(group_name="G", notify_consumer_ids_changed_enable=False))
    else:
        lab.options.change({"notifyConsumerIdsChangedEnable": "false"})
    client = Client(lab, "c1")
    client.heartbeat(consumer("G"))
    assert client.notified() == []


def test_large_group_is_told_once_of_all_that_came_together(lab: MetadataLab) -> None:
    async def scenario() -> list[FakeConnection]:
        connections = [FakeConnection(f"127.0.0.1:{port}") for port in range(1, 101)]
        for number, connection in enumerate(connections):
            body = json.dumps({"clientID": f"c{number}", "consumerDataSet": [consumer("G")]}).encode()
            await ask(lab.table, connection, RemotingCommand(RequestCode.HEART_BEAT, body=body))
        async with asyncio.timeout(10):
            while not connections[-1].notified:
                await asyncio.sleep(0.01)
        return connections

    connections = asyncio.run(scenario())
    assert len(connections[-1].notified) == 1
    assert sum(len(connection.notified) for connection in connections) < 1000  # of 100 * 100 / 2


# The end


def test_closed_connection_leaves_all_groups_at_once(lab: MetadataLab) -> None:
    first, second = Client(lab, "c1", 1), Client(lab, "c2", 2)
    first.heartbeat(consumer("G"), consumer("H"), producers=("P",))
    second.heartbeat(consumer("G"))
    second.notified()
    first.connection.close()
    assert lab.consumers.client_ids("G") == ["c2"]
    assert lab.consumers.find_group("H") is None
    assert lab.producers.pick("P", "T") is None and lab.producers.find_client("c1") is None
    assert second.notified() == [(CHANGED, "G")]
    assert lab.consumers.registrations == 1 and lab.producers.registrations == 0


def test_unregistered_client_leaves_the_groups_it_names(lab: MetadataLab) -> None:
    first, second = Client(lab, "c1", 1), Client(lab, "c2", 2)
    first.heartbeat(consumer("G"), consumer("H"), producers=("P", "Q"))
    second.heartbeat(consumer("G"))
    second.notified()
    ext = {"clientID": "c1", "producerGroup": "P", "consumerGroup": "G"}
    assert lab.ask(RequestCode.UNREGISTER_CLIENT, ext, connection=first.connection).code == 0
    assert lab.consumers.client_ids("G") == ["c2"] and lab.consumers.client_ids("H") == ["c1"]
    assert lab.producers.groups() == ["Q"] and lab.producers.find_client("c1") is first.connection
    assert second.notified() == [(CHANGED, "G")]


def test_unregistering_what_is_not_there_succeeds(lab: MetadataLab) -> None:
    for ext in ({"clientID": "x"}, {"clientID": "x", "producerGroup": "P", "consumerGroup": "G"}):
        assert lab.ask(RequestCode.UNREGISTER_CLIENT, ext).code == 0
    assert lab.ask(RequestCode.UNREGISTER_CLIENT, {}).code == ResponseCode.SYSTEM_ERROR


def test_silent_client_expires_after_two_minutes_and_the_rest_is_told(lab: MetadataLab) -> None:
    silent, alive = Client(lab, "c1", 1), Client(lab, "c2", 2)
    silent.heartbeat(consumer("G"), producers=("P",))
    alive.heartbeat(consumer("G"), producers=("P",))
    lab.clock.advance(100_000)
    alive.heartbeat(consumer("G"), producers=("P",))
    lab.clock.advance(20_000)
    assert lab.consumers.expire() == 0 == lab.producers.expire()
    lab.clock.advance(1)
    alive.notified()
    assert lab.producers.expire() == 1
    assert not silent.connection.is_open  # so the consumer is gone as well
    assert lab.consumers.expire() == 0
    assert lab.consumers.client_ids("G") == ["c2"]
    assert alive.notified() == [(CHANGED, "G")]
    assert lab.producers.pick("P", "T") is alive.connection


def test_clock_that_is_set_expires_nobody(lab: MetadataLab) -> None:
    Client(lab, "c1").heartbeat(consumer("G"), producers=("P",))
    lab.clock.jump(10_000_000)
    assert lab.consumers.expire() == 0 == lab.producers.expire()


def test_client_that_reconnects_counts_once(lab: MetadataLab) -> None:
    old, new = Client(lab, "c1", 1), Client(lab, "c1", 2)
    old.heartbeat(consumer("G"), producers=("P",))
    new.heartbeat(consumer("G"), producers=("P",))
    assert lab.consumers.client_ids("G") == ["c1"]
    assert lab.consumers.find_connection("G", "c1") is new.connection
    old.connection.close()
    assert lab.consumers.client_ids("G") == ["c1"]
    assert lab.producers.find_client("c1") is new.connection


def test_picks_go_round_the_open_connections(lab: MetadataLab) -> None:
    clients = [Client(lab, f"c{number}", number + 1) for number in range(3)]
    for client in clients:
        client.heartbeat(producers=("P",))
    clients[1].connection.is_open = False  # gone, and not noticed yet
    picked = [lab.producers.pick("P", "T") for _ in range(6)]
    assert set(picked) == {clients[0].connection, clients[2].connection}
    assert lab.producers.pick("absent", "T") is None


# Fingerprints (5.x)


def test_fingerprint_replaces_subscriptions_that_did_not_change(lab: MetadataLab) -> None:
    client = Client(lab, "c1")
    reply = client.heartbeat(consumer("G"), heartbeatFingerprint=11)
    assert reply.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    bare = {**consumer("G"), "subscriptionDataSet": []}
    client.notified()
    reply = client.heartbeat(bare, heartbeatFingerprint=11, withoutSub=True)
    assert reply.field("IS_SUB_CHANGE") == "false"
    assert lab.consumers.find_subscription("G", "T") is not None
    assert client.notified() == []


def test_unknown_fingerprint_asks_for_the_subscriptions(lab: MetadataLab) -> None:
    bare = {**consumer("G"), "subscriptionDataSet": []}
    restarted = Client(lab, "c1")
    assert restarted.heartbeat(bare, heartbeatFingerprint=11, withoutSub=True).field("IS_SUB_CHANGE") == "true"
    restarted.heartbeat(consumer("G"), heartbeatFingerprint=11)
    other = Client(lab, "c2", 2)
    assert other.heartbeat(consumer("G"), heartbeatFingerprint=12).field("IS_SUB_CHANGE") == "true"
    other.connection.close()
    restarted.connection.close()
    assert Client(lab, "c3", 3).heartbeat(consumer("G"), heartbeatFingerprint=13).field("IS_SUB_CHANGE") == "false"


# Hostile heartbeats


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"clientID":[]}', b'{"clientID":"c","consumerDataSet":5}']
)
def test_garbage_registers_nobody(lab: MetadataLab, body: bytes) -> None:
    reply = lab.ask(RequestCode.HEART_BEAT, body=body)
    assert reply.code == ResponseCode.SYSTEM_ERROR and "\n" not in str(reply.remark)
    assert lab.consumers.groups() == [] == lab.producers.groups()


@pytest.mark.parametrize("name", ["", "a b", "../G", "x" * 256])
def test_illegal_group_registers_nobody(lab: MetadataLab, name: str) -> None:
    assert Client(lab, "c").heartbeat(consumer("G"), consumer(name)).code == ResponseCode.INVALID_PARAMETER
    assert Client(lab, "c").heartbeat(consumer("G"), producers=(name,)).code == ResponseCode.INVALID_PARAMETER
    assert lab.consumers.groups() == [] == lab.producers.groups()


@pytest.mark.parametrize("name", ["", "c" * 1025])
def test_client_id_must_be_one_worth_keeping(lab: MetadataLab, name: str) -> None:
    assert Client(lab, name).heartbeat(consumer("G")).code == ResponseCode.SYSTEM_ERROR
    assert lab.consumers.groups() == []


def test_registrations_subscriptions_and_expressions_are_limited(tmp_path: Path) -> None:
    options = BrokerOptions(registrations_max=2, subscriptions_per_group_max=2, filter_expression_bytes_max=8)
    lab = MetadataLab(tmp_path, options)
    client = Client(lab, "c1")
    assert client.heartbeat(consumer("A"), consumer("B"), producers=("P", "Q")).code == 0
    assert client.heartbeat(consumer("C")).code == ResponseCode.SYSTEM_BUSY
    assert client.heartbeat(producers=("R",)).code == ResponseCode.SYSTEM_BUSY
    assert client.heartbeat(consumer("A"), producers=("P",)).code == 0
    many = [subscription(f"T{number}") for number in range(3)]
    assert client.heartbeat(consumer("A", *many)).code == ResponseCode.SYSTEM_ERROR
    long = consumer("A", subscription("T", "TagNumber1", 2))
    assert client.heartbeat(long).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert lab.consumers.registrations == 2 == lab.producers.registrations


# Questions


def test_consumer_list_names_the_clients_or_answers_1(lab: MetadataLab) -> None:
    ext = {"consumerGroup": "G"}
    assert lab.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext).code == ResponseCode.SYSTEM_ERROR
    for number in range(3):
        Client(lab, f"c{number}", number + 1).heartbeat(consumer("G"))
    reply = lab.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
    body = GetConsumerListByGroupResponseBody.from_json(reply.body_bytes)
    assert body.consumer_id_list == ("c0", "c1", "c2")


def test_consumer_connections_are_described_or_206(lab: MetadataLab) -> None:
    ext = {"consumerGroup": "G"}
    assert lab.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext).code == ResponseCode.CONSUMER_NOT_ONLINE
    Client(lab, "c1").heartbeat(consumer("G", subscription("T", "TagA")))
    reply = lab.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext)
    body = ConsumerConnection.from_json(reply.body_bytes)
    (connection,) = body.connection_set
    assert (connection.client_id, connection.client_addr) == ("c1", "127.0.0.1:40001")
    assert (connection.language, connection.version) == ("JAVA", 407)
    assert body.subscription_table["T"].sub_string == "TagA"
    assert body.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


def test_producer_connections_are_described_or_1(lab: MetadataLab) -> None:
    assert lab.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "P"}).code == 1
    Client(lab, "c1").heartbeat(producers=("P", "Q"))
    reply = lab.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "P"})
    (connection,) = ProducerConnection.from_json(reply.body_bytes).connection_set
    assert connection.client_id == "c1"
    table = ProducerTableInfo.from_json(lab.ask(RequestCode.GET_ALL_PRODUCER_INFO).body_bytes)
    assert set(table.data) == {"P", "Q"}
    assert table.data["P"][0].remote_ip == "127.0.0.1:40001"
    assert table.data["P"][0].last_update_timestamp == lab.clock.now_ms()


@pytest.mark.parametrize(
    ("data", "is_on", "code"),
    [
        ({"expressionType": "TAG", "subString": "A || B"}, False, 0),
        ({"expressionType": "TAG", "subString": "||"}, False, 23),
        ({"expressionType": "SQL92", "subString": "a > 1"}, False, 1),
        ({"expressionType": "SQL92", "subString": "a > 1"}, True, 0),
        ({"expressionType": "SQL92", "subString": "a >"}, True, 23),
        ({"expressionType": "SQL92", "subString": ""}, True, 23),
        ({"expressionType": "SQL92", "subString": "a" * 3000}, True, 23),
    ],
)
def test_subscription_is_checked_before_it_is_used(
    lab: MetadataLab, data: dict[str, Any], is_on: bool, code: int
) -> None:
    lab.options.change({"enablePropertyFilter": str(is_on).lower()})
    body = {"clientId": "c", "group": "G", "subscriptionData": {"topic": "T", **data}}
    assert lab.ask(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode()).code == code


def test_check_without_a_body_has_nothing_to_object(lab: MetadataLab) -> None:
    assert lab.ask(RequestCode.CHECK_CLIENT_CONFIG).code == 0


def test_over_the_wire_a_lost_client_is_noticed_at_once_and_the_survivor_told(lab: MetadataLab) -> None:
    async def scenario() -> None:
        told = asyncio.Event()

        def changed(_: Connection, command: RemotingCommand) -> None:
            assert command.field("consumerGroup") == "G"
            if lab.consumers.client_ids("G") == ["c1"]:
                told.set()

        table = HandlerTable()
        table.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, changed)
        server = RemotingServer(lab.table)
        await server.start("127.0.0.1", 0)
        survivor, victim = RemotingClient(table=table), RemotingClient()
        try:
            address = f"127.0.0.1:{server.port}"
            for name, client in (("c1", survivor), ("c2", victim)):
                body = json.dumps({"clientID": name, "consumerDataSet": [consumer("G")]}).encode()
                reply = await client.request(address, RemotingCommand.request(RequestCode.HEART_BEAT, body=body))
                assert reply.code == 0
            assert sorted(lab.consumers.client_ids("G")) == ["c1", "c2"]
            told.clear()
            await victim.close()
            async with asyncio.timeout(10):
                await told.wait()
        finally:
            await survivor.close()
            await victim.close()
            await server.stop()

    asyncio.run(scenario())


class Crowd:
    """Groups of one client each, at a table without handlers."""

    def __init__(self, **limits: int) -> None:
        self.table = ConsumerTable(BrokerOptions(), ManualClock(), **limits)
        self.connections: dict[str, FakeConnection] = {}

    def subscribe(self, group: str, *expressions: str, version: int = 1) -> None:
        """One topic an expression."""
        connection = self.connections.setdefault(group, FakeConnection())
        subscriptions = tuple(
            SubscriptionData(topic=f"T{number}", sub_string=expression, sub_version=version)
            for number, expression in enumerate(expressions)
        )
        data = ConsumerData(group_name=group, subscription_data_set=subscriptions)
        self.table.register(ClientInfo(connection, f"c-{group}", "JAVA", 407), data)

    def refused(self, group: str, *expressions: str, version: int = 1) -> str:
        with pytest.raises(RequestError) as caught:
            self.subscribe(group, *expressions, version=version)
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
        return caught.value.remark


def test_subscriptions_of_all_groups_together_are_limited_in_number() -> None:
    crowd = Crowd(subscriptions_max=3)
    crowd.subscribe("G", "*", "*")
    crowd.subscribe("H", "*")
    assert "3 subscriptions" in crowd.refused("I", "*")
    assert crowd.table.find_group("I") is None
    assert "3 subscriptions" in crowd.refused("H", "*", "*")
    assert crowd.table.find_group("H") is not None
    crowd.subscribe("G", "*", "*")  # nothing new is not more
    crowd.table.unregister("G", crowd.connections["G"])
    crowd.subscribe("I", "*", "*")
    assert "3 subscriptions" in crowd.refused("G", "*")


def test_subscriptions_of_all_groups_together_are_limited_in_size() -> None:
    crowd = Crowd(subscription_bytes_max=3_000)
    crowd.subscribe("G", "x" * 1_000)
    crowd.subscribe("H", "x" * 1_000)
    assert "bytes" in crowd.refused("I", "x" * 1_000)
    assert "bytes" in crowd.refused("I", "||".join("abcdefghij"))  # few letters, but many tags
    crowd.subscribe("G", "y", version=2)
    crowd.subscribe("I", "x" * 1_000)
    crowd.table.connection_closed(crowd.connections["H"])
    crowd.subscribe("K", "x" * 1_000)
    assert "bytes" in crowd.refused("G", "y" * 1_000, version=3)
    found = crowd.table.find_subscription("G", "T0")
    assert found is not None and found.sub_string == "y"


def test_a_large_heartbeat_is_read_beside_the_loop_and_taken_like_any_other(
    lab: MetadataLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    checked = ConsumerTable.checked

    def watched(table: ConsumerTable, data: ConsumerData) -> ConsumerData:
        threads.append(threading.get_ident())
        return checked(table, data)

    monkeypatch.setattr(ConsumerTable, "checked", watched)
    client = Client(lab, "c1")
    assert client.heartbeat(consumer("small")).code == ResponseCode.SUCCESS
    assert not threads
    many = [subscription(f"{'T' * 60}{number}", "red || blue") for number in range(2_500)]
    assert client.heartbeat(consumer("large", *many)).code == ResponseCode.SUCCESS
    assert threads and threads[0] != threading.get_ident()
    group = lab.consumers.find_group("large")
    assert group is not None and len(group.subscriptions) == 2_500
    assert all(one.tags_set == {"red", "blue"} and len(one.code_set) == 2 for one in group.subscriptions.values())
    long = [subscription(f"{'T' * 60}{number}", "x" * 3_000, version=2) for number in range(2_500)]
    assert client.heartbeat(consumer("large", *long[:200])).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_large_heartbeat_of_a_client_that_left_meanwhile_registers_nothing(lab: MetadataLab) -> None:
    connection = FakeConnection()
    many = [subscription(f"{'T' * 60}{number}", "red || blue") for number in range(2_500)]
    body = json.dumps({"clientID": "c1", "consumerDataSet": [consumer("large", *many)]}).encode()
    request = RemotingCommand(RequestCode.HEART_BEAT, body=body, language="JAVA", version=407)

    async def scenario() -> None:
        work: Any = lab.table.entries[RequestCode.HEART_BEAT][0](connection, request)
        connection.close()
        assert await work is None

    asyncio.run(scenario())
    assert lab.consumers.find_group("large") is None
