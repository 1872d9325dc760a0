"""Names of topics and groups: which are legal, which are RocketMQ's own, and how retry and dead-letter names are built.

A record stores the length of its topic in one signed byte (V1) or in two bytes (V2). So a name is limited to
127 bytes where it is created; only the retry topics of POP consumption, ``%RETRY%group_topic`` or
``%RETRY%group+topic``, may be longer, up to 255 bytes, and are what V2 exists for.
"""

from __future__ import annotations

import re
from functools import lru_cache

from flaremq.errors import InvalidArgumentError

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
AUTO_CREATE_TOPIC = "TBW102"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"  # RocketMQ 5.4 and newer make these two
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LIGHT_PREFIX = "%LMQ%"  # of light queues, which share the records of other topics
SYSTEM_PREFIX = "rmq_sys_"
REPLY_SUFFIX = "_REPLY_TOPIC"

NAME_BYTES_MAX = 127
RETRY_NAME_BYTES_MAX = 255
GROUP_LENGTH_MAX = 255

# Clients may read these but not send to them.
NO_CLIENT_SEND = frozenset(
    (
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
    )
)
_ROCKSDB_TOPICS = {ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC}
# Here messages lie that were sent to other topics: they wait, or were given up. REAL_TOPIC says where they belong.
WAITING_TOPICS = frozenset(
    (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, ROCKSDB_HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
)
_SYSTEM_TOPICS = NO_CLIENT_SEND | _ROCKSDB_TOPICS | {TRACE_TOPIC, AUTO_CREATE_TOPIC, BENCHMARK_TOPIC}

# The letters of groups are those of topics, because retry topics are made of them.
NAME_LETTER = "[A-Za-z0-9%_|-]"
LEGAL_NAME = re.compile(f"{NAME_LETTER}+")
LEGAL_CHARACTERS = "ASCII letters, digits, '%', '-', '_' and '|' are allowed"
# A "+" stands in one place only: between group and topic in the newer name of a POP retry topic.
_POP_RETRY_V2 = re.compile(rf"{RETRY_PREFIX}{NAME_LETTER}+\+{NAME_LETTER}+")
_STORED = re.compile(f"{LEGAL_NAME.pattern}|{_POP_RETRY_V2.pattern}")
STORED_BYTES = re.compile(_STORED.pattern.encode())


def validate_topic(topic: str) -> None:
    """Refuse a name that RocketMQ would not let anyone create."""
    if not LEGAL_NAME.fullmatch(topic):
        raise InvalidArgumentError(f"topic {topic!r} is not legal: {LEGAL_CHARACTERS}")
    if len(topic) > NAME_BYTES_MAX:
        raise InvalidArgumentError(f"topic {topic!r} has {len(topic)} characters, at most {NAME_BYTES_MAX} are allowed")


def validate_group(group: str) -> None:
    """Refuse a name that no broker would take."""
    if not LEGAL_NAME.fullmatch(group):
        raise InvalidArgumentError(f"group {group!r} is not legal: {LEGAL_CHARACTERS}")
    if len(group) > GROUP_LENGTH_MAX:
        raise InvalidArgumentError(f"group {group[:32]!r}... has {len(group)} characters, at most {GROUP_LENGTH_MAX}")


def is_legal_group(group: str) -> bool:
    return len(group) <= GROUP_LENGTH_MAX and LEGAL_NAME.fullmatch(group) is not None


def is_stored_topic(topic: str) -> bool:
    """Whether a record may carry this name: POP's retry topics are longer than what anyone may create."""
    return len(topic) <= RETRY_NAME_BYTES_MAX and _STORED.fullmatch(topic) is not None


@lru_cache(maxsize=4096)
def encode_topic(topic: str) -> bytes:
    """The name as stored, or ``InvalidArgumentError``. Cached, so it may stand on the path of every append.

    Longer than ``validate_topic`` allows is fine for a retry topic, which then makes a V2 record.
    """
    if not is_pop_retry_topic_v2(topic) and (len(topic) <= NAME_BYTES_MAX or not topic.startswith(RETRY_PREFIX)):
        validate_topic(topic)
    elif not is_stored_topic(topic):
        raise InvalidArgumentError(
            f"retry topic {topic!r} is not legal or longer than {RETRY_NAME_BYTES_MAX} characters"
        )
    return topic.encode()


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(group: str, topic: str) -> str:
    """The newer name; unlike the old one it can be taken apart again."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def is_pop_retry_topic_v2(topic: str) -> bool:
    return _POP_RETRY_V2.fullmatch(topic) is not None


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    return cluster + REPLY_SUFFIX


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ itself made this topic, so that readers of "all topics" leave it out.

    The topics named after cluster and broker cannot be told by name; retry and dead-letter topics hold
    application messages and are not counted here.
    """
    return topic in _SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)
