from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import rows, rows_by_key
from flaremq.remoting.options import RemotingOptions


def test_field_names_follow_from_the_names_in_a_file() -> None:
    fields = {row.field_name for row in rows(NamesrvOptions)}
    assert all(hasattr(NamesrvOptions(), name) for name in fields)


def test_options_of_all_layers_come_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=19876\nserverChannelMaxIdleTimeSeconds=60\nserverWorkerThreads=8\n")
    options = NamesrvOptions.load(path, {"orderMessageEnable": "true"})
    assert options.listen_port == 19876
    assert options.order_message_enable
    assert options.remoting.server_channel_max_idle_time_seconds == 60
    assert options.warnings == [
        "serverWorkerThreads is ignored: it belongs to a part of RocketMQ's name server that does not exist here"
    ]


def test_silent_connections_live_as_long_as_idle_ones() -> None:
    assert NamesrvOptions().remoting.first_frame_seconds == 120
    options = NamesrvOptions.from_properties({"firstFrameSeconds": "5"})
    assert options.remoting.first_frame_seconds == 5


def test_properties_are_read_back_as_they_are_written() -> None:
    options = NamesrvOptions(listen_port=1, kv_config_path="somewhere", enable_topic_list=False)
    again = NamesrvOptions.from_properties(options.to_properties())
    assert again == options
    assert options.to_properties(changed_only=True)["enableTopicList"] == "false"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listenPort", "70000"),
        ("listenPort", "many"),
        ("orderMessageEnable", "yes"),
        ("bindAddress", "localhost"),
        ("scanNotActiveBrokerInterval", "0"),
        ("listenPrt", "1"),
    ],
)
def test_bad_values_and_unknown_names_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        NamesrvOptions.from_properties({name: value})


def test_network_is_not_let_in_by_accident() -> None:
    with pytest.raises(InvalidArgumentError, match="insecureBindEnable"):
        NamesrvOptions(bind_address="0.0.0.0")
    assert NamesrvOptions(bind_address="0.0.0.0", insecure_bind_enable=True).bind_address == "0.0.0.0"
    assert NamesrvOptions(bind_address="::1").bind_address == "::1"


def test_changes_are_taken_over_together_or_not_at_all() -> None:
    options = NamesrvOptions()
    options.change({"orderMessageEnable": "true", "brokerChannelExpiredTime": "5000"})
    assert options.order_message_enable and options.broker_channel_expired_time == 5000
    with pytest.raises(InvalidArgumentError):
        options.change({"orderMessageEnable": "false", "brokerChannelExpiredTime": "never"})
    with pytest.raises(InvalidArgumentError, match="kvConfigPath"):
        options.change({"orderMessageEnable": "false", "kvConfigPath": "elsewhere"})
    assert options.order_message_enable


def test_only_switches_and_numbers_may_be_changed() -> None:
    known = rows_by_key(NamesrvOptions)
    live = {row.key for row in rows(NamesrvOptions) if row.live}
    assert all(isinstance(known[name].default, int) for name in live)  # a bool is an int too
    assert "listenPort" not in live and "clusterTest" in live


def test_limits_of_connections_change_with_the_rest() -> None:
    options = NamesrvOptions()
    options.change({"clusterTest": "true", "connectionsMax": "77"})
    assert options.cluster_test and options.remoting.connections_max == 77


def test_no_name_is_known_twice() -> None:
    own, network = set(rows_by_key(NamesrvOptions)), set(rows_by_key(RemotingOptions))
    assert not own & network
    assert not (own | network) & NamesrvOptions.ONLY_IN_ROCKETMQ


def test_kv_config_is_in_the_home_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert NamesrvOptions().kv_config_file == "/somewhere/namesrv/kvConfig.json"
    assert NamesrvOptions(kv_config_path="kv.json").kv_config_file == "kv.json"
