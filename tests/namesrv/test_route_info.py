from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.namesrv.route_info import BrokerRegistration, RegisterResult, RouteInfo
from flaremq.protocol.bodies.route import QueueData
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig
from flaremq.protocol.command import RequestError

CLUSTER = "DefaultCluster"
BUILT_IN = {"TBW102": 7, "SELF_TEST_TOPIC": 6}


class Brokers:
    """A route table and brokers that talk to it."""

    def __init__(self, **limits: int) -> None:
        self.routes = RouteInfo(**limits)
        self.now_ms = 1_000

    def register(
        self,
        name: str = "broker-a",
        *,
        topics: Mapping[str, int] = BUILT_IN,
        broker_id: int = 0,
        port: int = 10911,
        version: int = 1,
        connection: object | None = None,
        cluster: str = CLUSTER,
        delete_missing: bool = False,
        timeout_ms: int = 120_000,
        acting_master: bool | None = None,
        **more: object,
    ) -> RegisterResult:
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4, perm=perm)
            for topic, perm in topics.items()
        }
        registration = BrokerRegistration(
            cluster=cluster,
            broker_name=name,
            broker_id=broker_id,
            address=f"127.0.0.1:{port}",
            ha_address=f"127.0.0.1:{port + 1}",
            timeout_ms=timeout_ms,
            data_version=DataVersion(counter=version),
            topics=configs,
            enable_acting_master=acting_master,
            **more,  # type: ignore[arg-type]  # the rest of the fields, as the test names them
        )
        return self.routes.register(registration, connection, self.now_ms, delete_missing_topics=delete_missing)

    def perm(self, topic: str) -> int:
        route = self.routes.find_route(topic)
        assert route is not None
        return route.queue_datas[0].perm

    def addresses(self, topic: str = "TBW102", **options: bool) -> dict[int, str]:
        route = self.routes.find_route(topic, **options)
        assert route is not None
        return route.broker_datas[0].broker_addrs


def test_route_names_queues_and_brokers_of_a_topic() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1)
    brokers.register("broker-b", port=2)
    route = brokers.routes.find_route("TBW102")
    assert route is not None
    assert [data.broker_name for data in route.queue_datas] == ["broker-a", "broker-b"]
    assert [data.broker_addrs for data in route.broker_datas] == [{0: "127.0.0.1:1"}, {0: "127.0.0.1:2"}]
    assert route.queue_datas[0] == QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=7)


def test_unknown_topic_has_no_route() -> None:
    brokers = Brokers()
    assert brokers.routes.find_route("TBW102") is None
    brokers.register()
    assert brokers.routes.find_route("nothing") is None


def test_cluster_info_lists_groups_and_clusters() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1)
    brokers.register("broker-a", port=2, broker_id=1)
    brokers.register("broker-b", port=3, cluster="other")
    info = brokers.routes.cluster_info()
    assert info.broker_addr_table["broker-a"].broker_addrs == {0: "127.0.0.1:1", 1: "127.0.0.1:2"}
    assert info.cluster_addr_table == {CLUSTER: ("broker-a",), "other": ("broker-b",)}


def test_registration_with_the_same_data_version_changes_no_topic() -> None:
    brokers = Brokers()
    brokers.register(topics={"T": 6, "U": 6})
    brokers.register(topics={"T": 4, "U": 4})
    assert brokers.perm("T") == 6
    brokers.register(topics={"T": 4, "U": 4}, version=2)
    assert brokers.perm("T") == 4


def test_registration_never_removes_a_topic_unless_told_to() -> None:
    brokers = Brokers()
    brokers.register(topics={"T": 6, "U": 6})
    brokers.register(topics={"T": 6, "V": 6}, version=2)
    assert brokers.routes.topics() == ["T", "U", "V"]
    brokers.register(topics={"T": 6, "V": 6}, version=3, delete_missing=True)
    assert brokers.routes.topics() == ["T", "V"]


def test_single_topic_adds_to_the_topics_of_a_known_broker() -> None:
    brokers = Brokers()
    brokers.register()
    brokers.register(topics={"new": 6}, version=2)
    assert set(brokers.routes.topics()) == {*BUILT_IN, "new"}


def test_single_topic_is_refused_as_first_registration() -> None:
    brokers = Brokers()
    with pytest.raises(RequestError) as refusal:
        brokers.register(topics={"T": 6})
    assert refusal.value.code == 1
    assert brokers.routes.cluster_info().broker_addr_table == {}


def test_deleted_topic_comes_back_with_the_next_registration_that_names_it() -> None:
    brokers = Brokers()
    brokers.register(topics={"T": 6, "U": 6})
    brokers.routes.delete_topic("T")
    assert brokers.routes.find_route("T") is None
    brokers.register(topics={"T": 6, "U": 6})
    assert brokers.perm("T") == 6


def test_topic_can_be_deleted_in_one_cluster_only() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1)
    brokers.register("broker-b", port=2, cluster="other")
    brokers.routes.delete_topic("TBW102", "other")
    route = brokers.routes.find_route("TBW102")
    assert route is not None and [data.broker_name for data in route.queue_datas] == ["broker-a"]
    brokers.routes.delete_topic("TBW102", "nowhere")
    assert brokers.routes.find_route("TBW102") is not None


def test_wiped_write_permission_lasts_until_the_data_version_changes() -> None:
    brokers = Brokers()
    brokers.register(topics={"T": 6, "U": 4})
    assert brokers.routes.wipe_write_perm("broker-a") == 2
    assert brokers.perm("T") == 4
    brokers.register(topics={"T": 6, "U": 4})
    assert brokers.perm("T") == 4
    brokers.register(topics={"T": 6, "U": 4}, version=2)
    assert (brokers.perm("T"), brokers.perm("U")) == (6, 4)


def test_write_permission_can_be_added_again() -> None:
    brokers = Brokers()
    brokers.register()
    brokers.routes.wipe_write_perm("broker-a")
    assert brokers.routes.add_write_perm("broker-a") == 2
    assert (brokers.perm("TBW102"), brokers.perm("SELF_TEST_TOPIC")) == (7, 6)
    assert brokers.routes.wipe_write_perm("nobody") == 0


def test_unregistered_broker_takes_its_topics_along() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1)
    brokers.register("broker-b", port=2)
    brokers.routes.unregister(cluster=CLUSTER, broker_name="broker-a", address="127.0.0.1:1")
    assert brokers.addresses() == {0: "127.0.0.1:2"}
    brokers.routes.unregister(cluster=CLUSTER, broker_name="broker-b", address="127.0.0.1:2")
    assert brokers.routes.topics() == []
    assert brokers.routes.cluster_info().cluster_addr_table == {}


def test_unregistering_somebody_unknown_changes_nothing() -> None:
    brokers = Brokers()
    brokers.register()
    brokers.routes.unregister(cluster=CLUSTER, broker_name="broker-b", address="127.0.0.1:10911")
    brokers.routes.unregister(cluster="other", broker_name="broker-a", address="127.0.0.1:10911")
    assert brokers.addresses() == {0: "127.0.0.1:10911"}


def test_lost_connection_unregisters_the_brokers_behind_it() -> None:
    brokers = Brokers()
    lost, other = object(), object()
    brokers.register("broker-a", port=1, connection=lost)
    brokers.register("broker-b", port=2, connection=lost)
    brokers.register("broker-c", port=3, connection=other)
    gone = brokers.routes.connection_lost(lost)
    assert [broker.broker_name for broker in gone] == ["broker-a", "broker-b"]
    assert brokers.addresses() == {0: "127.0.0.1:3"}


def test_broker_that_reconnected_survives_the_end_of_its_old_connection() -> None:
    brokers = Brokers()
    old, new = object(), object()
    brokers.register(connection=old)
    brokers.register(connection=new)
    assert brokers.routes.connection_lost(old) == []
    assert brokers.addresses() == {0: "127.0.0.1:10911"}


def test_silent_broker_expires_after_its_own_limit() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1, timeout_ms=120_000)
    brokers.register("broker-b", port=2, timeout_ms=10_000)
    assert brokers.routes.expire(brokers.now_ms + 10_000) == []
    assert [broker.broker_name for broker in brokers.routes.expire(brokers.now_ms + 10_001)] == ["broker-b"]
    brokers.routes.touch(CLUSTER, "127.0.0.1:1", brokers.now_ms + 100_000)
    assert brokers.routes.expire(brokers.now_ms + 220_000) == []
    assert [broker.broker_name for broker in brokers.routes.expire(brokers.now_ms + 220_001)] == ["broker-a"]


def test_slave_is_told_where_its_master_is() -> None:
    brokers = Brokers()
    assert brokers.register(port=2, broker_id=1) == RegisterResult()
    assert brokers.register(port=1) == RegisterResult()
    assert brokers.register(port=2, broker_id=1) == RegisterResult("127.0.0.1:1", "127.0.0.1:2")


def test_topics_of_a_4x_slave_are_not_taken_over() -> None:
    brokers = Brokers()
    brokers.register(broker_id=1)
    assert brokers.routes.topics() == []


def test_topics_of_a_5x_slave_count_while_it_has_the_lowest_id() -> None:
    brokers = Brokers()
    brokers.register(broker_id=2, port=3, acting_master=False, topics={"T": 6, "U": 6})
    assert brokers.perm("T") == 6
    brokers.register(broker_id=0, port=1, acting_master=False, topics={"T": 6, "U": 6})
    brokers.register(broker_id=2, port=3, acting_master=False, topics={"T": 4, "U": 4}, version=2)
    assert brokers.perm("T") == 6


def test_acting_master_takes_reads_but_no_sends() -> None:
    brokers = Brokers()
    brokers.register(broker_id=0, port=1, acting_master=True)
    brokers.register(broker_id=1, port=2, acting_master=True)
    brokers.routes.unregister(cluster=CLUSTER, broker_name="broker-a", address="127.0.0.1:1")
    assert brokers.perm("TBW102") == 5
    assert brokers.addresses() == {1: "127.0.0.1:2"}
    assert brokers.addresses(support_acting_master=True) == {0: "127.0.0.1:2"}
    brokers.register(broker_id=1, port=2, acting_master=True, version=2)
    assert brokers.perm("TBW102") == 5
    brokers.register(broker_id=0, port=1, acting_master=True, version=3)
    assert brokers.perm("TBW102") == 7
    assert brokers.addresses(support_acting_master=True) == {0: "127.0.0.1:1", 1: "127.0.0.1:2"}


def test_slave_that_becomes_master_leaves_its_old_id() -> None:
    brokers = Brokers()
    brokers.register(broker_id=1, port=1)
    brokers.register(broker_id=0, port=1)
    assert brokers.addresses() == {0: "127.0.0.1:1"}


def test_broker_that_moved_replaces_its_old_address() -> None:
    brokers = Brokers()
    old = object()
    brokers.register(port=1, connection=old)
    brokers.register(port=2)
    assert brokers.addresses() == {0: "127.0.0.1:2"}
    assert brokers.routes.connection_lost(old) == []


def test_process_with_a_new_broker_name_leaves_the_old_one() -> None:
    brokers = Brokers()
    brokers.register("broker-a")
    brokers.register("broker-b")
    assert list(brokers.routes.cluster_info().broker_addr_table) == ["broker-b"]
    assert brokers.routes.cluster_info().cluster_addr_table == {CLUSTER: ("broker-b",)}


def test_older_state_does_not_replace_a_newer_one() -> None:
    brokers = Brokers()
    topics = {"T": TopicConfig(topic_name="T"), "U": TopicConfig(topic_name="U")}
    common = {"cluster": CLUSTER, "broker_name": "b", "broker_id": 0, "ha_address": "", "timeout_ms": 1}

    def claim(address: str, state: int) -> None:
        version = DataVersion(state_version=state)
        registration = BrokerRegistration(address=address, data_version=version, topics=topics, **common)  # type: ignore[arg-type]  # see common
        brokers.routes.register(registration, None, 0)

    claim("h:1", 5)
    with pytest.raises(RequestError):
        claim("h:2", 4)
    assert brokers.addresses("T") == {0: "h:1"}
    claim("h:2", 6)
    assert brokers.addresses("T") == {0: "h:2"}


def test_topics_by_cluster_and_by_unit_flag() -> None:
    brokers = Brokers()
    brokers.register("broker-a", port=1, topics={"A": 6, "B": 6})
    brokers.register("broker-b", port=2, topics={"C": 6, "D": 6, "E": 6}, cluster="other")
    assert brokers.routes.topics_of_cluster("other") == ["C", "D", "E"]
    assert brokers.routes.topics_of_cluster("nowhere") == []
    for topic, flag in (("C", 1), ("D", 2), ("E", 3)):
        entry = QueueData(broker_name="broker-b", read_queue_nums=1, write_queue_nums=1, topic_sys_flag=flag)
        brokers.routes.register_topic(topic, [entry])
    assert brokers.routes.unit_topics() == ["C", "E"]
    assert brokers.routes.unit_sub_topics() == ["D", "E"]
    assert brokers.routes.unit_sub_ununit_topics() == ["D"]


def test_system_topics_are_cluster_and_broker_names() -> None:
    brokers = Brokers()
    assert brokers.routes.system_topics() == ([], None)
    brokers.register()
    assert brokers.routes.system_topics() == ([CLUSTER, "broker-a"], "127.0.0.1:10911")


def test_topic_by_hand_needs_known_brokers() -> None:
    brokers = Brokers()
    brokers.register("broker-a")
    entries = [QueueData(broker_name="broker-a"), QueueData(broker_name="broker-b")]
    with pytest.raises(RequestError):
        brokers.routes.register_topic("T", entries)
    assert brokers.routes.find_route("T") is None
    brokers.routes.register_topic("T", entries[:1])
    assert brokers.routes.find_route("T") is not None


def test_mappings_of_static_topics_are_passed_on_and_go_with_their_broker() -> None:
    brokers = Brokers()
    mapping = {"topic": "T", "bname": "broker-a", "totalQueues": 2}
    brokers.register(topics={"T": 6, "U": 6}, mappings={"T": mapping})
    route = brokers.routes.find_route("T")
    assert route is not None and route.topic_queue_mapping_by_broker == {"broker-a": mapping}
    brokers.routes.unregister(cluster=CLUSTER, broker_name="broker-a", address="127.0.0.1:10911")
    brokers.register(topics={"T": 6, "U": 6})
    route = brokers.routes.find_route("T")
    assert route is not None and route.topic_queue_mapping_by_broker is None


def test_filter_servers_appear_in_the_route_of_their_broker() -> None:
    brokers = Brokers()
    brokers.register(filter_servers=("h:1",))
    route = brokers.routes.find_route("TBW102")
    assert route is not None and route.filter_server_table == {"127.0.0.1:10911": ("h:1",)}
    brokers.register()
    route = brokers.routes.find_route("TBW102")
    assert route is not None and route.filter_server_table == {}


def test_repeated_registration_is_refreshed_without_being_read() -> None:
    brokers = Brokers()
    connection = object()
    brokers.register(fingerprint=b"1", connection=connection, timeout_ms=100)

    def refresh(fingerprint: bytes, over: object) -> RegisterResult | None:
        return brokers.routes.refresh(CLUSTER, "127.0.0.1:10911", fingerprint, over, brokers.now_ms + 100)

    assert refresh(b"2", connection) is None
    assert refresh(b"1", object()) is None
    assert refresh(b"1", connection) == RegisterResult()
    assert brokers.routes.expire(brokers.now_ms + 200) == []
    brokers.routes.delete_topic("TBW102")
    assert refresh(b"1", connection) is None


def test_filter_servers_have_a_maximum_each_and_together() -> None:
    brokers = Brokers(filter_servers_max=3)
    with pytest.raises(RequestError, match="65 filter servers"):
        brokers.register(filter_servers=tuple(f"h:{port}" for port in range(65)))
    with pytest.raises(RequestError, match="filter server"):
        brokers.register(filter_servers=("h" * 256,))
    assert not brokers.routes.topics()
    brokers.register(filter_servers=("h:1", "h:2"))
    brokers.register("broker-b", port=10921, filter_servers=("h:3",))
    with pytest.raises(RequestError, match="more than 3 filter servers"):
        brokers.register("broker-c", port=10931, filter_servers=("h:4",))
    brokers.register(filter_servers=("h:5", "h:6"))  # as many as before
    brokers.register(filter_servers=("h:5",))
    brokers.register("broker-c", port=10931, filter_servers=("h:4",))


def test_mappings_of_static_topics_have_a_maximum_each_and_together() -> None:
    brokers = Brokers(mappings_max=2)
    topics = {"T": 6, "U": 6, "V": 6}
    with pytest.raises(RequestError, match="5001 mappings"):
        brokers.register(topics=topics, mappings={f"T{number}": {} for number in range(5_001)})
    with pytest.raises(RequestError, match="a mapping of T with"):
        brokers.register(topics=topics, mappings={"T": {"topic": "x" * (16 << 10)}})
    with pytest.raises(RequestError, match="more than 2 mappings"):
        brokers.register(topics=topics, mappings={"T": {}, "U": {}, "V": {}})
    assert not brokers.routes.topics()
    brokers.register(topics=topics, mappings={"T": {}, "U": {}, "unknown": {}})
    brokers.register(topics=topics, mappings={"T": {}, "U": {}}, version=2)
    with pytest.raises(RequestError, match="more than 2 mappings"):
        brokers.register("broker-b", port=10921, topics=topics, mappings={"T": {}})
    brokers.routes.delete_topic("U")
    assert brokers.routes.queues.mapping_count == 1
    brokers.register("broker-b", port=10921, topics=topics, mappings={"T": {}})
    assert brokers.routes.queues.mapping_count == 2
    for name, port in (("broker-a", 10911), ("broker-b", 10921)):
        brokers.routes.unregister(cluster=CLUSTER, broker_name=name, address=f"127.0.0.1:{port}")
    assert brokers.routes.queues.mapping_count == 0


def test_brokers_and_topics_have_a_maximum() -> None:
    brokers = Brokers(brokers_max=2, queue_entries_max=5)
    brokers.register("broker-a", port=1)
    brokers.register("broker-b", port=2)
    with pytest.raises(RequestError, match="2 are registered"):
        brokers.register("broker-c", port=3, topics={})
    brokers.register("broker-a", port=1, topics={"T": 6}, version=2)
    with pytest.raises(RequestError, match="full"):
        brokers.register("broker-a", port=1, topics={"U": 6}, version=3)
    with pytest.raises(RequestError, match="full"):
        brokers.routes.register_topic("U", [QueueData(broker_name="broker-a")])
    brokers.register("broker-a", port=1, version=3)
    assert brokers.routes.queues.count == 5


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_names_have_a_length(name: str) -> None:
    brokers = Brokers()
    with pytest.raises(RequestError, match="brokerName"):
        brokers.register(name)
    with pytest.raises(RequestError, match="topic"):
        brokers.register(topics={name: 6, "T": 6})
    with pytest.raises(RequestError, match="topic"):
        brokers.routes.register_topic(name, [])
    assert brokers.routes.topics() == []


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["register", "unregister", "lose", "expire", "delete", "wipe"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(1, 3),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_table_stays_consistent_whatever_happens(actions: list[tuple[str, str, int, int]]) -> None:
    brokers = Brokers()
    for number, (action, name, broker_id, port) in enumerate(actions):
        if action == "register":
            acting = None if port == 1 else port == 2
            brokers.register(
                name, broker_id=broker_id, port=port, version=number, connection=port, acting_master=acting
            )
        elif action == "unregister":
            brokers.routes.unregister(cluster=CLUSTER, broker_name=name, address=f"127.0.0.1:{port}")
        elif action == "lose":
            brokers.routes.connection_lost(port)
        elif action == "expire":
            brokers.now_ms += 60_000
            brokers.routes.expire(brokers.now_ms)
        elif action == "delete":
            brokers.routes.delete_topic("TBW102")
        else:
            brokers.routes.wipe_write_perm(name)
        assert_consistent(brokers.routes)


def assert_consistent(routes: RouteInfo) -> None:
    table = routes.brokers
    listed = {(group.broker_name, address) for group in table.groups.values() for address in group.addresses.values()}
    assert listed == {(broker.broker_name, broker.address) for broker in table.live.values()}
    assert all(group.addresses for group in table.groups.values())
    assert {name for names in table.clusters.values() for name in names} == set(table.groups)
    entries = [name for entries in routes.queues.table.values() for name in entries]
    assert set(entries) <= set(table.groups)
    assert len(entries) == routes.queues.count
    assert all(routes.queues.table.values())


@pytest.mark.parametrize(
    ("said", "told"), [((2**31 - 1, 8), (65_536, 8)), ((8, 10**6), (8, 65_536)), ((-1, -(2**31)), (0, 0))]
)
def test_absurd_number_of_queues_is_not_passed_on(
    said: tuple[int, int], told: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    brokers.register()
    reads, writes = said
    brokers.routes.register_topic(
        "T", [QueueData(broker_name="broker-a", read_queue_nums=reads, write_queue_nums=writes)]
    )
    route = brokers.routes.find_route("T")
    assert route is not None
    (entry,) = route.queue_datas
    assert (entry.read_queue_nums, entry.write_queue_nums) == told
    assert "broker-a" in caplog.text and str(reads) in caplog.text and "T" in caplog.text
