"""Consumer groups in RocketMQ's own spelling: their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool


async def update_sub_group(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.text import group_config_text
    from flaremq.message.topics import validate_group
    from flaremq.protocol.bodies.group import SubscriptionGroupConfig

    settings: dict[str, Any] = {
        "group_name": given.text("groupName"),
        "consume_enable": given.truth("consumeEnable", True),
        # Unless told otherwise RocketMQ's tool forbids these two, although brokers allow them for new groups.
        "consume_from_min_enable": given.truth("consumeFromMinEnable"),
        "consume_broadcast_enable": given.truth("consumeBroadcastEnable"),
        "consume_message_orderly": given.truth("consumeMessageOrderly"),
        "retry_queue_nums": given.integer("retryQueueNums", 1),
        "retry_max_times": given.integer("retryMaxTimes", 16),
        "broker_id": given.integer("brokerId"),
        "which_broker_when_consume_slowly": given.integer("whichBrokerWhenConsumeSlowly", 1),
        "notify_consumer_ids_changed_enable": given.truth("notifyConsumerIdsChanged", True),
        "attributes": _attributes(given.maybe("attributes")),
    }
    policy = given.maybe("groupRetryPolicy")
    if policy is not None:
        settings["group_retry_policy"] = _policy(given, policy)
    validate_group(settings["group_name"])
    config = SubscriptionGroupConfig(**settings)
    masters = await admin.masters(cluster=given.maybe("clusterName"), broker=given.maybe("brokerAddr"))
    for address in masters.values():
        await admin.create_group(config.group_name, config=config, broker=address)
        say(f"create subscription group to {address} success.")
    say(group_config_text(config))


def _attributes(text: str | None) -> dict[str, str]:
    parts = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in parts}


def _policy(given: Given, text: str) -> dict[str, Any]:
    import orjson

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        given.refuse(f"--groupRetryPolicy takes a JSON object, not {text!r}.")
    return value


async def update_sub_group_list(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.export import read_json_list
    from flaremq.protocol.bodies.group import SubscriptionGroupConfig

    configs = [SubscriptionGroupConfig.from_value(item) for item in read_json_list(given.text("filename"))]
    masters = await admin.masters(cluster=given.maybe("clusterName"), broker=given.maybe("brokerAddr"))
    for address in masters.values():
        for config in configs:
            await admin.create_group(config.group_name, config=config, broker=address)
        say(f"submit batch of group config to {address} success, please check the result later.")


async def delete_sub_group(admin: AdminTool, given: Given) -> None:
    group, cluster = given.text("groupName"), given.maybe("clusterName")
    remove_offset = given.truth("removeOffset")
    masters = await admin.masters(cluster=cluster, broker=given.maybe("brokerAddr"))
    place = "" if given.maybe("brokerAddr") is not None else f" in cluster [{cluster}]"
    for address in masters.values():
        await admin.delete_group_at(address, group, remove_offset=remove_offset)
        say(f"delete subscription group [{group}] from broker [{address}]{place} success.")


async def get_config(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.text import group_config_fields, java_text
    from flaremq.errors import NotFoundError

    group = given.text("groupName")
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
            say(f"{edge}{cluster}:{name}{edge}")
            for field, value in group_config_fields(config).items():
                say(f"{field:<40}=  {'' if value is None else java_text(value)}")
    if not is_found:
        raise NotFoundError(f"group {group!r} does not exist on any broker")


async def set_consume_mode(admin: AdminTool, given: Given) -> None:
    topic, group, mode = given.text("topicName"), given.text("groupName"), given.text("mode").upper()
    if mode not in ("PULL", "POP"):
        given.refuse(f"--mode takes PULL or POP, not {mode!r}.")
    share = given.integer("popShareQueueNum")
    masters = await admin.masters(cluster=given.maybe("clusterName"), broker=given.maybe("brokerAddr"))
    for address in masters.values():
        await admin.set_mode_at(address, topic, group, mode, share)
        say(f"set consume mode to {address} success.")
    say(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
