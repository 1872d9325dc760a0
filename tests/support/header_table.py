"""Which code has which custom header, and headers that only RocketMQ's clients read: for checks of traffic.

The send codes share one header under two sets of names; :func:`decode_send_header` knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.headers import admin, consume, controller, namesrv, pop, send
from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    integer,
    long,
    maybe_flag,
    maybe_integer,
    maybe_long,
    maybe_text,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigRequestHeader(CustomHeader):
    """GET_ALL_TOPIC_CONFIG, in pages since 5.3."""

    topic_seq: int | None = maybe_integer()
    max_topic_num: int | None = maybe_integer()
    data_version: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigResponseHeader(CustomHeader):
    """Absent when everything is in one page."""

    total_topic_num: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupRequestHeader(CustomHeader):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG, in pages since 5.3."""

    group_seq: int | None = maybe_integer()
    max_group_num: int | None = maybe_integer()
    data_version: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroupResponseHeader(CustomHeader):
    """Absent when everything is in one page."""

    total_group_num: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessageResponseHeader(CustomHeader):
    """Where to go on. Clients refuse a reply without the first four fields."""

    suggest_which_broker_id: int = long()
    next_begin_offset: int = long()
    min_offset: int = long()
    max_offset: int = long()
    offset_delta: int | None = maybe_long()
    topic_sys_flag: int | None = maybe_integer()
    group_sys_flag: int | None = maybe_integer()
    forbidden_type: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChangedRequestHeader(CustomHeader):
    """NOTIFY_CONSUMER_IDS_CHANGED, to the clients of a group."""

    consumer_group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfoRequestHeader(CustomHeader):
    """GET_ROUTEINFO_BY_TOPIC."""

    topic: str = text()
    accept_standard_json_only: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTopicRequestHeader(CustomHeader):
    """REGISTER_TOPIC_IN_NAMESRV."""

    topic: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessageResponseHeader(CustomHeader):
    """Where a message was stored. Region and trace switch are read by the clients' tracing."""

    msg_id: str = text()
    queue_id: int = integer()
    queue_offset: int = long()
    transaction_id: str | None = maybe_text()
    batch_uniq_id: str | None = maybe_text()
    recall_handle: str | None = maybe_text()
    region: str | None = maybe_text("MSG_REGION")
    trace_on: str | None = maybe_text("TRACE_ON")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageResponseHeader(CustomHeader):
    """The message that was taken back."""

    msg_id: str = text()


REQUEST_HEADERS: Final[dict[RequestCode, type[CustomHeader]]] = {
    RequestCode.SEND_MESSAGE: send.SendMessageRequestHeader,
    RequestCode.PULL_MESSAGE: consume.PullMessageRequestHeader,
    RequestCode.QUERY_MESSAGE: consume.QueryMessageRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: consume.QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: consume.UpdateConsumerOffsetRequestHeader,
    RequestCode.UPDATE_AND_CREATE_TOPIC: admin.CreateTopicRequestHeader,
    RequestCode.GET_ALL_TOPIC_CONFIG: GetAllTopicConfigRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: consume.SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: consume.GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: consume.GetMinOffsetRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: consume.GetEarliestMsgStoretimeRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: consume.ViewMessageRequestHeader,
    RequestCode.UNREGISTER_CLIENT: consume.UnregisterClientRequestHeader,
    RequestCode.CONSUMER_SEND_MSG_BACK: send.ConsumerSendMsgBackRequestHeader,
    RequestCode.END_TRANSACTION: consume.EndTransactionRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: consume.GetConsumerListByGroupRequestHeader,
    RequestCode.CHECK_TRANSACTION_STATE: consume.CheckTransactionStateRequestHeader,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: NotifyConsumerIdsChangedRequestHeader,
    RequestCode.PUT_KV_CONFIG: namesrv.PutKVConfigRequestHeader,
    RequestCode.GET_KV_CONFIG: namesrv.GetKVConfigRequestHeader,
    RequestCode.DELETE_KV_CONFIG: namesrv.DeleteKVConfigRequestHeader,
    RequestCode.REGISTER_BROKER: namesrv.RegisterBrokerRequestHeader,
    RequestCode.UNREGISTER_BROKER: namesrv.UnRegisterBrokerRequestHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: GetRouteInfoRequestHeader,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GetAllSubscriptionGroupRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: admin.GetTopicStatsInfoRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin.GetConsumerConnectionListRequestHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.GetProducerConnectionListRequestHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.WipeWritePermOfBrokerRequestHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.DeleteSubscriptionGroupRequestHeader,
    RequestCode.GET_CONSUME_STATS: admin.GetConsumeStatsRequestHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: admin.DeleteTopicRequestHeader,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: namesrv.DeleteTopicFromNamesrvRequestHeader,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: RegisterTopicRequestHeader,
    RequestCode.GET_KVLIST_BY_NAMESPACE: namesrv.GetKVListByNamespaceRequestHeader,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: admin.ResetOffsetRequestHeader,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: admin.GetConsumerStatusRequestHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: admin.ResetOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: admin.GetConsumerStatusRequestHeader,
    RequestCode.GET_TOPICS_BY_CLUSTER: namesrv.GetTopicsByClusterRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: admin.QueryTopicConsumeByWhoRequestHeader,
    RequestCode.QUERY_CONSUME_TIME_SPAN: admin.QueryConsumeTimeSpanRequestHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: admin.GetConsumerRunningInfoRequestHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: admin.ConsumeMessageDirectlyResultRequestHeader,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageRequestHeader,
    RequestCode.CLONE_GROUP_OFFSET: admin.CloneGroupOffsetRequestHeader,
    RequestCode.VIEW_BROKER_STATS_DATA: admin.ViewBrokerStatsDataRequestHeader,
    RequestCode.GET_BROKER_CONSUME_STATS: admin.GetConsumeStatsInBrokerHeader,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageRequestHeader,
    RequestCode.QUERY_CONSUME_QUEUE: admin.QueryConsumeQueueRequestHeader,
    RequestCode.QUERY_DATA_VERSION: namesrv.QueryDataVersionRequestHeader,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: admin.ResumeCheckHalfMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageRequestHeader,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: send.ReplyMessageRequestHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.AddWritePermOfBrokerRequestHeader,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: admin.QueryTopicsByConsumerRequestHeader,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: admin.QuerySubscriptionByConsumerRequestHeader,
    RequestCode.GET_TOPIC_CONFIG: admin.GetTopicConfigRequestHeader,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.GetSubscriptionGroupConfigRequestHeader,
    RequestCode.LITE_PULL_MESSAGE: consume.PullMessageRequestHeader,
    RequestCode.RECALL_MESSAGE: send.RecallMessageRequestHeader,
    RequestCode.OPEN_WRITE_STREAM: send.OpenWriteStreamRequestHeader,
    RequestCode.GET_BROKER_MEMBER_GROUP: namesrv.GetBrokerMemberGroupRequestHeader,
    RequestCode.BROKER_HEARTBEAT: namesrv.BrokerHeartbeatRequestHeader,
    RequestCode.EXCHANGE_BROKER_HA_INFO: controller.ExchangeHAInfoHeader,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: controller.ResetMasterFlushOffsetHeader,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: controller.AlterSyncStateSetRequestHeader,
    RequestCode.CONTROLLER_ELECT_MASTER: controller.ElectMasterRequestHeader,
    RequestCode.CONTROLLER_REGISTER_BROKER: controller.RegisterBrokerToControllerRequestHeader,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: controller.GetReplicaInfoRequestHeader,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: controller.NotifyBrokerRoleChangedRequestHeader,
    RequestCode.CLEAN_BROKER_DATA: controller.CleanControllerBrokerDataRequestHeader,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: controller.GetNextBrokerIdRequestHeader,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: controller.ApplyBrokerIdRequestHeader,
    RequestCode.POP_MESSAGE: pop.PopMessageRequestHeader,
    RequestCode.ACK_MESSAGE: pop.AckMessageRequestHeader,
    RequestCode.PEEK_MESSAGE: pop.PeekMessageRequestHeader,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: pop.ChangeInvisibleTimeRequestHeader,
    RequestCode.NOTIFICATION: pop.NotificationRequestHeader,
    RequestCode.POLLING_INFO: pop.PollingInfoRequestHeader,
}

RESPONSE_HEADERS: Final[dict[RequestCode, type[CustomHeader]]] = {
    RequestCode.SEND_MESSAGE: SendMessageResponseHeader,
    RequestCode.PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.QUERY_MESSAGE: consume.QueryMessageResponseHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: consume.OffsetResponseHeader,
    RequestCode.GET_ALL_TOPIC_CONFIG: GetAllTopicConfigResponseHeader,
    RequestCode.GET_BROKER_CONFIG: admin.GetBrokerConfigResponseHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: consume.OffsetResponseHeader,
    RequestCode.GET_MAX_OFFSET: consume.OffsetResponseHeader,
    RequestCode.GET_MIN_OFFSET: consume.OffsetResponseHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: consume.GetEarliestMsgStoretimeResponseHeader,
    RequestCode.HEART_BEAT: consume.HeartbeatResponseHeader,
    RequestCode.GET_KV_CONFIG: namesrv.GetKVConfigResponseHeader,
    RequestCode.REGISTER_BROKER: namesrv.RegisterBrokerResponseHeader,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GetAllSubscriptionGroupResponseHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.WipeWritePermOfBrokerResponseHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageResponseHeader,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageResponseHeader,
    RequestCode.QUERY_DATA_VERSION: namesrv.QueryDataVersionResponseHeader,
    RequestCode.SEND_REPLY_MESSAGE: SendMessageResponseHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: SendMessageResponseHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.AddWritePermOfBrokerResponseHeader,
    RequestCode.LITE_PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.RECALL_MESSAGE: RecallMessageResponseHeader,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: controller.AlterSyncStateSetResponseHeader,
    RequestCode.CONTROLLER_ELECT_MASTER: controller.ElectMasterResponseHeader,
    RequestCode.CONTROLLER_REGISTER_BROKER: controller.RegisterBrokerToControllerResponseHeader,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: controller.GetReplicaInfoResponseHeader,
    RequestCode.CONTROLLER_GET_METADATA_INFO: controller.GetMetaDataResponseHeader,
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: controller.GetNextBrokerIdResponseHeader,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: controller.ApplyBrokerIdResponseHeader,
    RequestCode.POP_MESSAGE: pop.PopMessageResponseHeader,
    RequestCode.PEEK_MESSAGE: pop.PopMessageResponseHeader,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: pop.ChangeInvisibleTimeResponseHeader,
    RequestCode.NOTIFICATION: pop.NotificationResponseHeader,
    RequestCode.POLLING_INFO: pop.PollingInfoResponseHeader,
}
