"""Topics in RocketMQ's own spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.output import echo

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.protocol.bodies.topic import TopicConfig

_ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
_UNIT_FLAG = 1
_UNIT_SUBSCRIPTION_FLAG = 2


def topic_list(name_servers: str, args: Arguments) -> None:
    if args.truth("clusterModel"):
        from flaremq.cli.admin.administration import administer

        administer(name_servers, _topics_of_clusters)
        return
    from flaremq.cli.admin.names import read_topics  # past the client: people list topics all the time

    for name in read_topics(name_servers)[0]:
        echo(name)


async def _topics_of_clusters(admin: AdminTool) -> None:
    from flaremq.message.topics import is_dlq_topic, is_retry_topic

    echo(f"{'#Cluster Name':<20}  {'#Topic':<48}  {'#Consumer Group':<48}")
    for cluster in sorted((await admin.cluster_info()).cluster_addr_table):
        for topic in await admin.list_topics(cluster=cluster):
            if is_retry_topic(topic) or is_dlq_topic(topic):
                continue
            for group in await admin.topic_groups(topic) or [""]:
                echo(f"{cluster:<20}  {topic:<64}  {group:<64}")


async def topic_route(admin: AdminTool, args: Arguments) -> None:
    from flaremq.cli.mqadmin.text import indented_json, java_map, sorted_deep

    data = await admin.topic_route(args.text("topic"))
    if not args.truth("list"):
        value = data.to_value()
        for broker, bean in zip(value["brokerDatas"], data.broker_datas, strict=True):
            broker["brokerAddrs"] = bean.broker_addrs
        echo(indented_json(sorted_deep(value)))
        return
    layout = "{:<45} {:<32} {:<50} {:<10} {:<11} {:<5}"
    echo(layout.format("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"))
    queues = {entry.broker_name: entry for entry in data.queue_datas}
    reads = writes = 0
    brokers = sorted(data.broker_datas, key=lambda broker: broker.broker_name)
    for bean in brokers:
        entry = queues[bean.broker_name]
        addresses = java_map(dict(sorted(bean.broker_addrs.items())))
        counts = (entry.read_queue_nums, entry.write_queue_nums, entry.perm)
        echo(layout.format(bean.cluster, bean.broker_name, addresses, *counts))
        reads += entry.read_queue_nums
        writes += entry.write_queue_nums
    echo("-" * 158)
    echo(layout.format("Total:", len(brokers), "", reads, writes, ""))


async def topic_status(admin: AdminTool, args: Arguments) -> None:
    from flaremq.cli.mqadmin.text import exact_text

    stats = await admin.topic_stats(args.text("topic"))
    layout = "{:<32}  {:<4}  {:<20}  {:<20}    {}"
    echo(layout.format("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"))
    for queue, offset in stats.offset_table.items():
        updated = exact_text(offset.last_update_timestamp) if offset.last_update_timestamp > 0 else ""
        echo(layout.format(queue.broker_name, queue.queue_id, offset.min_offset, offset.max_offset, updated))
    echo(f"\nTopic Put TPS: {stats.topic_put_tps}")


async def topic_cluster_list(admin: AdminTool, args: Arguments) -> None:
    route = await admin.topic_route(args.text("topic"))
    for cluster in sorted({broker.cluster for broker in route.broker_datas}):
        echo(cluster)


async def update_topic(admin: AdminTool, args: Arguments) -> None:
    from flaremq.cli.mqadmin.text import topic_config_text
    from flaremq.message.topics import validate_topic
    from flaremq.protocol.bodies.topic import TopicConfig

    flags = _UNIT_FLAG * args.truth("unit") | _UNIT_SUBSCRIPTION_FLAG * args.truth("hasUnitSub")
    config = TopicConfig(
        topic_name=args.text("topic"),
        read_queue_nums=args.integer("readQueueNums", 8),
        write_queue_nums=args.integer("writeQueueNums", 8),
        perm=args.integer("perm", 6),
        topic_sys_flag=flags,
        order=args.truth("order"),
    )
    validate_topic(config.topic_name)
    if min(config.read_queue_nums, config.write_queue_nums) < 1:
        args.refuse("A topic needs at least one queue to read and one to write.")
    changes = args.maybe("attributes") or ""
    masters = await args.masters(admin)
    if args.maybe("brokerAddr") is not None and config.order:
        await _set_order(admin, config, masters, "broker")
    for address in masters.values():
        await admin.update_topic_at(address, config, changes)
        echo(f"create topic to {address} success.")
    if args.maybe("brokerAddr") is None and config.order:
        await _set_order(admin, config, masters, "cluster")
    echo(topic_config_text(config, _attribute_changes(changes)))


def _attribute_changes(text: str) -> dict[str, str]:
    """``+a=b,-c`` with the signs kept, as the tool shows them."""
    return {part.partition("=")[0].strip(): part.partition("=")[2].strip() for part in text.split(",") if part.strip()}


async def _set_order(admin: AdminTool, config: TopicConfig, masters: dict[str, str], kind: str) -> None:
    """Let the name servers keep how many queues each broker has, besides what they keep of other brokers."""
    names = {
        address: name
        for name, broker in (await admin.cluster_info()).broker_addr_table.items()
        for address in broker.broker_addrs.values()
    }
    known = await admin.get_kv_config(_ORDER_NAMESPACE, config.topic_name) if kind == "broker" else None
    counts = dict(part.rpartition(":")[::2] for part in (known or "").split(";") if ":" in part)
    counts |= {names.get(address, name): str(config.write_queue_nums) for name, address in masters.items()}
    text = ";".join(f"{name}:{count}" for name, count in sorted(counts.items()))
    await admin.put_kv_config(_ORDER_NAMESPACE, config.topic_name, text)
    echo(f"set {kind} orderConf. isOrder=true, orderConf=[{text}]")


async def update_topic_list(admin: AdminTool, args: Arguments) -> None:
    from flaremq.cli.mqadmin.export import read_json_list
    from flaremq.protocol.bodies.topic import TopicConfig

    configs = [TopicConfig.from_value(item) for item in read_json_list(args.text("filename"))]
    masters = await args.masters(admin)
    for address in masters.values():
        for config in configs:
            changes = ",".join(f"{name}={value}" for name, value in config.attributes.items())
            await admin.update_topic_at(address, config, changes)
        echo(f"submit batch of topic config to {address} success, please check the result later.")


async def update_topic_perm(admin: AdminTool, args: Arguments) -> None:
    import dataclasses

    from flaremq.cli.mqadmin.text import topic_config_text

    topic, perm = args.text("topic"), args.integer("perm")
    if perm not in (2, 4, 6):
        args.refuse(f"--perm takes 2, 4 or 6, not {perm}.")
    masters = await args.masters(admin)
    for address in masters.values():
        known = await admin.topic_config(topic, address)
        config = dataclasses.replace(known, perm=perm)
        await admin.update_topic_at(address, config)
        echo(f"update topic perm from {known.perm} to {perm} in {address} success.")
        if args.maybe("brokerAddr") is not None:
            echo(f"{topic_config_text(config, config.attributes)}.")


async def delete_topic(admin: AdminTool, args: Arguments) -> None:
    topic, cluster = args.text("topic"), args.text("clusterName")
    await admin.delete_topic(topic, cluster=cluster)
    echo(f"delete topic [{topic}] from cluster [{cluster}] success.")
    echo(f"delete topic [{topic}] from NameServer success.")


async def update_order_conf(admin: AdminTool, args: Arguments) -> None:
    from flaremq.errors import NotFoundError

    topic, method = args.text("topic"), args.text("method")
    if method == "put":
        text = args.maybe("orderConf")
        if not text:
            args.refuse("--method put needs --orderConf, as in broker-a:4.")
        await admin.put_kv_config(_ORDER_NAMESPACE, topic, text)
        echo(f"update orderConf success. topic=[{topic}], orderConf=[{text}]")
    elif method == "get":
        value = await admin.get_kv_config(_ORDER_NAMESPACE, topic)
        if value is None:
            raise NotFoundError(f"topic {topic!r} has no order configuration")
        echo(f"get orderConf success. topic=[{topic}], orderConf=[{value}] ")
    elif method == "delete":
        await admin.delete_kv_config(_ORDER_NAMESPACE, topic)
        echo(f"delete orderConf success. topic=[{topic}]")
    else:
        args.refuse(f"--method takes put, get or delete, not {method!r}.")


async def allocate_mq(admin: AdminTool, args: Arguments) -> None:
    from flaremq.java_json import write_java_json
    from flaremq.protocol.queue_allocation import average

    clients = sorted(part.strip() for part in args.text("ipList").split(",") if part.strip())
    queues = await admin.queues(args.text("topic"))
    shares = {
        client: [
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
            for queue in average(client, clients, queues)
        ]
        for client in clients
    }
    echo(write_java_json({"result": shares}).decode())
