"""Options of a broker: one file for all layers, and what may change while it runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.broker.options import ONLY_IN_ROCKETMQ, BrokerOptions, load_options, unknown_names
from flaremq.broker.service import BrokerService
from flaremq.errors import InvalidArgumentError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import live_refusals, parse_assignments, rows, rows_by_key, snake_name
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.option_names import NOT_IMPLEMENTED, OTHER_LAYERS
from flaremq.storage.options import StoreOptions


def test_each_option_field_is_named_after_its_row() -> None:
    for row in rows(BrokerOptions):
        assert hasattr(BrokerOptions(), snake_name(row.key)), row.key


def test_rocketmq_names_are_names_rocketmq_has() -> None:
    known = OTHER_LAYERS | NOT_IMPLEMENTED | set(rows_by_key(StoreOptions))
    assert [row.key for row in rows(BrokerOptions) if row.is_rocketmq and row.key not in known] == []


def test_our_own_names_are_not_rocketmqs() -> None:
    assert [row.key for row in rows(BrokerOptions) if not row.is_rocketmq and row.key in OTHER_LAYERS] == []


def test_file_serves_all_layers(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerName=broker-b\nlistenPort=20911\nflushDiskType=ASYNC_FLUSH\nserverChannelMaxIdleTimeSeconds=60\n"
        "autoCreateTopicEnable=false\nconnectionsMax=7\ntopicsMax=99\ntimerWheelEnable=false\n"
    )
    broker, store, remoting = load_options(conf, {"brokerClusterName": "C"})
    assert (broker.broker_name, broker.broker_cluster_name, broker.listen_port) == ("broker-b", "C", 20911)
    assert not broker.auto_create_topic_enable and not broker.timer_wheel_enable and broker.topics_max == 99
    assert store.flush_disk_type == "ASYNC_FLUSH" and store.listen_port == 20911
    assert remoting.server_channel_max_idle_time_seconds == 60 and remoting.connections_max == 7
    assert broker.warnings == [] and store.warnings == []


def test_override_beats_the_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\n")
    assert BrokerOptions.load(conf, {"brokerName": "b"}).broker_name == "b"


def test_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidArgumentError, match="autoCreateTopicEnabled: did you mean autoCreateTopicEnable"):
        BrokerOptions.from_properties({"autoCreateTopicEnabled": "true"})
    assert [str(name) for name in unknown_names(["topicMax"])] == ["unknown option topicMax: did you mean topicsMax?"]


def test_name_that_only_rocketmq_has_is_kept_as_a_warning() -> None:
    options = BrokerOptions.from_properties({"sendMessageThreadPoolNums": "16"})
    assert options.warnings == [
        "sendMessageThreadPoolNums is ignored: that part of RocketMQ's broker does not exist here"
    ]


def test_option_without_effect_says_so() -> None:
    assert BrokerOptions(filter_support_retry=True).warnings == [
        "filterSupportRetry=true has no effect: a consumer subscribes to its retry topic with an expression of its "
        "own, and that one is applied"
    ]


def test_address_that_others_reach_and_are_not_told_is_a_warning() -> None:
    opened = {"bindAddress": "0.0.0.0", "insecureBindEnable": "true"}
    assert BrokerOptions.from_properties(opened).warnings == [
        "clients are told to come to brokerIP1=127.0.0.1, where only those of this machine find the broker"
    ]
    assert BrokerOptions.from_properties({**opened, "brokerIP1": "192.0.2.7"}).warnings == []


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7"])
def test_address_that_others_reach_needs_a_word_more(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="insecureBindEnable"):
        BrokerOptions(bind_address=address)
    assert BrokerOptions(bind_address=address, insecure_bind_enable=True).bind_address == address


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"authorizationEnabled": "true"}, "without authenticationEnabled"),
        ({"aclEnable": "true", "authenticationEnabled": "true"}, "two systems"),
        ({"authenticationEnabled": "true", "authenticationProvider": "com.example.Mine"}, "authenticationProvider"),
        (
            {
                "authenticationEnabled": "true",
                "authenticationStrategy": "org.apache.rocketmq.auth.authentication.strategy."
                "StatefulAuthenticationStrategy",
            },
            "authenticationStrategy",
        ),
    ],
)
def test_access_control_cannot_be_pretended(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        BrokerOptions.from_properties(properties)


def test_other_machines_are_let_in_with_access_control_or_when_told_so() -> None:
    with pytest.raises(InvalidArgumentError, match="nobody is asked who they are"):
        BrokerOptions.from_properties({"bindAddress": "0.0.0.0"})
    for name in ("aclEnable", "authenticationEnabled", "insecureBindEnable"):
        assert BrokerOptions.from_properties({"bindAddress": "0.0.0.0", name: "true"}).bind_address == "0.0.0.0"


def test_secrets_of_the_configuration_are_not_shown() -> None:
    secret = '{"username":"root","password":"marked-secret"}'
    options = BrokerOptions.from_properties({"initAuthenticationUser": secret})
    assert options.access.init_authentication_user == secret
    assert "marked-secret" not in repr(options) + str(options.to_properties())


@pytest.mark.parametrize(
    ("name", "text"),
    [("brokerName", "a b"), ("brokerName", ""), ("brokerIP1", "example.org"), ("brokerIP2", "x"), ("bindAddress", "*")],
)
def test_bad_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option {name}="):
        BrokerOptions.from_properties({name: text})


def test_change_reaches_everybody_who_holds_the_options() -> None:
    options = BrokerOptions()
    options.change({"brokerPermission": "4", "autoCreateTopicEnable": "false"})
    assert options.broker_permission == 4 and not options.auto_create_topic_enable


@pytest.mark.parametrize(
    "properties",
    [
        {"brokerPermission": "4", "brokerName": "x"},
        {"brokerPermission": "4", "namesrvAddr": "192.0.2.1:9876"},
        {"brokerPermission": "4", "topicsMax": "-1"},
        {"brokerPermission": "4", "longPollingEnable": "perhaps"},
        {"brokerPermission": "8"},
        {"brokerPermission": "4", "nonsense": "1"},
    ],
)
def test_change_is_all_or_nothing(properties: dict[str, str]) -> None:
    options = BrokerOptions()
    with pytest.raises(InvalidArgumentError):
        options.change(properties)
    assert options == BrokerOptions()


def test_what_may_change_is_never_an_address_or_a_name() -> None:
    defaults = {row.key: row for row in rows(BrokerOptions)}
    live = {row.key for row in rows(BrokerOptions) if row.live}
    texts = {name for name in live if isinstance(defaults[name].default, str)}
    assert texts == {"defaultMessageRequestMode", "logLevel"}  # each one of a few words
    assert not live & {"insecureBindEnable", "aclEnable", "authenticationEnabled", "authorizationEnabled"}


@pytest.mark.parametrize("kind", [BrokerOptions, StoreOptions, RemotingOptions, NamesrvOptions])
def test_every_option_of_a_server_is_live_or_says_why_not(kind: type) -> None:
    assert [row.key for row in rows(kind) if row.live == bool(row.fixed)] == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fileReservdTime", "did you mean fileReservedTime?"),
        ("storePathRootDir", "storePathRootDir cannot be changed while the server runs: paths"),
        ("sendMessageThreadPoolNums", "what it sets in RocketMQ does not exist here"),
    ],
)
def test_refused_change_says_why_or_what_was_meant(name: str, sentence: str) -> None:
    layers = [BrokerOptions(), StoreOptions(), RemotingOptions()]
    [told] = live_refusals([name], layers, ONLY_IN_ROCKETMQ)
    assert sentence in told


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["brokerRole=SLAVE"], "brokerRole=SLAVE needs a brokerId of 1 or more"),
        (
            ["enableSlaveActingMaster=true"],
            "enableSlaveActingMaster='true' is not allowed: acting masters do not exist",
        ),
        (["enableDLegerCommitLog=true"], "enableDLegerCommitLog='true' is not allowed: logs by consensus"),
        (["inSyncReplicas=2", "minInSyncReplicas=3"], "minInSyncReplicas=3 is more than inSyncReplicas=2"),
    ],
)
def test_broker_refuses_roles_that_cannot_be(assignments: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        BrokerService(tmp_path, *load_options(None, parse_assignments(assignments)))
    assert not any(tmp_path.iterdir())


def test_options_that_say_what_is_so_anyway_are_accepted() -> None:
    alone = ["brokerRole=ASYNC_MASTER", "brokerId=0", "inSyncReplicas=1", "haListenPort=10912", "totalReplicas=1"]
    broker, store, _ = load_options(None, parse_assignments(alone))
    assert broker.warnings == [] and store.warnings == []


@pytest.mark.parametrize(
    "assignment", ["totalReplicas=3", "useReentrantLockWhenPutMessage=false", "sendMessageThreadPoolNums=64"]
)
def test_option_without_effect_is_said_in_the_log_of_a_starting_broker(
    assignment: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker, store, network = load_options(None, parse_assignments([assignment, "listenPort=0"]))
    small = replace(store, mapped_file_size_commit_log=1 << 20, max_message_size=1 << 16)

    async def scenario() -> None:
        service = BrokerService(tmp_path, broker, small, network)
        await service.start()
        await service.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    name = assignment.partition("=")[0]
    assert [record.getMessage() for record in caplog.records if name in record.getMessage()] != []


def test_properties_read_back_as_they_were() -> None:
    options = BrokerOptions(broker_name="b", default_pop_share_queue_num=3, enable_property_filter=True)
    assert BrokerOptions.from_properties(options.to_properties()) == options
    assert options.to_properties(changed_only=True) == {
        "brokerName": "b",
        "defaultPopShareQueueNum": "3",
        "enablePropertyFilter": "true",
    }
