"""Names of a sink's columns; and of properties that are RocketMQ's own: it sets some itself, nobody the others."""

from __future__ import annotations

from typing import Final

from flaremq.message.write_stream import CHAIN

_NUMBER: Final = "a whole number"
# column: what it may be, in words
WRITABLE: Final = {
    "body": "binary or string",
    "topic": "string",
    "tags": "string",
    "keys": "string (keys separated by blanks) or array<string>",
    "properties": "map<string,string>",
    "queueId": _NUMBER,
    "orderKey": "string",
    "delayLevel": _NUMBER,
}

# MessageConst of RocketMQ 5.5, and what brokers and our sink add.
_RESERVED_TEXT = """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME
    TRAN_PREPARED_QUEUE_OFFSET DUP_INFO TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS INSTANCE_ID
    CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_NUM INNER_BASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_LEVEL TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS
    TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_ROLL_LABEL TIMER_DEL_UNIQKEY
    TIMER_DEL_FLAG DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID REAL_MESSAGE_ID __transactionId__ __CRC32# BORN_TIMESTAMP
    __BORNHOST
"""
RESERVED = frozenset(_RESERVED_TEXT.split()) | {CHAIN}
_PREFIXES = ("__RMQ.", "__CRC32")


def is_reserved(name: str | None) -> bool:
    return name is not None and (name in RESERVED or name.startswith(_PREFIXES) or name.endswith("__CRC32#"))
