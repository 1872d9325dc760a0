"""Settings to and from files in RocketMQ's own spelling."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.cluster import broker_addresses
from flaremq.cli.admin.names import is_own_group
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import indented_json
from flaremq.cli.output import echo
from flaremq.errors import InvalidArgumentError
from flaremq.java_json import parse_java_json
from flaremq.message.topics import is_dlq_topic, is_retry_topic

# What RocketMQ's tool takes to matter of a broker's options.
_MAIN_OPTIONS = (
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
)


async def export_metadata(admin: AdminTool, args: Arguments) -> None:
    folder = _folder(args)
    with_special = args.truth("specialTopic")
    address = args.maybe("brokerAddr")
    if address is not None:
        if args.truth("subscriptionGroup"):
            groups = (await admin.all_groups_at(address)).to_value()
            _write(folder, "subscriptionGroup.json", groups)
        else:
            configs = await _topics(admin, address, with_special)
            _write(folder, "topic.json", {"topicConfigTable": configs})
        return
    topics: dict[str, Any] = {}
    groups = {}
    for master in (await admin.masters(cluster=args.text("clusterName"))).values():
        _add_queues(topics, await _topics(admin, master, with_special))
        table = (await admin.all_groups_at(master)).subscription_group_table
        groups |= {name: config.to_value() for name, config in table.items() if not is_own_group(name)}
    values: dict[str, Any] = {"exportTime": int(time.time() * 1000)}
    if args.truth("topic"):
        _write(folder, "topic.json", values | {"topicConfigTable": topics})
    elif args.truth("subscriptionGroup"):
        _write(folder, "subscriptionGroup.json", values | {"subscriptionGroupTable": groups})
    else:
        _write(folder, "metadata.json", values | {"topicConfigTable": topics, "subscriptionGroupTable": groups})


async def _topics(admin: AdminTool, address: str, with_special: bool) -> dict[str, Any]:
    """The settings of the topics of a broker that people made."""
    own = await admin.system_topics_at(address)
    return {
        name: config.to_value()
        for name, config in sorted((await admin.topic_configs(address)).items())
        if name not in own and (with_special or not (is_retry_topic(name) or is_dlq_topic(name)))
    }


def _add_queues(table: dict[str, Any], more: dict[str, Any]) -> None:
    """Of a topic on several brokers, the queues are counted together."""
    for name, config in more.items():
        if name in table:
            for count in ("readQueueNums", "writeQueueNums"):
                table[name][count] += config[count]
        else:
            table[name] = config


async def export_configs(admin: AdminTool, args: Arguments) -> None:
    brokers = await broker_addresses(admin, args.text("clusterName"))
    masters = {name: address for _, name, number, address in brokers if number == 0}
    configs = {}
    for name, address in masters.items():
        options = await admin.broker_config(address)
        configs[name] = {option: options[option] for option in _MAIN_OPTIONS if option in options}
    scale = {
        "namesrvSize": len(admin.name_servers),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": len(brokers) - len(masters),
    }
    _write(_folder(args), "configs.json", {"clusterScale": scale, "brokerConfigs": configs})


def _folder(args: Arguments) -> str:
    import tempfile

    return args.maybe("filePath") or os.path.join(tempfile.gettempdir(), "rocketmq", "export")


def _write(folder: str, name: str, value: Mapping[str, Any]) -> None:
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(indented_json(value))
    echo(f"export {path} success")


def read_json_list(path: str) -> list[Any]:
    """The objects of a file; an error names it."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        value = parse_java_json(data)
    except ValueError as error:
        raise InvalidArgumentError(f"{path} is no JSON: {error}") from error
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidArgumentError(f"{path} holds no JSON list of objects")
    return value
