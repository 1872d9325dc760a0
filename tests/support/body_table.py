"""Which request carries which JSON body, and which its reply."""

from __future__ import annotations

from typing import Final

from flaremq.protocol import bodies
from flaremq.protocol.bean import Bean
from flaremq.protocol.codes import RequestCode

REQUEST_BODIES: Final[dict[RequestCode, type[Bean]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: bodies.CreateTopicListRequestBody,
    RequestCode.HEART_BEAT: bodies.HeartbeatData,
    RequestCode.LOCK_BATCH_MQ: bodies.LockBatchRequestBody,
    RequestCode.UNLOCK_BATCH_MQ: bodies.UnlockBatchRequestBody,
    RequestCode.CHECK_CLIENT_CONFIG: bodies.CheckClientRequestBody,
    RequestCode.REGISTER_BROKER: bodies.RegisterBrokerBody,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: bodies.SubscriptionGroupConfig,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: bodies.TopicRouteData,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: bodies.ResetOffsetBody,
    RequestCode.QUERY_DATA_VERSION: bodies.DataVersion,
    RequestCode.QUERY_ASSIGNMENT: bodies.QueryAssignmentRequestBody,
    RequestCode.SET_MESSAGE_REQUEST_MODE: bodies.SetMessageRequestModeRequestBody,
    RequestCode.BATCH_ACK_MESSAGE: bodies.BatchAckMessageRequestBody,
}

RESPONSE_BODIES: Final[dict[RequestCode, type[Bean]]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: bodies.TopicConfigSerializeWrapper,
    RequestCode.GET_BROKER_RUNTIME_INFO: bodies.KVTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: bodies.GetConsumerListByGroupResponseBody,
    RequestCode.LOCK_BATCH_MQ: bodies.LockBatchResponseBody,
    RequestCode.GET_ALL_CONSUMER_OFFSET: bodies.ConsumerOffsetSerializeWrapper,
    RequestCode.GET_ALL_DELAY_OFFSET: bodies.DelayOffsetSerializeWrapper,
    RequestCode.REGISTER_BROKER: bodies.KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: bodies.TopicRouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: bodies.ClusterInfo,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: bodies.SubscriptionGroupWrapper,
    RequestCode.GET_TOPIC_STATS_INFO: bodies.TopicStatsTable,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: bodies.ConsumerConnection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: bodies.ProducerConnection,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: bodies.TopicList,
    RequestCode.GET_CONSUME_STATS: bodies.ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: bodies.KVTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: bodies.GetConsumerStatusBody,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: bodies.ResetOffsetBody,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: bodies.GetConsumerStatusBody,
    RequestCode.GET_TOPICS_BY_CLUSTER: bodies.TopicList,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: bodies.GroupList,
    RequestCode.QUERY_CONSUME_TIME_SPAN: bodies.QueryConsumeTimeSpanBody,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: bodies.TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: bodies.TopicList,
    RequestCode.GET_CONSUMER_RUNNING_INFO: bodies.ConsumerRunningInfo,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: bodies.ConsumeMessageDirectlyResult,
    RequestCode.GET_UNIT_TOPIC_LIST: bodies.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: bodies.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: bodies.TopicList,
    RequestCode.VIEW_BROKER_STATS_DATA: bodies.BrokerStatsData,
    RequestCode.GET_BROKER_CONSUME_STATS: bodies.ConsumeStatsList,
    RequestCode.QUERY_CONSUME_QUEUE: bodies.QueryConsumeQueueResponseBody,
    RequestCode.QUERY_DATA_VERSION: bodies.DataVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: bodies.ProducerTableInfo,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: bodies.TopicList,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: bodies.QuerySubscriptionResponseBody,
    RequestCode.GET_TOPIC_CONFIG: bodies.TopicConfig,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: bodies.SubscriptionGroupConfig,
    RequestCode.QUERY_ASSIGNMENT: bodies.QueryAssignmentResponseBody,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: bodies.MessageRequestModeSerializeWrapper,
    RequestCode.GET_BROKER_MEMBER_GROUP: bodies.GetBrokerMemberGroupResponseBody,
    RequestCode.GET_BROKER_HA_STATUS: bodies.HARuntimeInfo,
}
