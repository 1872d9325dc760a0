"""Clients in RocketMQ's own spelling: connections and running info."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.versions import version_text
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import compact_text, java_text
from flaremq.cli.output import echo
from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.client import ConsumerConnection
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.running import ConsumerRunningInfo


async def _consumers(admin: AdminTool, args: Arguments) -> ConsumerConnection:
    group, address = args.text("consumerGroup"), args.maybe("brokerAddr")
    return await (admin.group_connections(group) if address is None else admin.connections_at(address, group))


async def consumer_connection(admin: AdminTool, args: Arguments) -> None:
    found = await _consumers(admin, args)
    layout = "{:<36} {:<22} {:<10} {}"
    echo(layout.format("#ClientId", "#ClientAddr", "#Language", "#Version"))
    for client in sorted(found.connection_set, key=lambda client: client.client_id):
        echo(layout.format(client.client_id, client.client_addr, client.language, version_text(client.version)))
    echo("\nBelow is subscription:")
    echo(f"{'#Topic':<20} #SubExpression")
    for topic, data in sorted(found.subscription_table.items()):
        echo(f"{topic:<20} {data.sub_string}")
    echo(f"\nConsumeType: {found.consume_type}")
    echo(f"MessageModel: {found.message_model}")
    echo(f"ConsumeFromWhere: {found.consume_from_where}")


async def producer_connection(admin: AdminTool, args: Arguments) -> None:
    found = await admin.producer_connections(args.text("producerGroup"), args.text("topic"))
    for number, client in enumerate(sorted(found.connection_set, key=lambda client: client.client_id), 1):
        version = version_text(client.version)
        echo(f"{number:04d}  {client.client_id:<32} {client.client_addr:<22} {client.language:<8} {version}")


async def producer(admin: AdminTool, args: Arguments) -> None:
    for group, clients in sorted((await admin.all_producers(args.text("broker"))).items()):
        for client in clients:
            echo(
                f"producer group ({group}) instance : clientId={client.client_id},remoteIP={client.remote_ip}, "
                f"language={client.language}, version={client.version}, "
                f"lastUpdateTimestamp={client.last_update_timestamp}"
            )


async def consumer_status(admin: AdminTool, args: Arguments) -> None:
    group, stacks = args.text("consumerGroup"), args.truth("jstack")
    if (client_id := args.maybe("clientId")) is not None:
        info = await admin.consumer_running_info(group, client_id, stacks=stacks)
        echo("\n".join(running_info_lines(info, client_id)))
        return
    import os
    import time

    layout = "{:<10} {:<40} {:<20} {}"
    echo(layout.format("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"))
    folder = str(int(time.time() * 1000))
    infos: dict[str, ConsumerRunningInfo] = {}
    connections = sorted((await _consumers(admin, args)).connection_set, key=lambda client: client.client_id)
    for number, client in enumerate(connections, 1):
        try:
            info = await admin.consumer_running_info(group, client.client_id, stacks=stacks)
        except FlareMQError as error:
            echo(layout.format(number, client.client_id, version_text(client.version), error))
            continue
        infos[client.client_id] = info
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, client.client_id.replace(os.sep, "_"))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(running_info_lines(info, client.client_id)) + "\n")
        echo(layout.format(number, client.client_id, version_text(client.version), path))
    echo("\n")
    _judge(infos)


def _judge(infos: dict[str, ConsumerRunningInfo]) -> None:
    """Two things that go wrong in practice: consumers of one group that want different things, or the same queue."""
    wishes = {
        frozenset((data.topic, data.sub_string, data.expression_type) for data in info.subscription_set)
        for info in infos.values()
    }
    if len(wishes) > 1:
        echo("WARN: Different subscription in the same group of consumer")
    else:
        echo("Same subscription in the same group of consumer")
    owners: dict[MessageQueue, list[str]] = {}
    for client_id, info in infos.items():
        for queue in info.mq_table:
            owners.setdefault(queue, []).append(client_id)
    shared = {queue: clients for queue, clients in owners.items() if len(clients) > 1}
    echo()
    for queue, clients in sorted(shared.items()):
        echo(f"{queue.topic} {queue.broker_name} {queue.queue_id} is consumed by {', '.join(clients)}")
    echo("Rebalance OK" if not shared else "WARN: Rebalance not done")


def running_info_lines(info: ConsumerRunningInfo, client_id: str) -> Iterator[str]:
    """The running info of one consumer, section by section."""
    yield "#Consumer Properties#"
    for name, value in info.properties.items():
        yield f"{name:<40}: {value}"
    yield from ("", "", "#Consumer Subscription#")
    for number, data in enumerate(sorted(info.subscription_set, key=lambda data: data.topic), 1):
        filtered = "true" if data.class_filter_mode else "false"
        yield f"{number:03d} Topic: {data.topic:<40} ClassFilter: {filtered:<8} SubExpression: {data.sub_string}"
    yield from ("", "", "#Consumer Offset#")
    queue_header = f"{'#Topic':<64}  {'#Broker Name':<32}  {'#QID':<4}  "
    yield f"{queue_header}{'#Consumer Offset':<20}"
    queues = sorted(info.mq_table.items())
    for queue, state in queues:
        yield f"{queue.topic:<32}  {queue.broker_name:<32}  {queue.queue_id:<4}  {state.commit_offset:<20}"
    yield from ("", "", "#Consumer MQ Detail#")
    yield f"{queue_header}{'#ProcessQueueInfo':<20}"
    for queue, state in queues:
        text = _process_queue_text(state.to_value())
        yield f"{queue.topic:<64}  {queue.broker_name:<32}  {queue.queue_id:<4}  {text:<20}"
    yield from ("", "", "#Consumer RT&TPS#")
    yield (
        f"{'#Topic':<64}  {'#Pull RT':>14} {'#Pull TPS':>14} {'#Consume RT':>14} {'#ConsumeOK TPS':>14} "
        f"{'#ConsumeFailed TPS':>18} {'#ConsumeFailedMsgsInHour':>25}"
    )
    for topic, rates in sorted(info.status_table.items()):
        yield (
            f"{topic:<64}  {rates.pull_rt:>14.2f} {rates.pull_tps:>14.2f} {rates.consume_rt:>14.2f} "
            f"{rates.consume_ok_tps:>14.2f} {rates.consume_failed_tps:>18.2f} {rates.consume_failed_msgs:>25}"
        )
    if info.jstack:
        yield from ("", "", f"#Consumer jstack# {client_id}", info.jstack)


def _process_queue_text(values: dict[str, Any]) -> str:
    shown = (
        f"{name}={compact_text(value) if name.endswith('Timestamp') else java_text(value)}"
        for name, value in values.items()
    )
    return f"ProcessQueueInfo [{', '.join(shown)}]"
