"""Each request of a name server, asked without a network."""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import parse_properties
from flaremq.protocol.bodies.register import RegisterBrokerBody, body_crc32
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from tests.namesrv.conversation import FakeConnection, SilentNamesrv

IDENTITY = {"clusterName": "C", "brokerName": "broker-a", "brokerId": "0", "brokerAddr": "127.0.0.1:10911"}


@pytest.fixture
def namesrv(tmp_path: Path) -> SilentNamesrv:
    return SilentNamesrv(tmp_path)


def body(*topics: str, version: int = 1) -> RegisterBrokerBody:
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics}
    wrapper = TopicConfigSerializeWrapper(data_version=DataVersion(counter=version), topic_config_table=table)
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


def registration(*topics: str, version: int = 1, packed: bool = False, **ext: str) -> RemotingCommand:
    content = body(*(topics or ("T", "U")), version=version)
    data = content.encode_packed() if packed else content.to_json()
    fields = {**IDENTITY, "haServerAddr": "127.0.0.1:10912", "bodyCrc32": str(body_crc32(data)), **ext}
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, fields, data)


def ask(namesrv: SilentNamesrv, code: int, data: bytes = b"", /, **ext: str) -> RemotingCommand:
    return namesrv.ask(RemotingCommand.request(code, ext, data))


def value(reply: RemotingCommand) -> Any:
    assert reply.code == ResponseCode.SUCCESS, reply
    return json.loads(reply.body_bytes)  # strict: what Go and Node read


def test_route_is_compact_json_with_quoted_broker_ids(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    reply = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
    assert reply.body_bytes == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize("ext", [{"topic": "nothing"}, {}, {"topic": ""}])
def test_unknown_topic_is_answered_with_17(namesrv: SilentNamesrv, ext: dict[str, str]) -> None:
    namesrv.ask(registration())
    assert ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, **ext).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("announced", ["true", "false"])
def test_registration_is_read_whatever_it_says_about_compression(
    namesrv: SilentNamesrv, packed: bool, announced: str
) -> None:
    assert namesrv.ask(registration(packed=packed, compressed=announced)).code == ResponseCode.SUCCESS
    assert namesrv.routes.topics() == ["T", "U"]


def test_registration_without_a_body_is_a_broker_without_topics(namesrv: SilentNamesrv) -> None:
    request = RemotingCommand.request(RequestCode.REGISTER_BROKER, {**IDENTITY, "haServerAddr": ""})
    assert namesrv.ask(request).code == ResponseCode.SUCCESS
    assert value(ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO))["clusterAddrTable"] == {"C": ["broker-a"]}


def test_wrong_checksum_is_refused(namesrv: SilentNamesrv) -> None:
    reply = namesrv.ask(registration(bodyCrc32="1"))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert namesrv.ask(registration(bodyCrc32="0")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("field", ["clusterName", "brokerName", "brokerId", "brokerAddr"])
def test_registration_that_lacks_a_field_is_refused_by_name(namesrv: SilentNamesrv, field: str) -> None:
    request = registration()
    request.ext = {name: text for name, text in (request.ext or {}).items() if name != field}
    reply = namesrv.ask(request)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert field in (reply.remark or "")
    assert namesrv.routes.topics() == []


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"\x78\x9c",
        zlib.compress(b""),
        zlib.compress(b"\x7f\xff\xff\xff"),
        None,
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"many"}}}}',
    ],
    ids=["cut", "list", "cut zlib", "empty zlib", "huge count", "bomb", "wrong kind", "wrong number"],
)
def test_body_that_cannot_be_read_is_refused_with_one_line(namesrv: SilentNamesrv, data: bytes | None) -> None:
    request = registration()
    request.body = zlib.compress(bytes(200_000_000), 9) if data is None else data  # half a second, where it is needed
    request.ext = {**(request.ext or {}), "bodyCrc32": "0"}
    reply = namesrv.ask(request)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark and "\n" not in reply.remark and "Traceback" not in reply.remark
    assert namesrv.routes.topics() == []


def test_order_configuration_is_returned_to_brokers_once_there_is_some(namesrv: SilentNamesrv) -> None:
    assert namesrv.ask(registration()).body_bytes == b""
    ask(namesrv, RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    assert value(namesrv.ask(registration())) == {"table": {"T": "broker-a:4"}}
    namesrv.options.change({"returnOrderTopicConfigToBroker": "false"})
    assert namesrv.ask(registration()).body_bytes == b""


def test_order_configuration_is_part_of_routes_by_option(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    ask(namesrv, RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    assert "orderTopicConf" not in value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))
    ask(namesrv, RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\n")
    assert value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))["orderTopicConf"] == "broker-a:4"
    assert "orderTopicConf" not in value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="U"))


def test_slave_is_told_its_master(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    slave = registration(brokerId="1", brokerAddr="127.0.0.1:10921", haServerAddr="127.0.0.1:10922")
    told = {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"}
    assert namesrv.ask(slave).ext == told
    assert namesrv.ask(slave).ext == told  # the repeated one, too
    members = value(ask(namesrv, RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="C", brokerName="broker-a"))
    addresses = {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"}
    assert members == {"brokerMemberGroup": {"cluster": "C", "brokerName": "broker-a", "brokerAddrs": addresses}}


def test_member_group_of_nobody_is_empty(namesrv: SilentNamesrv) -> None:
    members = value(ask(namesrv, RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="C", brokerName="x"))
    assert members["brokerMemberGroup"]["brokerAddrs"] == {}


def test_broker_unregisters(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    assert ask(namesrv, RequestCode.UNREGISTER_BROKER, **IDENTITY).code == ResponseCode.SUCCESS
    assert ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").code == ResponseCode.TOPIC_NOT_EXIST
    assert ask(namesrv, RequestCode.UNREGISTER_BROKER, **IDENTITY).code == ResponseCode.SUCCESS


def test_lost_connection_unregisters_at_once(namesrv: SilentNamesrv) -> None:
    connection = FakeConnection()
    namesrv.ask(registration(), connection)
    namesrv.ask(registration(version=2), connection)
    assert len(connection.on_close) == 1
    connection.close()
    assert namesrv.routes.topics() == []


def test_silent_broker_expires_and_its_signs_of_life_prevent_that(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    version = DataVersion(counter=1).to_json()
    signs: list[tuple[int, bytes]] = [
        (RequestCode.BROKER_HEARTBEAT, b""),
        (RequestCode.QUERY_DATA_VERSION, version),
    ]
    for code, data in signs:
        namesrv.clock.advance(120_000)
        assert ask(namesrv, code, data, **IDENTITY).code == ResponseCode.SUCCESS
        namesrv.expire()
        assert namesrv.routes.topics() == ["T", "U"]
    namesrv.clock.advance(120_000)
    namesrv.ask(registration())  # a repetition is a sign of life as well
    namesrv.expire()
    assert namesrv.routes.topics() == ["T", "U"]
    namesrv.clock.advance(120_001)
    namesrv.expire()
    assert namesrv.routes.topics() == []


def test_broker_names_its_own_limit(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration(heartbeatTimeoutMillis="10000"))
    namesrv.clock.advance(10_001)
    namesrv.expire()
    assert namesrv.routes.topics() == []


def test_data_version_tells_whether_to_register(namesrv: SilentNamesrv) -> None:
    version = DataVersion(counter=1)
    reply = ask(namesrv, RequestCode.QUERY_DATA_VERSION, version.to_json(), **IDENTITY)
    assert (reply.ext, reply.body_bytes) == ({"changed": "true"}, b"")
    namesrv.ask(registration())
    reply = ask(namesrv, RequestCode.QUERY_DATA_VERSION, version.to_json(), **IDENTITY)
    assert reply.ext == {"changed": "false"} and DataVersion.from_json(reply.body_bytes) == version
    reply = ask(namesrv, RequestCode.QUERY_DATA_VERSION, DataVersion(counter=2).to_json(), **IDENTITY)
    assert reply.ext == {"changed": "true"} and DataVersion.from_json(reply.body_bytes) == version


def test_topic_is_registered_by_hand_and_deleted(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    route = b'{"queueDatas":[{"brokerName":"broker-a","readQueueNums":2,"writeQueueNums":2,"perm":6}]}'
    assert ask(namesrv, RequestCode.REGISTER_TOPIC_IN_NAMESRV, route, topic="new").code == ResponseCode.SUCCESS
    assert value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="new"))["queueDatas"][0]["readQueueNums"] == 2
    assert ask(namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="new").code == ResponseCode.SUCCESS
    assert ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="new").code == ResponseCode.TOPIC_NOT_EXIST


def test_topic_is_deleted_in_a_cluster(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    ask(namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="other")
    assert namesrv.routes.topics() == ["T", "U"]
    ask(namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="C")
    assert namesrv.routes.topics() == ["U"]


def test_write_permission_is_wiped_and_added(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    assert ask(namesrv, RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a").ext == {"wipeTopicCount": "2"}
    assert value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))["queueDatas"][0]["perm"] == 4
    assert ask(namesrv, RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a").ext == {"addTopicCount": "2"}
    assert value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"))["queueDatas"][0]["perm"] == 6


def test_topic_lists(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration())
    assert value(ask(namesrv, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)) == {"topicList": ["T", "U"]}
    assert value(ask(namesrv, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="C")) == {"topicList": ["T", "U"]}
    system = value(ask(namesrv, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS))
    assert system == {"brokerAddr": "127.0.0.1:10911", "topicList": ["C", "broker-a"]}
    for code in (311, 312, 313):
        assert value(ask(namesrv, code)) == {"topicList": []}


def test_topic_lists_can_be_switched_off(namesrv: SilentNamesrv) -> None:
    ask(namesrv, RequestCode.UPDATE_NAMESRV_CONFIG, b"enableAllTopicList=false\nenableTopicList=false")
    for code, ext in ((206, {}), (224, {"cluster": "C"}), (304, {}), (311, {}), (312, {}), (313, {})):
        assert ask(namesrv, code, **ext).code == ResponseCode.SYSTEM_ERROR


def test_kv_config_is_put_read_and_deleted(namesrv: SilentNamesrv) -> None:
    entry = {"namespace": "ns", "key": "k"}
    assert ask(namesrv, RequestCode.GET_KV_CONFIG, **entry).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(namesrv, RequestCode.PUT_KV_CONFIG, value="v", **entry).code == ResponseCode.SUCCESS
    assert ask(namesrv, RequestCode.GET_KV_CONFIG, **entry).ext == {"value": "v"}
    assert value(ask(namesrv, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")) == {"table": {"k": "v"}}
    assert ask(namesrv, RequestCode.DELETE_KV_CONFIG, **entry).code == ResponseCode.SUCCESS
    assert ask(namesrv, RequestCode.GET_KV_CONFIG, **entry).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(namesrv, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="x").code == ResponseCode.QUERY_NOT_FOUND
    assert ask(namesrv, RequestCode.PUT_KV_CONFIG, **entry).code == ResponseCode.SYSTEM_ERROR


def test_options_are_shown_and_changed(namesrv: SilentNamesrv) -> None:
    reply = ask(namesrv, RequestCode.UPDATE_NAMESRV_CONFIG, b"supportActingMaster=true\n")
    assert reply.code == ResponseCode.SUCCESS
    shown = parse_properties(ask(namesrv, RequestCode.GET_NAMESRV_CONFIG).body_bytes.decode())
    assert shown["supportActingMaster"] == "true"
    assert shown["listenPort"] == "9876"
    assert ask(namesrv, RequestCode.UPDATE_NAMESRV_CONFIG).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"kvConfigPath=/etc/passwd", ResponseCode.NO_PERMISSION),
        (b"configStorePath=/etc/passwd", ResponseCode.NO_PERMISSION),
        (b"configStorePathName=x", ResponseCode.NO_PERMISSION),
        (b"orderMessageEnable=true\nlistenPort=1", ResponseCode.NO_PERMISSION),
        (b"rocketmqHome=/elsewhere", ResponseCode.NO_PERMISSION),
        (b"orderMessageEnable=true\nscanNotActiveBrokerInterval=-1", ResponseCode.SYSTEM_ERROR),
        (b"orderMessageEnable=perhaps", ResponseCode.SYSTEM_ERROR),
        (b"orderMessageEnable=\\u00", ResponseCode.SYSTEM_ERROR),
        (b"\xff\xfe", ResponseCode.SYSTEM_ERROR),
        (b"orderMessageEnable=true\n" + b"#" * (64 << 10), ResponseCode.SYSTEM_ERROR),
        (b"".join(b"orderMessageEnable%d=true\n" % number for number in range(101)), ResponseCode.SYSTEM_ERROR),
    ],
    ids=lambda value: value[:32].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_what_may_not_be_changed_is_refused_and_nothing_is_changed(
    namesrv: SilentNamesrv, data: bytes, code: int
) -> None:
    before = namesrv.options.to_properties()
    assert ask(namesrv, RequestCode.UPDATE_NAMESRV_CONFIG, data).code == code
    assert namesrv.options.to_properties() == before


def test_routes_can_wait_until_brokers_had_the_time_to_register(tmp_path: Path) -> None:
    namesrv = SilentNamesrv(tmp_path, NamesrvOptions(need_wait_for_service=True))
    namesrv.ask(registration())
    assert ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").code == ResponseCode.SYSTEM_ERROR
    namesrv.clock.advance(45_000)
    assert ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").code == ResponseCode.SUCCESS


def test_route_can_be_limited_to_a_zone(namesrv: SilentNamesrv) -> None:
    namesrv.ask(registration(__ZONE_NAME="east"))
    namesrv.ask(registration(brokerName="broker-b", brokerAddr="127.0.0.1:10921", __ZONE_NAME="west"))
    zoned = {"topic": "T", "__ZONE_NAME": "West", "__ZONE_MODE": "true"}
    route = value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, **zoned))
    assert [data["brokerName"] for data in route["brokerDatas"]] == ["broker-b"]
    assert [data["brokerName"] for data in route["queueDatas"]] == ["broker-b"]
    zoned["__ZONE_MODE"] = "false"
    assert len(value(ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, **zoned))["brokerDatas"]) == 2


NUMBERS_AND_TEXTS = st.one_of(st.sampled_from(["", "0", "-1", "x" * 300, "99999999999999999999"]), st.text(max_size=8))


CODES = [*range(100, 107), 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904]
FIELDS = ["brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId", "bodyCrc32", "compressed", "topic"]
FIELDS += ["enableActingMaster", "heartbeatTimeoutMillis", "namespace", "key", "value", "cluster", "__ZONE_NAME"]


@given(
    code=st.sampled_from(CODES),
    ext=st.dictionaries(st.sampled_from(FIELDS), NUMBERS_AND_TEXTS),
    data=st.one_of(st.binary(max_size=40), st.just(body("T", "U").to_json()), st.just(b"x" + body("T").to_json())),
)
def test_any_request_gets_a_reply_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, code: int, ext: dict[str, str], data: bytes
) -> None:
    namesrv = SilentNamesrv(tmp_path_factory.mktemp("namesrv"))
    namesrv.ask(registration())
    reply = namesrv.ask(RemotingCommand.request(code, ext, data))
    listed = {ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION}
    assert reply.code in listed | {ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND}
    assert len(reply.remark or "") <= 1200 and "Traceback" not in (reply.remark or "")


# Large registrations

MANY = tuple(f"{'T' * 100}{number}" for number in range(2_000))


class SlowReader:
    """Large registrations are read when the test says so; on which thread is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.threads: list[int] = []
        decode = RegisterBrokerBody.decode

        def slow(data: bytes) -> RegisterBrokerBody:
            self.threads.append(threading.get_ident())
            if threading.current_thread() is not threading.main_thread():
                assert self.go_on.wait(30)
            return decode(data)

        monkeypatch.setattr(RegisterBrokerBody, "decode", staticmethod(slow))


def begin(namesrv: SilentNamesrv, request: RemotingCommand, connection: FakeConnection) -> Any:
    """What the handler returns at once: a reply, or the work that leads to it."""
    return namesrv.table.entries[request.code][0](cast(Connection, connection), request)


@pytest.mark.parametrize("packed", [False, True])
def test_large_registration_is_read_beside_the_loop_and_those_after_it_wait(
    namesrv: SilentNamesrv, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    reader, connection = SlowReader(monkeypatch), FakeConnection()
    other = registration(brokerName="broker-b", brokerAddr="127.0.0.1:10921")

    async def scenario() -> None:
        large = asyncio.ensure_future(begin(namesrv, registration(*MANY, packed=packed), connection))
        small = asyncio.ensure_future(begin(namesrv, registration("T", "U", version=2), connection))
        assert isinstance(begin(namesrv, other, connection), RemotingCommand)  # others do not wait
        while len(reader.threads) < 2:
            await asyncio.sleep(0.001)
        assert not large.done() and not small.done()
        reader.go_on.set()
        replies = await asyncio.gather(large, small)
        assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 2

    asyncio.run(scenario())
    assert threading.get_ident() in reader.threads and len(set(reader.threads)) > 1
    assert namesrv.routes.find_data_version("C", "127.0.0.1:10911") == DataVersion(counter=2)
    assert set(namesrv.routes.topics()) == {*MANY, "T", "U"}
    assert isinstance(begin(namesrv, registration("T", "U", version=3), connection), RemotingCommand)  # no trace left


def test_goodbye_after_a_large_registration_is_the_last_word(
    namesrv: SilentNamesrv, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, connection = SlowReader(monkeypatch), FakeConnection()
    goodbye = RemotingCommand.request(RequestCode.UNREGISTER_BROKER, IDENTITY)

    async def scenario() -> None:
        work = [begin(namesrv, registration(*MANY), connection), begin(namesrv, goodbye, connection)]
        reader.go_on.set()
        await asyncio.gather(*work)

    asyncio.run(scenario())
    assert namesrv.routes.find_data_version("C", "127.0.0.1:10911") is None


def test_large_registration_of_a_broker_that_is_gone_meanwhile_enters_nothing(
    namesrv: SilentNamesrv, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, connection = SlowReader(monkeypatch), FakeConnection()

    async def scenario() -> None:
        large = asyncio.ensure_future(begin(namesrv, registration(*MANY), connection))
        while not reader.threads:
            await asyncio.sleep(0.001)
        connection.close()
        reader.go_on.set()
        assert await large is None

    asyncio.run(scenario())
    assert not namesrv.routes.topics()


def test_large_registration_that_is_dropped_before_its_turn_holds_up_nothing(namesrv: SilentNamesrv) -> None:
    connection = FakeConnection()
    begin(namesrv, registration(*MANY), connection).close()
    assert isinstance(begin(namesrv, registration(), connection), RemotingCommand)
