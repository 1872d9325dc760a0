"""What names say: kinds of topics, groups that every broker has from the start."""

from __future__ import annotations

from typing import Final

from flaremq.message.topics import (
    DLQ_PREFIX,
    REPLY_SUFFIX,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)

_OWN_GROUPS: Final = frozenset(
    (
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_ONS-HTTP-PROXY",
        "CID_SYS_RMQ_TRANS",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "TOOLS_CONSUMER",
    )
)
TOPIC_KINDS: Final = ("user", "retry", "dlq", "system")
PERM_READ, PERM_WRITE, PERM_INHERIT = 4, 2, 1


def topic_kind(topic: str, own_names: frozenset[str] = frozenset()) -> str:
    """``own_names``: of clusters and brokers, which have topics of their name."""
    if is_retry_topic(topic):
        return "retry"
    if is_dlq_topic(topic):
        return "dlq"
    if is_system_topic(topic) or topic in own_names:
        return "system"
    return (
        "system" if topic.removesuffix(REPLY_SUFFIX) in own_names or topic == "DefaultHeartBeatSyncerTopic" else "user"
    )


def is_system_group(group: str) -> bool:
    return group in _OWN_GROUPS or group.startswith("CID_RMQ_SYS_")


def perm_text(perm: int) -> str:
    """``RW``, ``R-``, ``-W``, ``--``; an X behind it is inherited by topics that are made by their first message."""
    text = ("R" if perm & PERM_READ else "-") + ("W" if perm & PERM_WRITE else "-")
    return text + "X" if perm & PERM_INHERIT else text


def group_of_dlq(topic: str) -> str:
    return topic.removeprefix(DLQ_PREFIX)
