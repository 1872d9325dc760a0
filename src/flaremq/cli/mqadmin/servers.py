"""Brokers and name servers in RocketMQ's own spelling."""

from __future__ import annotations

import time
from typing import Literal

from flaremq.cli import output as out
from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.cluster import broker_addresses
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import exact_text
from flaremq.cli.output import echo
from flaremq.errors import FlareMQError

_HOUR_MS = 3_600_000


async def cluster_list(admin: AdminTool, args: Arguments) -> None:
    async def show() -> None:
        brokers = await broker_addresses(admin, args.maybe("clusterName"))
        await (_show_totals(admin, brokers) if args.truth("moreStats") else _show_rates(admin, brokers))

    await args.repeat(show)


async def _status(admin: AdminTool, address: str) -> dict[str, str]:
    """Nothing of a broker that does not answer: the list goes on with the others."""
    try:
        return await admin.broker_status(address)
    except FlareMQError as error:
        out.note(f"flaremq: {address} does not answer: {error}")
        return {}


def _number(status: dict[str, str], name: str) -> float:
    """The first number of a value: rates have three, over growing times."""
    try:
        return float(status.get(name, "").split()[0])
    except (IndexError, ValueError):
        return 0.0


async def _show_rates(admin: AdminTool, brokers: list[tuple[str, str, int, str]]) -> None:
    layout = "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:>11}  {:<12}  {:<8}  {:>10}"
    loads = ("#InTPS(LOAD)", "#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED")
    echo(layout.format("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", *loads))
    for cluster, name, number, address in brokers:
        status = await _status(admin, address)

        def lane(kind: str, status: dict[str, str] = status) -> str:
            size = status.get(f"{kind}ThreadPoolQueueSize", "0")
            return f"{size},{status.get(f'{kind}ThreadPoolQueueHeadWaitTimeMills', '0')}ms"

        out_rate = _number(status, "getTransferredTps") or _number(status, "getTransferedTps")
        earliest = _number(status, "earliestMessageTimeStamp")
        timer = (
            f"{status.get('timerReadBehind', '0')}-{status.get('timerOffsetBehind', '0')}"
            f"({_number(status, 'timerCongestNum') / 10_000:.1f}w, {_number(status, 'timerEnqueueTps'):.1f}, "
            f"{_number(status, 'timerDequeueTps'):.1f})"
        )
        echo(
            layout.format(
                cluster,
                name,
                number,
                address,
                status.get("brokerVersionDesc", ""),
                f"{_number(status, 'putTps'):9.2f}({lane('send')})",
                f"{out_rate:9.2f}({lane('pull')}|{lane('ack')})",
                timer,
                status.get("pageCacheLockTimeMills", "0"),
                f"{(time.time() * 1000 - earliest) / _HOUR_MS if earliest > 0 else 0:.2f}",
                f"{_number(status, 'commitLogDiskRatio'):.4f}",
                status.get("brokerActive", "false" if not status else "true"),
            )
        )


async def _show_totals(admin: AdminTool, brokers: list[tuple[str, str, int, str]]) -> None:
    layout = "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}"
    totals = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
    echo(layout.format("#Cluster Name", "#Broker Name", *totals))
    for cluster, name, _, address in brokers:
        status = await _status(admin, address)
        numbers = {
            kind + moment: int(_number(status, f"msg{kind}Total{moment}"))
            for kind in ("Put", "Get")
            for moment in ("YesterdayMorning", "TodayMorning", "TodayNow")
        }
        yesterday = [numbers[f"{kind}TodayMorning"] - numbers[f"{kind}YesterdayMorning"] for kind in ("Put", "Get")]
        today = [numbers[f"{kind}TodayNow"] - numbers[f"{kind}TodayMorning"] for kind in ("Put", "Get")]
        echo(layout.format(cluster, name, *yesterday, *today))


async def broker_status(admin: AdminTool, args: Arguments) -> None:
    address = args.maybe("brokerAddr")
    if address is not None:
        for name, value in (await admin.broker_status(address)).items():
            echo(f"{name:<32}: {value}")
        return
    for master in (await admin.masters(cluster=args.text("clusterName"))).values():
        for name, value in (await admin.broker_status(master)).items():
            echo(f"{master:<24} {name:<32}: {value}")


async def get_broker_config(admin: AdminTool, args: Arguments) -> None:
    address = args.maybe("brokerAddr")
    if address is not None:
        titles = {address: address}
    else:
        brokers = await broker_addresses(admin, args.text("clusterName"))
        titles = {address: f"{'Slave' if number else 'Master'}: {address}" for _, _, number, address in brokers}
    for broker, title in titles.items():
        echo(f"============{title}============")
        for name, value in (await admin.broker_config(broker)).items():
            echo(f"{name:<50}=  {value}")
        echo()


async def update_broker_config(admin: AdminTool, args: Arguments) -> None:
    values = {args.text("key"): args.text("value")}
    address = args.maybe("brokerAddr")
    if address is not None:
        addresses = [address]
    else:
        brokers = await broker_addresses(admin, args.text("clusterName"))
        with_slaves = args.truth("updateAllBroker")
        addresses = [address for _, _, number, address in brokers if number == 0 or with_slaves]
    for broker in addresses:
        await admin.set_broker_config(values, broker=broker)
        echo(f"update broker config success, {broker}")


async def ha_status(admin: AdminTool, args: Arguments) -> None:
    masters = await args.masters(admin)

    async def show() -> None:
        for address in masters.values():
            await _show_replicas(admin, address)

    await args.repeat(show)


async def _show_replicas(admin: AdminTool, address: str) -> None:
    info = await admin.ha_status(address)
    if not info.master:
        client = info.ha_client_runtime_info
        echo(f"\n#MasterAddr\t{client.master_addr}\n#CommitLogMaxOffset\t{client.max_offset}")
        echo(f"#TransferSpeed(KB/s)\t{client.transferred_byte_in_second / 1024:.2f}")
        moments = exact_text(client.last_read_timestamp), exact_text(client.last_write_timestamp)
        echo(f"#LastReadTime\t{moments[0]}\n#LastWriteTime\t{moments[1]}")
        echo(f"#MasterFlushOffset\t{client.master_flush_offset}")
        return
    echo(f"\n#MasterAddr\t{address}\n#MasterCommitLogMaxOffset\t{info.master_commit_log_max_offset}")
    echo(f"#SlaveNum\t{len(info.ha_connection_info)}\n#InSyncSlaveNum\t{info.in_sync_slave_nums}")
    layout = "{:<32}  {:<16} {:>16} {:>16} {:>16} {:>16}"
    speeds = ("#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
    echo(layout.format("#SlaveAddr", "#SlaveAckOffset", *speeds))
    for slave in info.ha_connection_info:
        state = "OK" if slave.in_sync else "Fall Behind"
        speed = f"{slave.transferred_byte_in_second / 1024:.2f}"
        echo(layout.format(slave.addr, slave.slave_ack_offset, slave.diff, speed, state, slave.transfer_from_where))


async def clean(admin: AdminTool, args: Arguments) -> None:
    orders = {
        "cleanExpiredCQ": admin.clean_expired_queues,
        "cleanUnusedTopic": admin.clean_unused_topics,
        "deleteExpiredCommitLog": admin.delete_expired_commit_log,
    }
    await orders[args.command](broker=args.maybe("brokerAddr"), cluster=args.maybe("cluster"))
    echo("success")


async def change_write_perm(admin: AdminTool, args: Arguments) -> None:
    name = args.text("brokerName")
    change: Literal["add", "wipe"] = "add" if args.command == "addWritePerm" else "wipe"
    for address, count in (await admin.change_write_permission(name, change)).items():
        echo(f"{change} write perm of broker[{name}] in name server[{address}] OK, {count}")


async def get_namesrv_config(admin: AdminTool, args: Arguments) -> None:
    for address, values in (await admin.name_server_config()).items():
        echo(f"============{address}============")
        for name, value in values.items():
            echo(f"{name:<50}=  {value}")


async def update_namesrv_config(admin: AdminTool, args: Arguments) -> None:
    name, value = args.text("key"), args.text("value")
    await admin.set_name_server_config({name: value})
    echo(f"update name server config success![{', '.join(admin.name_servers)}]")
    echo(f"{name} : {value}")


async def update_kv_config(admin: AdminTool, args: Arguments) -> None:
    await admin.put_kv_config(args.text("namespace"), args.text("key"), args.text("value"))
    echo("create or update kv config to namespace success.")


async def delete_kv_config(admin: AdminTool, args: Arguments) -> None:
    await admin.delete_kv_config(args.text("namespace"), args.text("key"))
    echo("delete kv config from namespace success.")
