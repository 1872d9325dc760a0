"""Controllers in RocketMQ's own spelling."""

from __future__ import annotations

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.output import echo
from flaremq.errors import NotFoundError
from flaremq.protocol.bodies.controller import OPEN_END, EpochEntryCache, ReplicaIdentity, ReplicasInfo


async def get_sync_state_set(admin: AdminTool, args: Arguments) -> None:
    async def show() -> None:
        names = await _broker_names(admin, args)
        found = await admin.sync_state(args.text("controllerAddress"), names)
        if not found and args.maybe("brokerName") is not None:
            raise NotFoundError(f"the controller knows no broker {names[0]!r}")
        for name, info in found.items():
            _show_set(name, info)

    await args.repeat(show)


def _show_set(name: str, info: ReplicasInfo) -> None:
    echo(f"\n#brokerName\t{name}\n#MasterBrokerId\t{_java(info.master_broker_id)}")
    echo(f"#MasterAddr\t{_java(info.master_address)}\n#MasterEpoch\t{info.master_epoch}")
    echo(f"#SyncStateSetEpoch\t{info.sync_state_set_epoch}\n#SyncStateSetNums\t{len(info.in_sync_replicas)}")
    for replica in info.in_sync_replicas:
        echo(f"\nInSyncReplica:\t{_identity(replica)}")
    for replica in info.not_in_sync_replicas:
        echo(f"\nNotInSyncReplica:\t{_identity(replica)}")


def _identity(replica: ReplicaIdentity) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{replica.broker_name}', brokerId={replica.broker_id}, "
        f"brokerAddress='{replica.broker_address}', alive={'true' if replica.alive else 'false'}}}"
    )


async def get_broker_epoch(admin: AdminTool, args: Arguments) -> None:
    async def show() -> None:
        names = await _broker_names(admin, args)
        table = (await admin.cluster_info()).broker_addr_table
        for name in names:
            if name not in table:
                raise NotFoundError(f"broker {name!r} does not exist")
            for _, address in sorted(table[name].broker_addrs.items()):
                _show_epochs(address, await admin.broker_epochs(address))

    await args.repeat(show)


def _show_epochs(address: str, cache: EpochEntryCache) -> None:
    echo(f"\n#clusterName\t{cache.cluster_name}\n#brokerName\t{cache.broker_name}")
    echo(f"#brokerAddr\t{address}\n#brokerId\t{cache.broker_id}")
    for entry in cache.epoch_list:
        end = cache.max_offset if entry.end_offset == OPEN_END else entry.end_offset
        echo(f"#Epoch: EpochEntry{{epoch={entry.epoch}, startOffset={entry.start_offset}, endOffset={end}}}")


async def get_metadata(admin: AdminTool, args: Arguments) -> None:
    found = await admin.controller_metadata(args.text("controllerAddress"))
    echo(f"\n#ControllerGroup\t{_java(found.group)}\n#ControllerLeaderId\t{_java(found.controller_leader_id)}")
    echo(f"#ControllerLeaderAddress\t{_java(found.controller_leader_address)}")
    for peer in filter(None, (found.peers or "").split(";")):
        echo(f"#Peer:\t{peer}")


async def get_config(admin: AdminTool, args: Arguments) -> None:
    for address in _controllers(args):
        echo(f"============{address}============")
        for name, value in (await admin.controller_config(address)).items():
            echo(f"{name:<50}=  {value}")


async def update_config(admin: AdminTool, args: Arguments) -> None:
    name, value = args.text("key"), args.text("value")
    addresses = _controllers(args)
    await admin.set_controller_config({name: value}, addresses)
    echo(f"update controller config success![{';'.join(addresses)}]")
    echo(f"{name} : {value}")


async def elect_master(admin: AdminTool, args: Arguments) -> None:
    cluster, name = args.text("clusterName"), args.text("brokerName")
    controller, broker_id = args.text("controllerAddress"), args.integer("brokerId")
    header, _ = await admin.elect_master(controller, cluster, name, broker_id)
    echo(f"\n#ClusterName\t{cluster}\n#BrokerName\t{name}\n#BrokerMasterAddr\t{_java(header.master_address)}")
    echo(f"#MasterEpoch\t{_java(header.master_epoch)}\n#SyncStateSetEpoch\t{_java(header.sync_state_set_epoch)}")


async def clean_broker_metadata(admin: AdminTool, args: Arguments) -> None:
    name, cluster = args.text("brokerName"), args.maybe("clusterName")
    living, ids = args.truth("cleanLivingBroker"), args.maybe("brokerControllerIdsToClean")
    if not living and not cluster:
        args.refuse("Give -c clusterName, or -l to clean brokers that are alive, too.")
    try:
        broker_ids = [int(part) for part in (ids or "").split(";") if part.strip()]
    except ValueError:
        args.refuse(f"-b takes ids separated by semicolons, as in 1;2;3, not {ids!r}.")
    controller = args.text("controllerAddress")
    await admin.clean_broker_metadata(controller, name, cluster=cluster, broker_ids=broker_ids, living=living)
    echo(f"clear broker {name} metadata from controller success! ")


async def reset_master_flush_offset(admin: AdminTool, args: Arguments) -> None:
    offset = args.integer("offset")
    await admin.reset_master_flush_offset(args.text("brokerAddr"), offset)
    echo(f"reset master flush offset to {offset} success")


async def _broker_names(admin: AdminTool, args: Arguments) -> list[str]:
    """The names that ``--brokerName`` or ``--clusterName`` chooses."""
    name, cluster = args.maybe("brokerName"), args.maybe("clusterName")
    if name is not None:
        return [name]
    if cluster is None:
        args.refuse("Give -b brokerName or -c clusterName.")
    clusters = (await admin.cluster_info()).cluster_addr_table
    if cluster not in clusters:
        raise NotFoundError(f"cluster {cluster!r} does not exist; there is: {', '.join(sorted(clusters)) or 'none'}")
    return sorted(clusters[cluster])


def _controllers(args: Arguments) -> list[str]:
    from flaremq.remoting.address import parse_addresses

    return parse_addresses(args.text("controllerAddress"))


def _java(value: object) -> str:
    return "null" if value is None else str(value)
