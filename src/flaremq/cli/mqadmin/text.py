"""Values as RocketMQ's tools write them: Java's ``toString`` of settings, queues and messages, and indented JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.producer.send_result import SendResult
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.topic import TopicConfig


def java_text(value: object) -> str:
    """A value inside of another one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return java_map(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(java_text(item) for item in value)}]"
    return str(value)


def java_map(values: Mapping[Any, Any]) -> str:
    return "{" + ", ".join(f"{name}={java_text(value)}" for name, value in values.items()) + "}"


def _fields(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={java_text(value)}" for name, value in values.items())


def perm_text(perm: int) -> str:
    """``RW-`` for 6."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))


def topic_config_text(config: TopicConfig, attributes: Mapping[str, str]) -> str:
    values = {
        "topicName": config.topic_name,
        "readQueueNums": config.read_queue_nums,
        "writeQueueNums": config.write_queue_nums,
        "perm": perm_text(config.perm),
        "topicFilterType": config.topic_filter_type,
        "topicSysFlag": config.topic_sys_flag,
        "order": config.order,
        "attributes": attributes,
    }
    return f"TopicConfig [{_fields(values)}]"


def group_config_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """The settings of a group in the order the tools print them."""
    return {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "groupRetryPolicy": _retry_policy_text(config.group_retry_policy),
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "subscriptionDataSet": config.subscription_data_set,
        "attributes": config.attributes,
    }


def group_config_text(config: SubscriptionGroupConfig) -> str:
    return f"SubscriptionGroupConfig{{{_fields(group_config_fields(config))}}}"


def _retry_policy_text(policy: Mapping[str, Any]) -> str:
    exponential, customized = policy.get("exponentialRetryPolicy"), policy.get("customizedRetryPolicy")
    parts = {
        "type": policy.get("type", "CUSTOMIZED"),
        "exponentialRetryPolicy": _policy_part("ExponentialRetryPolicy", exponential, ("initial", "max", "multiplier")),
        "customizedRetryPolicy": _policy_part("CustomizedRetryPolicy", customized, ("next",)),
    }
    return f"GroupRetryPolicy{{{_fields(parts)}}}"


def _policy_part(name: str, values: Any, fields: tuple[str, ...]) -> str | None:
    if not isinstance(values, Mapping):
        return None
    return f"{name}{{{_fields({field: values.get(field) for field in fields})}}}"


def queue_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def send_result_text(result: SendResult) -> str:
    values = {
        "sendStatus": result.status.value,
        "msgId": result.message_id,
        "offsetMsgId": result.offset_message_id,
        "messageQueue": queue_text(result.queue),
        "queueOffset": result.queue_offset,
        "recallHandle": result.recall_handle,
    }
    return f"SendResult [{_fields(values)}]"


def message_text(message: ReceivedMessage) -> str:
    """A message with its body as signed bytes."""
    values = {
        "brokerName": message.queue.broker_name,
        "queueId": message.queue_id,
        "storeSize": message.size,
        "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": f"/{message.born_host}",
        "storeTimestamp": message.store_timestamp,
        "storeHost": f"/{message.store_host}",
        "msgId": message.offset_message_id,
        "commitLogOffset": message.physical_offset,
        "bodyCRC": message.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    inner = f"topic='{message.topic}', flag={message.flag}, properties={java_map(message.properties)}, body=[{body}]"
    return f"MessageExt [{_fields(values)}, toString()=Message{{{inner}, transactionId='null'}}]"


def body_text(body: bytes, charset: str = "UTF-8") -> str:
    """A body read as text, whatever is in it; ``LookupError`` for an unknown charset."""
    return body.decode(charset, "replace")


def sorted_deep(value: Any) -> Any:
    """A JSON value with the names of its objects in order, as Java's beans have them."""
    if isinstance(value, Mapping):
        return {name: sorted_deep(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [sorted_deep(item) for item in value]
    return value


def indented_json(value: Any, depth: int = 0) -> str:
    """JSON as fastjson indents it: tabs, nothing after a colon, bare numbers as names."""
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        return f"{{{inner}{(',' + inner).join(_indented_members(value, depth))}{outer}}}"
    if isinstance(value, (list, tuple)):
        return f"[{inner}{(',' + inner).join(indented_json(item, depth + 1) for item in value)}{outer}]"
    return orjson.dumps(value).decode()


def _indented_members(value: Mapping[Any, Any], depth: int) -> Iterable[str]:
    for name, item in value.items():
        yield f"{name if isinstance(name, int) else orjson.dumps(name).decode()}:{indented_json(item, depth + 1)}"


def exact_text(milliseconds: int) -> str:
    """``2026-11-16 09:30:00,123`` in local time."""
    return _local(milliseconds, "%Y-%m-%d %H:%M:%S,")


def compact_text(milliseconds: int) -> str:
    """``20261116093000123`` in local time."""
    return _local(milliseconds, "%Y%m%d%H%M%S")


def _local(milliseconds: int, layout: str) -> str:
    when = time.localtime(milliseconds // 1000)  # of any year, unlike datetime: senders may claim any time
    return f"{time.strftime(layout, when)}{milliseconds % 1000:03d}"
