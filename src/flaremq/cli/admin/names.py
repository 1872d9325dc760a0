"""Names of topics and groups, for lists and completion; past the client, which takes longer to load than to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_OWN_GROUPS = frozenset(
    (
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_ONS-HTTP-PROXY",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "TOOLS_CONSUMER",
    )
)


def read_topics(name_servers: str, cluster: str | None = None) -> tuple[list[str], set[str]]:
    """Names of all topics, and those that are made for clusters and brokers. Past the client, for speed."""
    from flaremq.cli.admin.credentials import client_options
    from flaremq.cli.admin.name_server import NameServer
    from flaremq.client.options import ClientOptions
    from flaremq.errors import NotFoundError
    from flaremq.protocol.bodies.route import ClusterInfo
    from flaremq.protocol.bodies.topic import TopicList
    from flaremq.protocol.codes import RequestCode

    options = client_options(ClientOptions)
    if options.use_tls:
        return _topics_by_client(name_servers, cluster)
    with NameServer(name_servers, options.credentials()) as server:
        info = ClusterInfo.from_json(server.ask(RequestCode.GET_BROKER_CLUSTER_INFO, what="the list of clusters"))
        clusters = info.cluster_addr_table
        if cluster is None:
            body = server.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, what="the list of topics")
        elif cluster in clusters:
            body = server.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster}, what="the list of topics")
        else:
            known = ", ".join(sorted(clusters)) or "none"
            raise NotFoundError(f"cluster {cluster!r} does not exist; there is: {known}")
    topics = sorted(TopicList.from_json(body).topic_list) if body else []
    return topics, {*clusters, *info.broker_addr_table}


def _topics_by_client(name_servers: str, cluster: str | None) -> tuple[list[str], set[str]]:
    """The slow way, where connections are encrypted."""
    from flaremq.cli.admin.administration import administer

    async def work(admin: AdminTool) -> tuple[list[str], set[str]]:
        info = await admin.cluster_info()
        await admin.masters(cluster=cluster)  # refuses a cluster that does not exist
        return await admin.list_topics(cluster=cluster), {*info.cluster_addr_table, *info.broker_addr_table}

    return administer(name_servers, work)


def kind_of(name: str, own_names: set[str]) -> str:
    """What a topic is for, by its name."""
    from flaremq.message.topics import REPLY_SUFFIX, is_dlq_topic, is_retry_topic, is_system_topic

    if is_retry_topic(name):
        return "retry"
    if is_dlq_topic(name):
        return "dlq"
    is_own = name in own_names or name.removesuffix(REPLY_SUFFIX) in own_names
    return "system" if is_own or is_system_topic(name) or name.lower().startswith("rmq_sys_") else "user"


def complete_topic(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics that begin so. Nothing at all where no name server answers: a shell waits for us."""
    try:
        topics, own_names = read_topics(context.params.get("name_servers") or default_name_server(context))
    except Exception:  # completion stays silent; the command reports the error
        return []
    wanted = (name for name in topics if name.startswith(incomplete))
    return [name for name in wanted if incomplete or kind_of(name, own_names) == "user"]


def is_own_group(name: str) -> bool:
    """Whether every broker of RocketMQ has this group from the start."""
    return name in _OWN_GROUPS or name.startswith("CID_RMQ_SYS_")


def read_groups(name_servers: str) -> list[str]:
    """Names of all groups that the masters of all clusters know."""
    from flaremq.cli.admin.credentials import client_options
    from flaremq.cli.admin.name_server import NameServer
    from flaremq.client.options import ClientOptions
    from flaremq.protocol.bodies.group import SubscriptionGroupWrapper
    from flaremq.protocol.bodies.route import ClusterInfo
    from flaremq.protocol.codes import RequestCode

    options = client_options(ClientOptions)
    if options.use_tls:
        return _groups_by_client(name_servers)
    credentials = options.credentials()
    with NameServer(name_servers, credentials) as server:
        info = ClusterInfo.from_json(server.ask(RequestCode.GET_BROKER_CLUSTER_INFO, what="the list of clusters"))
    groups: set[str] = set()
    for data in info.broker_addr_table.values():
        if 0 in data.broker_addrs:
            with NameServer(data.broker_addrs[0], credentials) as broker:
                body = broker.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, what="the list of groups")
            groups |= SubscriptionGroupWrapper.from_json(body).subscription_group_table.keys()
    return sorted(groups)


def _groups_by_client(name_servers: str) -> list[str]:
    """The slow way, where connections are encrypted."""
    from flaremq.cli.admin.administration import administer

    async def work(admin: AdminTool) -> list[str]:
        return await admin.list_groups()

    return administer(name_servers, work)


def complete_group(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of groups that begin so. Nothing at all where nobody answers: a shell waits for us."""
    try:
        groups = read_groups(context.params.get("name_servers") or default_name_server(context))
    except Exception:  # completion stays silent; the command reports the error
        return []
    return [name for name in groups if name.startswith(incomplete) and (incomplete or not is_own_group(name))]


def default_name_server(context: click.Context) -> str:
    """What a command would ask whose ``-n`` is not typed yet."""
    for parameter in context.command.params:
        if parameter.name == "name_servers":
            return str(parameter.value_from_envvar(context) or parameter.get_default(context))
    return ""
