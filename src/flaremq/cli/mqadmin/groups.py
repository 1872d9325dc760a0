"""Consumer groups in RocketMQ's own spelling: their settings."""

from __future__ import annotations

from typing import Any

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.export import read_json_list
from flaremq.cli.mqadmin.text import group_config_fields, group_config_text, java_text
from flaremq.cli.output import echo
from flaremq.errors import NotFoundError
from flaremq.message.topics import validate_group
from flaremq.protocol.bodies.group import SubscriptionGroupConfig


async def update_sub_group(admin: AdminTool, args: Arguments) -> None:
    settings: dict[str, Any] = {
        "group_name": args.text("groupName"),
        "consume_enable": args.truth("consumeEnable", True),
        # Unless told otherwise RocketMQ's tool forbids these two, although brokers allow them for new groups.
        "consume_from_min_enable": args.truth("consumeFromMinEnable"),
        "consume_broadcast_enable": args.truth("consumeBroadcastEnable"),
        "consume_message_orderly": args.truth("consumeMessageOrderly"),
        "retry_queue_nums": args.integer("retryQueueNums", 1),
        "retry_max_times": args.integer("retryMaxTimes", 16),
        "broker_id": args.integer("brokerId"),
        "which_broker_when_consume_slowly": args.integer("whichBrokerWhenConsumeSlowly", 1),
        "notify_consumer_ids_changed_enable": args.truth("notifyConsumerIdsChanged", True),
        "attributes": _attributes(args.maybe("attributes")),
    }
    policy = args.maybe("groupRetryPolicy")
    if policy is not None:
        settings["group_retry_policy"] = _policy(args, policy)
    validate_group(settings["group_name"])
    config = SubscriptionGroupConfig(**settings)
    masters = await args.masters(admin)
    for address in masters.values():
        await admin.create_group(config.group_name, config=config, broker=address)
        echo(f"create subscription group to {address} success.")
    echo(group_config_text(config))


def _attributes(text: str | None) -> dict[str, str]:
    parts = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in parts}


def _policy(args: Arguments, text: str) -> dict[str, Any]:
    import orjson

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        args.refuse(f"--groupRetryPolicy takes a JSON object, not {text!r}.")
    return value


async def update_sub_group_list(admin: AdminTool, args: Arguments) -> None:
    configs = [SubscriptionGroupConfig.from_value(item) for item in read_json_list(args.text("filename"))]
    masters = await args.masters(admin)
    for address in masters.values():
        for config in configs:
            await admin.create_group(config.group_name, config=config, broker=address)
        echo(f"submit batch of group config to {address} success, please check the result later.")


async def delete_sub_group(admin: AdminTool, args: Arguments) -> None:
    group, cluster = args.text("groupName"), args.maybe("clusterName")
    remove_offset = args.truth("removeOffset")
    masters = await args.masters(admin)
    place = "" if args.maybe("brokerAddr") is not None else f" in cluster [{cluster}]"
    for address in masters.values():
        await admin.delete_group_at(address, group, remove_offset=remove_offset)
        echo(f"delete subscription group [{group}] from broker [{address}]{place} success.")


async def get_config(admin: AdminTool, args: Arguments) -> None:
    group = args.text("groupName")
    info = await admin.cluster_info()
    is_found = False
    for cluster, names in sorted(info.cluster_addr_table.items()):
        for name in sorted(names):
            addresses = info.broker_addr_table[name].broker_addrs if name in info.broker_addr_table else {}
            config = (await admin.group_configs(addresses[0])).get(group) if 0 in addresses else None
            if config is None:
                continue
            is_found = True
            edge = "=" * 29
            echo(f"{edge}{cluster}:{name}{edge}")
            for field, value in group_config_fields(config).items():
                echo(f"{field:<40}=  {'' if value is None else java_text(value)}")
    if not is_found:
        raise NotFoundError(f"group {group!r} does not exist on any broker")


async def set_consume_mode(admin: AdminTool, args: Arguments) -> None:
    topic, group, mode = args.text("topicName"), args.text("groupName"), args.text("mode").upper()
    if mode not in ("PULL", "POP"):
        args.refuse(f"--mode takes PULL or POP, not {mode!r}.")
    share = args.integer("popShareQueueNum")
    masters = await args.masters(admin)
    for address in masters.values():
        await admin.set_consume_mode(group, topic, mode, pop_share_queues=share, broker=address)
        echo(f"set consume mode to {address} success.")
    echo(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
