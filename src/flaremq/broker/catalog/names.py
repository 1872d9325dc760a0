"""The one place where names that clients send are judged.

A topic or group becomes a folder, a key in a file, a word in a log line. What is not legal is refused with the code
RocketMQ 5 uses, INVALID_PARAMETER, before anything is looked up or created.
"""

from __future__ import annotations

from typing import Final

from flaremq.message.topics import (
    DLQ_PREFIX,
    GROUP_LENGTH_MAX,
    LEGAL_NAME,
    NAME_BYTES_MAX,
    NO_CLIENT_SEND,
    RETRY_NAME_BYTES_MAX,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    is_legal_group,
    is_pop_retry_topic_v2,
)
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

CLIENT_ID_CHARACTERS_MAX: Final = 1024

_REVIVE_PREFIX: Final = f"{SYSTEM_PREFIX}REVIVE_LOG_"


def check_topic(topic: str) -> str:
    """The topic, if anybody may use such a name."""
    longest = RETRY_NAME_BYTES_MAX if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else NAME_BYTES_MAX
    if not topic.strip():
        raise RequestError(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if not LEGAL_NAME.fullmatch(topic):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic {topic[:128]!r} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if len(topic) > longest:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, f"The specified topic is longer than topic max length {longest}."
        )
    return topic


def check_own_topic(topic: str) -> str:
    """The topic, if the broker itself may make it: it alone uses the newer names of POP's retry topics."""
    if is_pop_retry_topic_v2(topic) and len(topic) <= RETRY_NAME_BYTES_MAX:
        return topic
    return check_topic(topic)


def check_group(group: str) -> str:
    """The group, producer or consumer, if anybody may use such a name."""
    if not is_legal_group(group):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"The specified group {group[:128]!r} is blank, longer than {GROUP_LENGTH_MAX}, or contains "
            "illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    return group


def check_client_id(client_id: str) -> str:
    """The client id, if it is one and of a length worth keeping."""
    if not client_id or len(client_id) > CLIENT_ID_CHARACTERS_MAX:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"a client id has 1 to {CLIENT_ID_CHARACTERS_MAX} characters, not {len(client_id)}",
        )
    return client_id


def is_revive_topic(topic: str) -> bool:
    """Whether POP remembers there what was handed out."""
    return topic.startswith(_REVIVE_PREFIX)


def check_sendable(topic: str) -> None:
    """Refuse the topics that clients read at most.

    RocketMQ lets anybody write to the topics of its timers and of POP. What is in them decides where other messages go
    and which of them count as consumed, so here nobody may but the broker.
    """
    if topic in NO_CLIENT_SEND or is_revive_topic(topic):
        raise RequestError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
