"""Consumer groups of a broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.catalog.groups import BUILT_IN_GROUPS
from flaremq.broker.options import BrokerOptions
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RequestError
from tests.support.metadata_lab import MetadataLab


@pytest.fixture
def lab(tmp_path: Path) -> MetadataLab:
    return MetadataLab(tmp_path)


def group(name: str = "G", **more: Any) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group_name=name, **more)


def test_new_broker_has_rocketmqs_groups(lab: MetadataLab) -> None:
    assert set(lab.groups.all()) == set(BUILT_IN_GROUPS)


def test_group_comes_into_being_by_use_and_survives_a_restart(lab: MetadataLab) -> None:
    assert "G" not in lab.groups and lab.groups.get("G") is None
    assert lab.groups.find("G") == group()
    asyncio.run(lab.groups.save_changes())
    assert lab.reopened().groups.get("G") == group()


def test_without_automatic_creation_a_group_must_exist(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(auto_create_subscription_group=False))
    assert lab.groups.find("G") is None
    assert lab.groups.find("CID_RMQ_SYS_REVIVE_GROUP") is not None  # the broker's own always come
    lab.groups.update(group())
    assert lab.groups.find("G") == group()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 256, "ü"])
def test_illegal_group_is_never_created(lab: MetadataLab, name: str) -> None:
    assert lab.groups.find(name) is None
    assert name not in lab.groups


def test_number_of_groups_is_limited(tmp_path: Path) -> None:
    lab = MetadataLab(tmp_path, BrokerOptions(groups_max=16))
    for number in range(16 - len(BUILT_IN_GROUPS)):
        lab.groups.find(f"G{number}")
    with pytest.raises(RequestError, match="groupsMax"):
        lab.groups.find("one-more")
    assert lab.groups.find("G0") is not None


def test_version_counts_changes_only(lab: MetadataLab) -> None:
    before = lab.groups.data_version.counter
    lab.groups.update(group())
    lab.groups.update(group())
    lab.groups.update(group(retry_max_times=3))
    assert lab.groups.data_version.counter == before + 2


def test_slow_group_is_switched_off_once(lab: MetadataLab) -> None:
    lab.groups.disable_consume("absent")
    assert "absent" not in lab.groups
    lab.groups.find("G")
    lab.groups.disable_consume("G")
    lab.groups.disable_consume("G")
    assert lab.groups.get("G") == group(consume_enable=False)


def test_forbidden_table_of_rocketmq_is_kept(lab: MetadataLab) -> None:
    folder = lab.folder / "config"
    folder.mkdir()
    (folder / "subscriptionGroup.json").write_text(
        '{"dataVersion":{"counter":7,"timestamp":1},"forbiddenTable":{"G":{"T":2}},"subscriptionGroupTable":{"G":{}}}'
    )
    again = lab.reopened()
    assert again.groups.get("G") == group()
    assert again.groups.data_version.counter == 7
    again.groups.update(group("H"))
    again.groups.save_now()
    assert again.on_disk("subscriptionGroup")["forbiddenTable"] == {"G": {"T": 2}}


# Requests


def test_administrator_creates_a_group(lab: MetadataLab) -> None:
    config = group(retry_queue_nums=2, consume_broadcast_enable=False)
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_json()).code == 0
    assert lab.reopened().groups.get("G") == config


def test_group_of_rocketmq_4_9_has_the_defaults_of_5(lab: MetadataLab) -> None:
    body = b'{"brokerId":0,"consumeEnable":true,"groupName":"G","retryMaxTimes":5,"whichBrokerWhenConsumeSlowly":1}'
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    assert lab.groups.get("G") == group(retry_max_times=5)


@pytest.mark.parametrize("config", [group("a b"), group(""), group("x" * 256), group(retry_queue_nums=100_000)])
def test_bad_group_is_refused(lab: MetadataLab, config: SubscriptionGroupConfig) -> None:
    reply = lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.to_json())
    assert reply.code == ResponseCode.INVALID_PARAMETER
    assert set(lab.groups.all()) == set(BUILT_IN_GROUPS)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"groupName":{}}'])
def test_garbage_is_an_error_of_one_line(lab: MetadataLab, body: bytes) -> None:
    reply = lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert reply.code == ResponseCode.SYSTEM_ERROR and "\n" not in str(reply.remark)


@pytest.mark.parametrize(("flag", "left"), [(None, {0: 5}), ("cleanOffset", None), ("removeOffset", None)])
def test_deleted_group_loses_its_offsets_if_asked_for(
    lab: MetadataLab, flag: str | None, left: dict[int, int] | None
) -> None:
    lab.groups.find("G")
    lab.offsets.commit("G", "T", 0, 5)
    lab.offsets.save_now()
    ext: dict[str, Any] = {"groupName": "G"} | ({flag: True} if flag else {})
    assert lab.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext).code == 0
    again = lab.reopened()
    assert "G" not in again.groups
    assert again.offsets.table().get("T@G") == left


def test_one_group_is_shown_and_created_like_by_any_other_use(lab: MetadataLab) -> None:
    reply = lab.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"})
    assert SubscriptionGroupConfig.from_json(reply.body_bytes) == group()
    assert "G" in lab.reopened().groups, "saved before it was answered"
    lab.options.change({"autoCreateSubscriptionGroup": "false"})
    reply = lab.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "H"})
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_groups_come_in_one_reply(lab: MetadataLab) -> None:
    lab.groups.update(replace(group(), attributes={"a": "b"}))
    reply = lab.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    body = SubscriptionGroupWrapper.from_json(reply.body_bytes)
    assert body.subscription_group_table == lab.groups.all()
    assert body.forbidden_table == {}


TOO_MUCH = [{f"name{number}": "v" for number in range(65)}, {"name": "v" * 4_093}, {"n": "ü" * 2_048}]


@pytest.mark.parametrize("attributes", TOO_MUCH, ids=["many", "long", "long in bytes"])
def test_attributes_beyond_the_limit_are_refused_and_ignored_when_loaded(
    lab: MetadataLab, attributes: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fitting = {f"name{number}": "v" for number in range(64)}
    body = group("fits", attributes=fitting).to_json()
    assert lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == ResponseCode.SUCCESS
    reply = lab.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group("G", attributes=attributes).to_json())
    assert reply.code == ResponseCode.INVALID_PARAMETER and "attributes" in (reply.remark or "")
    assert "G" not in lab.groups
    lab.groups.update(group("old", attributes=attributes, retry_max_times=3))  # as a file may have it
    lab.groups.save_now()
    again = lab.reopened().groups
    assert again.get("old") == group("old", retry_max_times=3)
    assert again.get("fits") == group("fits", attributes=fitting)
    assert [record.message for record in caplog.records if "group old" in record.message]
