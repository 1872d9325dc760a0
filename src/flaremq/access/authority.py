"""The authority table: for each request code who may send it. The guard, the documentation and the tests read it.

A code that a server answers and that has no row here is refused to everybody. Besides the rules of ``rules`` a row may
say ``signed`` (any account), ``super`` (administrators, Super users), ``inner`` (the servers themselves, and who is
super) or ``own`` (super, or the account that the field ``subject`` names).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.access.rules import RecordNeed, Rule, parse
from flaremq.protocol.codes import RequestCode as Code

SIGNED: Final = "signed"
SUPER: Final = "super"
INNER: Final = "inner"
OWN: Final = "own"
_ADMIN_WORDS: Final = ("C:", "C(", ":Create", ":Update", ":Delete", "body(topics)", "body(group)", "body(mode)")
_WHO: Final = (SIGNED, SUPER, INNER, OWN)


@dataclass(frozen=True, slots=True)
class Row:
    """What one request code needs."""

    code: Code
    words: str  # the rule as it is written in the tables below
    who: str  # one of the four, or empty: the rule decides
    rule: Rule | None
    record: RecordNeed | None
    is_change: bool  # an administrative change: audited, and answered on this machine only unless told otherwise
    stores: bool  # stores a message: a second copy of the same request is refused
    is_administration: bool  # an operator's request, by what it needs
    is_tools: bool  # sent by tools, not by producers and consumers all the time


def _rows(*tables: Mapping[Code, str], changes: frozenset[Code], sends: frozenset[Code]) -> dict[int, Row]:
    rows = {}
    for table in tables:
        for code, words in table.items():
            who = words if words in _WHO else ""
            rule, record = (None, None) if who else parse(words)
            is_administration = who in (SUPER, OWN) or any(word in words for word in _ADMIN_WORDS)
            is_tools = code not in _SENDING and code not in _CONSUMING
            rows[int(code)] = Row(
                code, words, who, rule, record, code in changes, code in sends, is_administration, is_tools
            )
    return rows


_SENDING: Final[dict[Code, str]] = {
    Code.SEND_MESSAGE: "T(topic):Pub",
    Code.SEND_MESSAGE_V2: "T(b):Pub",
    Code.SEND_BATCH_MESSAGE: "T(b):Pub",
    Code.SEND_REPLY_MESSAGE: "T(topic):Pub",
    Code.SEND_REPLY_MESSAGE_V2: "T(b):Pub",
    Code.CONSUMER_SEND_MSG_BACK: "G(group):Sub + record(offset):Sub",
    Code.END_TRANSACTION: "record(commitLogOffset):Pub",
    Code.RECALL_MESSAGE: "T(topic):Pub",
    Code.OPEN_WRITE_STREAM: "T(topic):Pub",
}
_CONSUMING: Final[dict[Code, str]] = {
    Code.PULL_MESSAGE: "T(topic):Sub + G(consumerGroup):Sub",
    Code.LITE_PULL_MESSAGE: "T(topic):Sub + G(consumerGroup):Sub",
    Code.HEART_BEAT: "body(heartbeat)",
    Code.UNREGISTER_CLIENT: "G(consumerGroup)?:Sub",
    Code.CHECK_CLIENT_CONFIG: "body(check_client)",
    Code.GET_CONSUMER_LIST_BY_GROUP: "G(consumerGroup):Sub|Get",
    Code.QUERY_CONSUMER_OFFSET: "T(topic):Sub|Get + G(consumerGroup):Sub|Get",
    Code.UPDATE_CONSUMER_OFFSET: "T(topic):Sub|Update + G(consumerGroup):Sub|Update",
    Code.LOCK_BATCH_MQ: "body(locks)",
    Code.UNLOCK_BATCH_MQ: "body(locks)",
    Code.QUERY_ASSIGNMENT: "body(assignment)",
    Code.SET_MESSAGE_REQUEST_MODE: "body(mode)",
    Code.GET_ALL_MESSAGE_REQUEST_MODE: "C:Get",
    Code.SEARCH_OFFSET_BY_TIMESTAMP: "T(topic):Get|Sub",
    Code.GET_MAX_OFFSET: "T(topic):Get|Sub",
    Code.GET_MIN_OFFSET: "T(topic):Get|Sub",
    Code.GET_EARLIEST_MSG_STORETIME: "T(topic):Get|Sub",
    Code.QUERY_MESSAGE: "T(topic):Sub|Get",
    Code.VIEW_MESSAGE_BY_ID: "record(offset):Get|Sub",
    Code.POP_MESSAGE: "G(consumerGroup):Sub + T(topic):Sub",
    Code.ACK_MESSAGE: "G(consumerGroup):Sub + T(topic):Sub",
    Code.PEEK_MESSAGE: "G(consumerGroup):Sub + T(topic):Sub",
    Code.CHANGE_MESSAGE_INVISIBLETIME: "G(consumerGroup):Sub + T(topic):Sub",
    Code.NOTIFICATION: "G(consumerGroup):Sub + T(topic):Sub",
    Code.POLLING_INFO: "G(consumerGroup):Get + T(topic):Get",
    Code.BATCH_ACK_MESSAGE: "body(acks)",
}
_ADMINISTRATION: Final[dict[Code, str]] = {
    Code.UPDATE_AND_CREATE_TOPIC: "T(topic):Create/Update",
    Code.UPDATE_AND_CREATE_TOPIC_LIST: "body(topics)",
    Code.DELETE_TOPIC_IN_BROKER: "T(topic):Delete",
    Code.GET_TOPIC_CONFIG: "T(topic):Get",
    Code.GET_TOPIC_STATS_INFO: "T(topic):Get",
    Code.QUERY_TOPIC_CONSUME_BY_WHO: "T(topic):Get",
    Code.GET_ALL_TOPIC_CONFIG: "C:Get",
    Code.GET_ALL_CONSUMER_OFFSET: "C:Get",
    Code.GET_ALL_DELAY_OFFSET: "C:Get",
    Code.GET_TIMER_CHECK_POINT: "C:Get",
    Code.GET_TIMER_METRICS: "C:Get",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "C:Get",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "C:Get",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "body(group)",
    Code.DELETE_SUBSCRIPTIONGROUP: "G(groupName):Delete",
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: "G(group):Get",
    Code.QUERY_TOPICS_BY_CONSUMER: "G(group):Get",
    Code.GET_CONSUMER_CONNECTION_LIST: "G(consumerGroup):Get",
    Code.GET_CONSUMER_RUNNING_INFO: "G(consumerGroup):Get",
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: "G(group):Get + T(topic):Get",
    Code.QUERY_CONSUME_TIME_SPAN: "G(group):Get + T(topic):Get",
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "G(group):Get + T(topic):Get",
    Code.QUERY_CONSUME_QUEUE: "G(consumerGroup)?:Get + T(topic):Get",
    Code.UPDATE_BROKER_CONFIG: SUPER,
    Code.GET_BROKER_CONFIG: "C:Get",
    Code.GET_BROKER_RUNTIME_INFO: "C:Get",
    Code.GET_BROKER_HA_STATUS: "C:Get",
    Code.GET_PRODUCER_CONNECTION_LIST: "C:Get",
    Code.GET_ALL_PRODUCER_INFO: "C:Get",
    Code.VIEW_BROKER_STATS_DATA: "C:Get",
    Code.GET_BROKER_CONSUME_STATS: "C:Get",
    Code.GET_CONSUME_STATS: "G(consumerGroup):Get + T(topic;topicList)?:Get",
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: "C:Update",
    Code.CLEAN_UNUSED_TOPIC: "C:Update",
    Code.DELETE_EXPIRED_COMMITLOG: "C:Update",
    Code.INVOKE_BROKER_TO_RESET_OFFSET: "G(group):Update + T(topic):Update",
    Code.CONSUME_MESSAGE_DIRECTLY: "G(consumerGroup):Sub + record(msgId):Sub",
    Code.CLONE_GROUP_OFFSET: "G(destGroup):Update + T(topic):Update + G(srcGroup):Get",
    Code.RESUME_CHECK_HALF_MESSAGE: "record(msgId):Update",
}
_ACCESS: Final[dict[Code, str]] = {
    Code.UPDATE_AND_CREATE_ACL_CONFIG: SUPER,
    Code.DELETE_ACL_CONFIG: SUPER,
    Code.GET_BROKER_CLUSTER_ACL_INFO: SUPER,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: SUPER,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: SUPER,
    Code.AUTH_CREATE_USER: SUPER,
    Code.AUTH_UPDATE_USER: SUPER,
    Code.AUTH_DELETE_USER: SUPER,
    Code.AUTH_GET_USER: SUPER,
    Code.AUTH_LIST_USER: SUPER,
    Code.AUTH_CREATE_ACL: SUPER,
    Code.AUTH_UPDATE_ACL: SUPER,
    Code.AUTH_DELETE_ACL: SUPER,
    Code.AUTH_GET_ACL: OWN,
    Code.AUTH_LIST_ACL: SUPER,
}
_REPLICATION: Final[dict[Code, str]] = {
    Code.EXCHANGE_BROKER_HA_INFO: INNER,
    Code.RESET_MASTER_FLUSH_OFFSET: INNER,
    Code.NOTIFY_BROKER_ROLE_CHANGED: INNER,
    Code.GET_BROKER_EPOCH_CACHE: "C:Get",
}
_NAME_SERVER: Final[dict[Code, str]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: "T(topic):Pub|Sub|Get",
    Code.GET_BROKER_CLUSTER_INFO: SIGNED,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: SIGNED,
    Code.GET_TOPICS_BY_CLUSTER: SIGNED,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: SIGNED,
    Code.GET_UNIT_TOPIC_LIST: SIGNED,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: SIGNED,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: SIGNED,
    Code.GET_NAMESRV_CONFIG: "C:Get",
    Code.GET_KV_CONFIG: "C:Get",
    Code.GET_KVLIST_BY_NAMESPACE: "C:Get",
    Code.QUERY_DATA_VERSION: "C(clusterName):Get",
    Code.GET_BROKER_MEMBER_GROUP: "C(clusterName):Get",
    Code.PUT_KV_CONFIG: "C:Update",
    Code.DELETE_KV_CONFIG: "C:Update",
    Code.WIPE_WRITE_PERM_OF_BROKER: "C:Update",
    Code.ADD_WRITE_PERM_OF_BROKER: "C:Update",
    Code.REGISTER_TOPIC_IN_NAMESRV: "C:Update",
    Code.DELETE_TOPIC_IN_NAMESRV: "C:Update",
    Code.REGISTER_BROKER: INNER,
    Code.UNREGISTER_BROKER: INNER,
    Code.BROKER_HEARTBEAT: INNER,
    Code.UPDATE_NAMESRV_CONFIG: SUPER,
}
_CONTROLLER: Final[dict[Code, str]] = {
    code: INNER
    for code in Code
    if 1001 <= code <= 1018 and code not in (Code.GET_BROKER_EPOCH_CACHE, Code.NOTIFY_BROKER_ROLE_CHANGED)
}
_CHANGES: Final = frozenset(
    (
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.SET_MESSAGE_REQUEST_MODE,
        Code.UPDATE_BROKER_CONFIG,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.CLEAN_UNUSED_TOPIC,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLONE_GROUP_OFFSET,
        Code.RESUME_CHECK_HALF_MESSAGE,
        Code.RESET_MASTER_FLUSH_OFFSET,
        Code.PUT_KV_CONFIG,
        Code.DELETE_KV_CONFIG,
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.UPDATE_NAMESRV_CONFIG,
        Code.CONTROLLER_ELECT_MASTER,
        Code.UPDATE_CONTROLLER_CONFIG,
        Code.CLEAN_BROKER_DATA,
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.AUTH_CREATE_USER,
        Code.AUTH_UPDATE_USER,
        Code.AUTH_DELETE_USER,
        Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL,
        Code.AUTH_DELETE_ACL,
    )
)
_SENDS: Final = frozenset(
    (
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
    )
)
# What each kind of server answers.
BROKER: Final = _rows(_SENDING, _CONSUMING, _ADMINISTRATION, _ACCESS, _REPLICATION, changes=_CHANGES, sends=_SENDS)
NAME_SERVER: Final = _rows(_NAME_SERVER, changes=_CHANGES, sends=_SENDS)
CONTROLLER: Final = _rows(_CONTROLLER, {Code.BROKER_HEARTBEAT: INNER}, changes=_CHANGES, sends=_SENDS)
