"""The remoting requests that calls become, and what is read from their replies."""

from __future__ import annotations

from collections.abc import Mapping

from flaremq.errors import FlareMQError
from flaremq.grpc.backends.backend import SendOutcome
from flaremq.grpc.rules.outgoing import Outgoing
from flaremq.grpc.rules.receipts import Receipt
from flaremq.message.message_id import decode_message_id
from flaremq.message.topics import AUTO_CREATE_TOPIC
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import ExtValue, RemotingCommand


def send_request(broker: str, queue_id: int, message: Outgoing) -> RemotingCommand:
    """SEND_MESSAGE_V2. The producer group of a gRPC client has the name of its topic."""
    ext: dict[str, ExtValue] = {
        "a": message.topic,
        "b": message.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": "4",
        "e": str(queue_id),
        "f": str(message.sys_flag),
        "g": str(message.born_ms),
        "h": "0",
        "i": message.properties_text,
        "j": "0",
        "k": "false",
        "m": "false",
        "n": broker,
    }
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, message.body)


def send_outcome(reply: RemotingCommand) -> SendOutcome:
    """What the reply to a send says."""
    ext = reply.ext or {}
    try:
        physical = decode_message_id(str(ext["msgId"]))[1] if ext.get("msgId") else -1
        offset = int(ext.get("queueOffset") or 0)
    except (FlareMQError, ValueError):
        physical = offset = -1
    return SendOutcome(
        code=reply.code,
        remark=reply.remark,
        queue_offset=offset,
        physical_offset=physical,
        recall_handle=str(ext.get("recallHandle") or ""),
    )


def pop_request(
    broker: str,
    *,
    group: str,
    topic: str,
    count: int,
    invisible_ms: int,
    poll_ms: int,
    now_ms: int,
    expression_type: str,
    expression: str,
    is_ordered: bool,
    attempt_id: str,
) -> RemotingCommand:
    """POP_MESSAGE from any queue of the broker. A group without progress begins at the end, as with the original."""
    ext: dict[str, ExtValue] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "-1",
        "maxMsgNums": str(count),
        "invisibleTime": str(invisible_ms),
        "pollTime": str(poll_ms),
        "bornTime": str(now_ms),
        "initMode": "1",
        "expType": expression_type,
        "exp": expression,
        "order": "true" if is_ordered else "false",
        "bname": broker,
    }
    if attempt_id:
        ext["attemptId"] = attempt_id
    return RemotingCommand.request(RequestCode.POP_MESSAGE, ext)


def ack_request(receipt: Receipt, topic: str, group: str) -> RemotingCommand:
    return RemotingCommand.request(RequestCode.ACK_MESSAGE, _settle_fields(receipt, topic, group))


def change_request(receipt: Receipt, topic: str, group: str, invisible_ms: int, *, suspend: bool) -> RemotingCommand:
    """CHANGE_MESSAGE_INVISIBLETIME; ``suspend``: the delivery does not count as an attempt."""
    ext: dict[str, ExtValue] = {**_settle_fields(receipt, topic, group), "invisibleTime": str(invisible_ms)}
    if suspend:
        ext["suspend"] = "true"
    return RemotingCommand.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)


def _settle_fields(receipt: Receipt, topic: str, group: str) -> Mapping[str, ExtValue]:
    return {
        "consumerGroup": group,
        "topic": receipt.real_topic(topic, group),
        "queueId": str(receipt.queue_id),
        "extraInfo": receipt.extra_info,
        "offset": str(receipt.offset),
        "bname": receipt.broker,
    }


def dead_letter_request(receipt: Receipt, topic: str, group: str, message_id: str) -> RemotingCommand:
    """CONSUMER_SEND_MSG_BACK that gives a message up."""
    ext: dict[str, ExtValue] = {
        "offset": str(receipt.physical_offset),
        "group": group,
        "delayLevel": "-1",
        "originMsgId": message_id,
        "originTopic": receipt.real_topic(topic, group),
        "unitMode": "false",
        "maxReconsumeTimes": "0",
        "bname": receipt.broker,
    }
    return RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, ext)


def end_transaction_request(
    broker: str,
    *,
    topic: str,
    message_id: str,
    transaction_id: str,
    queue_offset: int,
    physical_offset: int,
    outcome: int,
    is_answer: bool,
) -> RemotingCommand:
    ext: dict[str, ExtValue] = {
        "topic": topic,
        "producerGroup": topic,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(physical_offset),
        "commitOrRollback": str(outcome),
        "fromTransactionCheck": "true" if is_answer else "false",
        "msgId": message_id,
        "transactionId": transaction_id,
        "bname": broker,
    }
    return RemotingCommand.request(RequestCode.END_TRANSACTION, ext)


def recall_request(broker: str, topic: str, handle: str) -> RemotingCommand:
    ext = {"producerGroup": topic, "topic": topic, "recallHandle": handle, "bname": broker}
    return RemotingCommand.request(RequestCode.RECALL_MESSAGE, ext)
