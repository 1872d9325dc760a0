"""Requests, messages and queues of requests, for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flaremq.broker.metrics import catalogue as told
from flaremq.protocol.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from flaremq.broker.parts import BrokerState
    from flaremq.broker.statistics.latencies import RequestLatencies
    from flaremq.metrics.samples import Samples
    from flaremq.remoting.handlers import HandlerTable

_SYSTEM_GROUPS: Final = ("SCHEDULE_CONSUMER",)
# RocketMQ's thread pools -> lanes here; what has no lane of its own never waits.
_PROCESSORS: Final = {
    "send": "send",
    "async_put": "",
    "pull": "pull",
    "lite_pull": "lite_pull",
    "ack": "ack",
    "query_message": "query",
    "client_manager": "client",
    "heartbeat": "heartbeat",
    "consumer_manager": "",
    "transaction": "end_transaction",
    "admin": "admin",
    "reply": "reply",
}
_REQUEST_NAMES: Final = {int(code): code.name.lower() for code in RequestCode} | {-1: "other"}
_RESPONSE_NAMES: Final = {int(code): code.name.lower() for code in ResponseCode}
# Answers that refuse nothing: a pull that finds nothing, a message that is stored if less durably than asked.
_NO_REFUSAL: Final = frozenset(
    int(code)
    for code in (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.POLLING_FULL,
        ResponseCode.POLLING_TIMEOUT,
    )
)


async def tell_requests(
    state: BrokerState, table: HandlerTable, latencies: RequestLatencies, refused: int, samples: Samples
) -> None:
    """``refused``: connections that were not let in."""
    for processor, lane in _PROCESSORS.items():
        samples.add(told.PROCESSOR_WATERMARK, table.lanes[lane].waiting if lane else 0, processor)
    samples.add(told.BROKER_PERMISSION, state.options.broker_permission)
    samples.add(told.TOPIC_NUMBER, len(state.topics))
    samples.add(told.GROUP_NUMBER, len(state.groups))
    await samples.add_table(
        latencies.table,
        lambda key: ("true" if key[2] else "false", "remoting", request_name(key[0]), response_name(key[1]), key[3]),
        {told.RPC_LATENCY: lambda histogram: histogram},
    )
    for code, count in sorted(latencies.by_response().items()):
        if code not in _NO_REFUSAL:
            samples.add(told.REFUSED_REQUESTS, count, response_name(code))
    samples.add(told.REFUSED_REQUESTS, refused, "connection")
    await _tell_messages(state, samples)


async def _tell_messages(state: BrokerState, samples: Samples) -> None:
    traffic, is_system = state.statistics.traffic, state.topics.is_system
    await samples.add_table(
        traffic.incoming,
        lambda key: ("true" if is_system(key[0]) else "false", key[1], key[0]),
        {
            told.MESSAGES_IN: lambda flow: flow.messages,
            told.THROUGHPUT_IN: lambda flow: flow.bytes,
            told.MESSAGE_SIZE: lambda flow: flow.sizes,
        },
    )

    def of_pair(topic: str, group: str) -> str:
        return "true" if is_system(topic) or is_system_group(group) else "false"

    await samples.add_table(
        traffic.outgoing,
        lambda key: (key[1], key[2], of_pair(key[0], key[1]), key[0]),
        {told.MESSAGES_OUT: lambda flow: flow.messages, told.THROUGHPUT_OUT: lambda flow: flow.bytes},
    )
    await samples.add_table(
        traffic.dead_letters,
        lambda key: (key[0], of_pair(key[1], key[0]), key[1]),
        {told.SEND_TO_DLQ: lambda count: count.value},
    )
    samples.add(told.REQUESTS, traffic.compiled_sends, "compiled")
    samples.add(told.REQUESTS, traffic.plain_sends, "plain")


def is_system_group(group: str) -> bool:
    """RocketMQ's rule for the label, and the group under which delay levels read."""
    return group.lower().startswith("cid_rmq_sys_") or group in _SYSTEM_GROUPS


def request_name(code: int) -> str:
    return _REQUEST_NAMES.get(code, str(code))


def response_name(code: int) -> str:
    return _RESPONSE_NAMES.get(code, str(code))
