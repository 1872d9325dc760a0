"""Names of topics without the client, whose import takes longer than the question: for lists and completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool


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
        return _read_by_client(name_servers, cluster)
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


def _read_by_client(name_servers: str, cluster: str | None) -> tuple[list[str], set[str]]:
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
        topics, own_names = read_topics(context.params.get("name_servers") or _default_name_server(context))
    except Exception:  # completion stays silent; the command reports the error
        return []
    wanted = (name for name in topics if name.startswith(incomplete))
    return [name for name in wanted if incomplete or kind_of(name, own_names) == "user"]


def _default_name_server(context: click.Context) -> str:
    for parameter in context.command.params:
        if parameter.name == "name_servers":
            return str(parameter.value_from_envvar(context) or parameter.get_default(context))
    return ""
