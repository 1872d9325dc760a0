"""Messages on their way in: checked as RocketMQ's proxy checks them, in its order, and brought into a broker's form."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, Final

from flaremq.grpc.messages.enums import Code, DigestType, Encoding, MessageType
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import has_control
from flaremq.grpc.rules.status import Refused
from flaremq.grpc.rules.times import to_ms
from flaremq.message import properties as names
from flaremq.message.compression import INFLATED_SIZE_MAX
from flaremq.message.properties import TIMER_DELIVER_MS
from flaremq.message.sys_flag import COMPRESSED, TransactionType

SHARDING_KEY: Final = "__SHARDINGKEY"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
LITE_TOPIC: Final = "__LITE_TOPIC"

# What RocketMQ itself keeps in the properties: not for users to set, and not shown as theirs.
RESERVED: Final = frozenset(
    (
        *("KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP"),
        *("MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG"),
        *("MQ2_FLAG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "MSG_REGION", "TRACE_ON", "UNIQ_KEY"),
        *("EXTEND_UNIQ_INFO", "CONSUME_START_TIME", "DUP_INFO", "TRAN_PREPARED_QUEUE_OFFSET", "INSTANCE_ID"),
        *("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE"),
        *("POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", TIMER_DELIVER_MS),
        *("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DEL_UNIQKEY"),
        *(BORN_HOST, BORN_TIMESTAMP, "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#", PRIORITY, LITE_TOPIC),
    )
)
# The original lets users set these, though brokers read them: a transaction's own name and count are made anew by the
# broker, and a batch inside one message (INNER_…) is for brokers alone to build, so it is refused here.
_REFUSED_PREFIX: Final = "INNER_"

_MESSAGE_ID_MAX: Final = 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_DIGESTS: Final = {DigestType.MD5: "md5", DigestType.SHA1: "sha1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message as brokers take it."""

    topic: str
    message_id: str
    body: bytes
    properties: dict[str, str]
    sys_flag: int
    born_ms: int
    message_group: str | None
    kind: MessageType

    @property
    def is_transactional(self) -> bool:
        return self.kind is MessageType.TRANSACTION

    @property
    def properties_text(self) -> str:
        return "\x02".join(map("\x01".join, self.properties.items())) + "\x02"


def check_body(message: Any, limits: CallLimits) -> None:
    size = len(message.body)
    if not size:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if size > limits.max_message_size:
        raise Refused(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body has {size} bytes, at most {limits.max_message_size} are allowed"
        )


def outgoing(message: Any, topic: str, limits: CallLimits, *, peer: str, now_ms: int) -> Outgoing:
    """The message in a broker's form; Refused if it cannot be sent."""
    check_body(message, limits)
    system = message.system_properties
    properties = _user_properties(message, system, limits)
    message_id: str = system.message_id
    if not message_id.strip() or len(message_id) > _MESSAGE_ID_MAX or has_control(message_id):
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "the message id is blank, too long or has control characters")
    kind = _kind_of(system)
    stored = {names.UNIQUE_KEY: message_id}
    stored |= properties
    _add_system(stored, system, topic, limits, peer=peer, now_ms=now_ms)
    message_group = _message_group(system, limits)
    if message_group is not None:
        stored[SHARDING_KEY] = message_group
    _check_digest(message)
    body, sys_flag = _body(message)
    born_ms = to_ms(system.born_timestamp) if system.HasField("born_timestamp") else 0
    if kind is MessageType.TRANSACTION:
        sys_flag |= TransactionType.PREPARED
    return Outgoing(
        topic=topic,
        message_id=message_id,
        body=body,
        properties=stored,
        sys_flag=sys_flag,
        born_ms=born_ms if born_ms > 0 else now_ms,
        message_group=message_group,
        kind=kind,
    )


def _user_properties(message: Any, system: Any, limits: CallLimits) -> dict[str, str]:
    user = message.user_properties
    if len(user) > limits.user_property_max_num:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(user)} properties, at most {limits.user_property_max_num} are allowed",
        )
    size = 0
    kept: dict[str, str] = {}
    for name, value in user.items():
        if name in RESERVED or name.startswith(_REFUSED_PREFIX):
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name} is used by the system")
        if has_control(name) or has_control(value):
            raise Refused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name[:64]!r} or its value has control characters"
            )
        size += len(name.encode()) + len(value.encode())
        if name and value:  # a record can hold nothing empty
            kept[name] = value
    if system.HasField("tag"):
        _check_tag(system.tag)
        size += len(system.tag.encode())
    for key in system.keys:
        if not key.strip() or has_control(key):
            raise Refused(Code.ILLEGAL_MESSAGE_KEY, "a key is blank or has control characters")
        size += len(key.encode())
    if size > limits.max_user_property_size:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes, at most {limits.max_user_property_size} are allowed",
        )
    return kept


def _check_tag(tag: str) -> None:
    if not tag:
        return
    if not tag.strip():
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, "the tag has only blanks")
    if "|" in tag or has_control(tag):
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, f"the tag {tag[:64]!r} contains '|' or control characters")


def _message_group(system: Any, limits: CallLimits) -> str | None:
    if not system.HasField("message_group"):
        return None
    group: str = system.message_group
    if not group.strip() or len(group.encode()) >= limits.max_message_group_size or has_control(group):
        raise Refused(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"a message group is not blank, has less than {limits.max_message_group_size} bytes and no control "
            "characters",
        )
    return group


def _kind_of(system: Any) -> MessageType:
    """What the message is by what is set in it, whatever its type says: as a broker will treat it."""
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.HasField("message_group"):
        return MessageType.FIFO
    if system.HasField("lite_topic"):
        return MessageType.LITE
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.NORMAL


def _add_system(stored: dict[str, str], system: Any, topic: str, limits: CallLimits, *, peer: str, now_ms: int) -> None:
    if system.tag:
        stored[names.TAGS] = system.tag
    if system.keys:
        stored[names.KEYS] = " ".join(system.keys)
    if system.message_type == MessageType.TRANSACTION:
        stored[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = to_ms(system.orphaned_transaction_recovery_duration) // 1000
            longest = limits.max_transaction_recovery_seconds
            if seconds > longest:
                raise Refused(Code.BAD_REQUEST, f"a recovery duration of {seconds} s, at most {longest} s are allowed")
            if seconds > 0:
                stored[names.CHECK_IMMUNITY_SECONDS] = str(seconds)
    if system.HasField("delivery_timestamp"):
        due_ms = to_ms(system.delivery_timestamp)
        if due_ms - now_ms > limits.max_delay_time_ms:
            raise Refused(
                Code.ILLEGAL_DELIVERY_TIME,
                f"the message is due in {due_ms - now_ms} ms, at most {limits.max_delay_time_ms} ms are allowed",
            )
        stored[TIMER_DELIVER_MS] = str(max(0, due_ms))
    if system.HasField("lite_topic"):
        stored[LITE_TOPIC] = _plain(system.lite_topic, "the lite topic", Code.ILLEGAL_LITE_TOPIC)
    if system.HasField("priority"):
        stored[PRIORITY] = str(system.priority)
    if system.trace_context:
        stored[TRACE_CONTEXT] = _plain(system.trace_context, "the trace context", Code.ILLEGAL_MESSAGE_PROPERTY_KEY)
    if system.delivery_attempt > 0:
        stored[names.RECONSUME_TIME] = str(system.delivery_attempt)
    born_ms = to_ms(system.born_timestamp) if system.HasField("born_timestamp") else 0
    stored[BORN_TIMESTAMP] = str(born_ms if born_ms > 0 else now_ms)
    host = _plain(system.born_host, "the born host", Code.ILLEGAL_MESSAGE_PROPERTY_KEY) or peer
    stored[BORN_HOST] = host
    stored[names.PRODUCER_GROUP] = topic


def _plain(text: str, what: str, code: Code) -> str:
    if has_control(text) or len(text) > 4096:
        raise Refused(code, f"{what} has control characters or is too long")
    return text


def _check_digest(message: Any) -> None:
    """A body that is not what its sender meant is worth a second try."""
    system = message.system_properties
    if not system.HasField("body_digest"):
        return
    kind, checksum = system.body_digest.type, system.body_digest.checksum
    if not checksum:
        return
    if kind == DigestType.CRC32:
        number = zlib.crc32(message.body)
        forms = {f"{number:X}", f"{number:08X}", f"{number:x}", f"{number:08x}", str(number)}
        is_right = checksum in forms
    elif kind in _DIGESTS:
        is_right = hashlib.new(_DIGESTS[kind], message.body, usedforsecurity=False).hexdigest() == checksum.lower()
    else:
        return
    if not is_right:
        raise Refused(Code.MESSAGE_CORRUPTED, "the body does not match its digest")


def _body(message: Any) -> tuple[bytes, int]:
    """The body as it is stored, and its flag. Consumers of the other protocol know zlib under this flag, not gzip."""
    body: bytes = message.body
    if message.system_properties.body_encoding != Encoding.GZIP:
        return body, 0
    if not body.startswith(_GZIP_MAGIC):
        return body, COMPRESSED
    return zlib.compress(inflate_gzip(body)), COMPRESSED


def inflate_gzip(body: bytes | memoryview) -> bytes:
    """The original of a gzip body; Refused if it is none, or too large."""
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = decompressor.decompress(body, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise Refused(Code.MESSAGE_CORRUPTED, f"the body is no gzip data: {error}") from None
    if not decompressor.eof:
        raise Refused(Code.MESSAGE_CORRUPTED, "the gzip data of the body is cut short or inflates to too much")
    return plain
