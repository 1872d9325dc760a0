"""Which request carries which JSON body, and which its reply."""

from __future__ import annotations

from typing import Final

from flaremq.protocol.bodies.bean import Bean
from flaremq.protocol.bodies.client import (
    CheckClientRequestBody,
    ConsumerConnection,
    HeartbeatData,
    ProducerConnection,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from flaremq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryCache,
    SyncStateSet,
)
from flaremq.protocol.bodies.group import (
    GetConsumerListByGroupResponseBody,
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from flaremq.protocol.bodies.pop import BatchAckMessageRequestBody
from flaremq.protocol.bodies.queue import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from flaremq.protocol.bodies.register import RegisterBrokerBody
from flaremq.protocol.bodies.replication import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    HARuntimeInfo,
    MessageRequestModeSerializeWrapper,
)
from flaremq.protocol.bodies.route import ClusterInfo, GetBrokerMemberGroupResponseBody, TopicRouteData
from flaremq.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from flaremq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    ResetOffsetBody,
    TopicStatsTable,
)
from flaremq.protocol.bodies.topic import (
    BrokerStatsData,
    CreateTopicListRequestBody,
    DataVersion,
    KVTable,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
)
from flaremq.protocol.codes import RequestCode

REQUEST_BODIES: Final[dict[RequestCode, type[Bean]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: CreateTopicListRequestBody,
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.LOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.UNLOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequestBody,
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: TopicRouteData,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentRequestBody,
    RequestCode.SET_MESSAGE_REQUEST_MODE: SetMessageRequestModeRequestBody,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: SyncStateSet,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: SyncStateSet,
    RequestCode.BATCH_ACK_MESSAGE: BatchAckMessageRequestBody,
}

RESPONSE_BODIES: Final[dict[RequestCode, type[Bean]]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigSerializeWrapper,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListByGroupResponseBody,
    RequestCode.LOCK_BATCH_MQ: LockBatchResponseBody,
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetSerializeWrapper,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetSerializeWrapper,
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStatsTable,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnection,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusBody,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetBody,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusBody,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicList,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupList,
    RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanBody,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicList,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ConsumerRunningInfo,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResult,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicList,
    RequestCode.VIEW_BROKER_STATS_DATA: BrokerStatsData,
    RequestCode.GET_BROKER_CONSUME_STATS: ConsumeStatsList,
    RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueResponseBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: ProducerTableInfo,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: TopicList,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: QuerySubscriptionResponseBody,
    RequestCode.GET_TOPIC_CONFIG: TopicConfig,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupConfig,
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentResponseBody,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: MessageRequestModeSerializeWrapper,
    RequestCode.GET_BROKER_MEMBER_GROUP: GetBrokerMemberGroupResponseBody,
    RequestCode.GET_BROKER_HA_STATUS: HARuntimeInfo,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: SyncStateSet,
    RequestCode.CONTROLLER_ELECT_MASTER: ElectMasterResponseBody,
    RequestCode.CONTROLLER_REGISTER_BROKER: SyncStateSet,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: SyncStateSet,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: BrokerReplicasInfo,
    RequestCode.GET_BROKER_EPOCH_CACHE: EpochEntryCache,
}
