"""Which commands of RocketMQ's ``mqadmin`` there are, and their flags. Plain data: help must not import anything.

Names and flags are RocketMQ 5's, so that scripts keep working; the sentences are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Flag(NamedTuple):
    """One flag of a command."""

    short: str  # empty: it has no short form
    long: str
    help: str
    is_required: bool = False
    has_value: bool = True


class AdminCommand(NamedTuple):
    """One command. ``place`` is its function, as in ``topics:topic_list``; one flag of ``one_of`` must be args."""

    summary: str
    place: str
    flags: tuple[Flag, ...]
    one_of: tuple[str, ...] = ()


def _need(short: str, long: str, help: str) -> Flag:
    return Flag(short, long, help, is_required=True)


def _switch(short: str, long: str, help: str) -> Flag:
    return Flag(short, long, help, has_value=False)


def _command(summary: str, place: str, *flags: Flag, one_of: str = "") -> AdminCommand:
    return AdminCommand(summary, place, flags, tuple(one_of.split()))


_BROKER: Final = Flag("b", "brokerAddr", "One broker, by address.")
_CLUSTER: Final = Flag("c", "clusterName", "All brokers of a cluster.")
_IN_CLUSTER: Final = Flag("c", "cluster", "All brokers of a cluster.")
_TOPIC: Final = _need("t", "topic", "Topic.")
_GROUP: Final = _need("g", "groupName", "Consumer group.")
_SOME_GROUP: Final = _need("g", "consumerGroup", "Consumer group.")
_RESET_GROUP: Final = _need("g", "group", "Consumer group.")
_ROUTE: Final = Flag("c", "cluster", "Accepted for old scripts; the topic's own route is used.")
_FORCE: Final = Flag("f", "force", "Accepted for old scripts; a reset is always forced.")
_BEGIN: Final = Flag("b", "beginTimestamp", "From this time on: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.")
_END: Final = Flag("e", "endTimestamp", "Up to this time: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.")
_CHARSET: Final = Flag("c", "charsetName", "How to read bodies as text; UTF-8 unless given.")
_SUB: Final = Flag("s", "subExpression", "Only these tags, as in 'TagA || TagB'.")
_FORMAT: Final = Flag("f", "bodyFormat", "Show the body too, read as this charset.")
_FOLDER: Final = Flag("f", "filePath", "Folder to write to; rocketmq/export in the temporary folder unless given.")
_KEY: Final = _need("k", "key", "Name.")
_VALUE: Final = _need("v", "value", "Value.")

_TOPICS: Final = {
    "updateTopic": _command(
        "Make a topic or change it.",
        "topics:update_topic",
        _BROKER,
        _CLUSTER,
        _TOPIC,
        Flag("r", "readQueueNums", "Queues that can be read; 8 unless given."),
        Flag("w", "writeQueueNums", "Queues that can be written; 8 unless given."),
        Flag("p", "perm", "2 write, 4 read, 6 both."),
        Flag("o", "order", "true: keep the order of queues even while a broker is away."),
        Flag("u", "unit", "true: set the unit flag."),
        Flag("s", "hasUnitSub", "true: set the flag for unit subscriptions."),
        Flag("a", "attributes", "Changes of attributes, as in +message.type=FIFO,-other."),
        one_of="brokerAddr clusterName",
    ),
    "updateTopicList": _command(
        "Make or change the topics of a file.",
        "topics:update_topic_list",
        _BROKER,
        _CLUSTER,
        _need("f", "filename", "A JSON list of topic settings."),
        one_of="brokerAddr clusterName",
    ),
    "updateTopicPerm": _command(
        "Change what may be done with a topic.",
        "topics:update_topic_perm",
        _BROKER,
        _CLUSTER,
        _TOPIC,
        _need("p", "perm", "2 write, 4 read, 6 both."),
        one_of="brokerAddr clusterName",
    ),
    "deleteTopic": _command(
        "Delete a topic on brokers and name servers.",
        "topics:delete_topic",
        _TOPIC,
        _need("c", "clusterName", "All brokers of this cluster."),
    ),
    "topicList": _command(
        "All topics.", "topics:topic_list", _switch("c", "clusterModel", "With cluster and consumer groups.")
    ),
    "topicRoute": _command(
        "The brokers and queues of a topic.", "topics:topic_route", _TOPIC, _switch("l", "list", "As a table.")
    ),
    "topicStatus": _command("Both ends of each queue of a topic.", "topics:topic_status", _TOPIC, _ROUTE),
    "topicClusterList": _command("The clusters that have a topic.", "topics:topic_cluster_list", _TOPIC),
    "updateOrderConf": _command(
        "Set, get or delete the order configuration of a topic.",
        "topics:update_order_conf",
        _TOPIC,
        Flag("v", "orderConf", "For put: queues by broker, as in broker-a:4;broker-b:4."),
        _need("m", "method", "put, get or delete."),
    ),
    "allocateMQ": _command(
        "How clients would share the queues of a topic.",
        "topics:allocate_mq",
        _TOPIC,
        _need("i", "ipList", "The clients, separated by commas."),
    ),
    "statsAll": _command(
        "Rates and accumulation of all topics and groups.",
        "stats:stats_all",
        _switch("a", "activeTopic", "Only where something went on in the last day."),
        Flag("t", "topic", "Only this topic."),
    ),
}

_GROUPS: Final = {
    "updateSubGroup": _command(
        "Make a consumer group or change it.",
        "groups:update_sub_group",
        _BROKER,
        _CLUSTER,
        _GROUP,
        Flag("s", "consumeEnable", "false: it may not consume."),
        Flag("m", "consumeFromMinEnable", "true: it may begin at the oldest message."),
        Flag("d", "consumeBroadcastEnable", "true: each consumer may get everything."),
        Flag("o", "consumeMessageOrderly", "true: POP consumers keep the order."),
        Flag("q", "retryQueueNums", "Queues for retries."),
        Flag("r", "retryMaxTimes", "Deliveries after the first."),
        Flag("p", "groupRetryPolicy", "How long to wait between them, as JSON."),
        Flag("i", "brokerId", "Broker id to consume from."),
        Flag("w", "whichBrokerWhenConsumeSlowly", "Broker id to consume from when far behind."),
        Flag("a", "notifyConsumerIdsChanged", "false: do not tell consumers when others come or go."),
        Flag("", "attributes", "Changes of attributes, as in +a=b,-c."),
        one_of="brokerAddr clusterName",
    ),
    "updateSubGroupList": _command(
        "Make or change the consumer groups of a file.",
        "groups:update_sub_group_list",
        _BROKER,
        _CLUSTER,
        _need("f", "filename", "A JSON list of group settings."),
        one_of="brokerAddr clusterName",
    ),
    "deleteSubGroup": _command(
        "Delete a consumer group.",
        "groups:delete_sub_group",
        _BROKER,
        _CLUSTER,
        _GROUP,
        Flag("r", "removeOffset", "true: forget how far it was."),
        one_of="brokerAddr clusterName",
    ),
    "getConsumerConfig": _command("The settings of a consumer group on each broker.", "groups:get_config", _GROUP),
    "setConsumeMode": _command(
        "Let a group read a topic by PULL or POP.",
        "groups:set_consume_mode",
        _BROKER,
        _CLUSTER,
        _need("t", "topicName", "Topic."),
        _GROUP,
        _need("m", "mode", "PULL or POP."),
        Flag("q", "popShareQueueNum", "Queues that clients share in POP mode."),
        one_of="brokerAddr clusterName",
    ),
    "consumerConnection": _command(
        "The connected consumers of a group and their subscriptions.",
        "connections:consumer_connection",
        _SOME_GROUP,
        Flag("b", "brokerAddr", "Ask this broker only."),
    ),
    "producerConnection": _command(
        "The connected producers of a group.",
        "connections:producer_connection",
        _need("g", "producerGroup", "Producer group."),
        _TOPIC,
    ),
    "producer": _command(
        "All producers of a broker.", "connections:producer", _need("b", "broker", "The broker, by address.")
    ),
    "consumerStatus": _command(
        "What each consumer of a group tells about itself; written to a file each.",
        "connections:consumer_status",
        _SOME_GROUP,
        Flag("i", "clientId", "Only this client, to the screen."),
        Flag("b", "brokerAddr", "Ask this broker only."),
        _switch("s", "jstack", "With stacks of its threads."),
    ),
    "consumerProgress": _command(
        "How far groups are behind.",
        "offsets:consumer_progress",
        Flag("g", "groupName", "One group, queue by queue."),
        Flag("t", "topicName", "Only this topic."),
        Flag("s", "showClientIP", "true: which client has which queue."),
        _ROUTE,
    ),
    "brokerConsumeStats": _command(
        "How far all groups of a broker are behind.",
        "offsets:broker_consume_stats",
        _need("b", "brokerAddr", "The broker, by address."),
        Flag("t", "timeoutMillis", "Accepted for old scripts."),
        Flag("l", "level", "Only queues that are at least so many messages behind."),
        Flag("o", "order", "true: only ordered topics."),
    ),
    "resetOffsetByTime": _command(
        "Let a group go on from another time.",
        "offsets:reset_offset_by_time",
        _RESET_GROUP,
        _TOPIC,
        _need("s", "timestamp", "now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS."),
        _FORCE,
        _ROUTE,
        Flag("b", "broker", "With -q: the broker, by address."),
        Flag("q", "queue", "Only this queue."),
        Flag("o", "offset", "With -q: to this offset."),
    ),
    "skipAccumulatedMessage": _command(
        "Let a group go on at the end.", "offsets:skip_accumulated", _RESET_GROUP, _TOPIC, _FORCE, _ROUTE
    ),
    "cloneGroupOffset": _command(
        "Give a group the offsets of another.",
        "offsets:clone_group_offset",
        _need("s", "srcGroup", "The group that has them."),
        _need("d", "destGroup", "The group that gets them."),
        _TOPIC,
        Flag("o", "offline", "Accepted for old scripts."),
    ),
}

_MESSAGES: Final = {
    "queryMsgById": _command(
        "A message by its offset id.",
        "messages:query_by_id",
        _TOPIC,
        _need("i", "msgId", "Offset id; several are separated by commas."),
        Flag("g", "consumerGroup", "With -d: the group of that client."),
        Flag("d", "clientId", "Let this consumer have it again, now."),
        Flag("s", "sendMessage", "true: send it once more."),
        Flag("u", "unitName", "Accepted for old scripts."),
        _FORMAT,
        _ROUTE,
    ),
    "queryMsgByKey": _command(
        "Messages by key.",
        "messages:query_by_key",
        _TOPIC,
        _need("k", "msgKey", "Key."),
        Flag("b", "beginTimestamp", "Stored at or after this time (ms)."),
        Flag("e", "endTimestamp", "Stored at or before this time (ms)."),
        Flag("m", "maxNum", "So many at most; 64 unless given."),
        _ROUTE,
        Flag("p", "keyType", "K: by key, the only one here."),
        Flag("l", "lastKey", "Accepted for old scripts."),
    ),
    "queryMsgByUniqueKey": _command(
        "A message by the id its sender got.",
        "messages:query_by_unique_key",
        _need("i", "msgId", "Message id."),
        _TOPIC,
        Flag("g", "consumerGroup", "With -d: the group of that client."),
        Flag("d", "clientId", "Let this consumer have it again, now."),
        _switch("a", "showAll", "All messages with this id, 32 at most."),
        _ROUTE,
        Flag("s", "startTime", "Stored at or after this time (ms)."),
        Flag("e", "endTime", "Stored at or before this time (ms)."),
    ),
    "queryMsgByOffset": _command(
        "A message by its place in a queue.",
        "messages:query_by_offset",
        _TOPIC,
        _need("b", "brokerName", "Broker."),
        _need("i", "queueId", "Queue."),
        _need("o", "offset", "Offset in the queue."),
        _FORMAT,
        Flag("r", "routeTopic", "Accepted for old scripts; the topic's own route is used."),
    ),
    "queryMsgTraceById": _command(
        "The trace of a message, where clients write traces.",
        "trace:query_trace",
        _need("i", "msgId", "Message id."),
        Flag("t", "traceTopic", "Topic of the traces; RMQ_SYS_TRACE_TOPIC unless given."),
        Flag("b", "beginTimestamp", "Stored at or after this time (ms)."),
        Flag("e", "endTimestamp", "Stored at or before this time (ms)."),
        Flag("c", "maxNum", "So many records at most; 64 unless given."),
    ),
    "queryCq": _command(
        "Units of a consume queue.",
        "messages:query_cq",
        _TOPIC,
        _need("q", "queue", "Queue."),
        _need("i", "index", "First unit."),
        Flag("c", "count", "So many; 10 unless given."),
        Flag("b", "broker", "The broker, by address; the first of the topic unless given."),
        Flag("g", "consumer", "Add this group's subscription."),
    ),
    "printMsg": _command(
        "The messages of a topic.",
        "reading:print_msg",
        _TOPIC,
        _CHARSET,
        _SUB,
        _BEGIN,
        _END,
        Flag("d", "printBody", "false: without bodies."),
        Flag("l", "lmqParentTopic", "Accepted for old scripts."),
    ),
    "printMsgByQueue": _command(
        "The messages of a queue, or how many have which tag.",
        "reading:print_msg_by_queue",
        _TOPIC,
        _need("a", "brokerName", "Broker."),
        _need("i", "queueId", "Queue."),
        _CHARSET,
        _SUB,
        _BEGIN,
        _END,
        Flag("p", "printMsg", "true: show the messages."),
        Flag("d", "printBody", "true: with bodies."),
        Flag("f", "calculate", "true: count tags."),
    ),
    "consumeMessage": _command(
        "Messages of a topic or queue, from an offset or a time on.",
        "reading:consume_message",
        _TOPIC,
        Flag("b", "brokerName", "Broker."),
        Flag("i", "queueId", "Queue."),
        Flag("o", "offset", "First offset."),
        Flag("g", "consumerGroup", "Accepted for old scripts; nothing is committed."),
        Flag("s", "beginTimestamp", _BEGIN.help),
        _END,
        Flag("c", "MessageNumber", "So many at most; 128 unless given."),
    ),
    "sendMessage": _command(
        "Send a message.",
        "messages:send_message",
        _TOPIC,
        _need("p", "body", "Body, as text."),
        Flag("k", "key", "Keys."),
        Flag("c", "tags", "Tag."),
        Flag("b", "broker", "Broker to send to."),
        Flag("i", "qid", "Queue to send to; needs -b."),
        Flag("m", "msgTraceEnable", "Accepted for old scripts; no trace is written."),
    ),
    "sendMsgStatus": _command(
        "Send messages to a broker and see how long each takes.",
        "messages:send_msg_status",
        _need("b", "brokerName", "Broker."),
        Flag("s", "messageSize", "Bytes of a body; 128 unless given."),
        Flag("c", "count", "So many messages; 50 unless given."),
    ),
    "checkMsgSendRT": _command(
        "Send messages to a topic and see how long each takes.",
        "messages:check_send_rt",
        _TOPIC,
        Flag("a", "amount", "So many messages; 100 unless given."),
        Flag("s", "size", "Bytes of a body; 128 unless given."),
    ),
}

_SERVERS: Final = {
    "clusterList": _command(
        "All brokers with their rates.",
        "servers:cluster_list",
        _switch("m", "moreStats", "Messages of today and yesterday instead."),
        Flag("i", "interval", "Repeat after so many seconds, until Ctrl-C."),
        _CLUSTER,
    ),
    "brokerStatus": _command(
        "Everything a broker tells about itself.",
        "servers:broker_status",
        _BROKER,
        _CLUSTER,
        one_of="brokerAddr clusterName",
    ),
    "getBrokerConfig": _command(
        "All options of a broker.", "servers:get_broker_config", _BROKER, _CLUSTER, one_of="brokerAddr clusterName"
    ),
    "updateBrokerConfig": _command(
        "Change an option of brokers.",
        "servers:update_broker_config",
        _BROKER,
        _CLUSTER,
        Flag("a", "updateAllBroker", "true: with -c, slaves too."),
        _KEY,
        _VALUE,
        one_of="brokerAddr clusterName",
    ),
    "haStatus": _command(
        "How a broker stands with its replicas.",
        "servers:ha_status",
        _BROKER,
        _CLUSTER,
        Flag("i", "interval", "Repeat after so many seconds, until Ctrl-C."),
        one_of="brokerAddr clusterName",
    ),
    "cleanExpiredCQ": _command(
        "Delete consume queues whose messages are gone.", "servers:clean_expired_cq", _BROKER, _IN_CLUSTER
    ),
    "cleanUnusedTopic": _command(
        "Delete consume queues of topics that no longer exist.", "servers:clean_unused_topic", _BROKER, _IN_CLUSTER
    ),
    "deleteExpiredCommitLog": _command(
        "Delete log files that are old enough.", "servers:delete_expired_commit_log", _BROKER, _IN_CLUSTER
    ),
    "wipeWritePerm": _command(
        "Take a broker out of the routes of producers.",
        "servers:wipe_write_perm",
        _need("b", "brokerName", "Broker, by name."),
    ),
    "addWritePerm": _command(
        "Put a broker back into the routes of producers.",
        "servers:add_write_perm",
        _need("b", "brokerName", "Broker, by name."),
    ),
    "getNamesrvConfig": _command("All options of the name servers.", "servers:get_namesrv_config"),
    "updateNamesrvConfig": _command(
        "Change an option of the name servers.", "servers:update_namesrv_config", _KEY, _VALUE
    ),
    "updateKvConfig": _command(
        "Let the name servers keep a value.",
        "servers:update_kv_config",
        _need("s", "namespace", "Namespace."),
        _KEY,
        _VALUE,
    ),
    "deleteKvConfig": _command(
        "Let the name servers forget a value.",
        "servers:delete_kv_config",
        _need("s", "namespace", "Namespace."),
        _KEY,
    ),
    "exportMetadata": _command(
        "Write topics and groups to a file.",
        "export:export_metadata",
        _CLUSTER,
        _BROKER,
        _FOLDER,
        _switch("t", "topic", "Topics only."),
        _switch("g", "subscriptionGroup", "Groups only."),
        _switch("s", "specialTopic", "With topics of retries and dead letters."),
        one_of="clusterName brokerAddr",
    ),
    "exportConfigs": _command(
        "Write the main options of all brokers to a file.",
        "export:export_configs",
        _need("c", "clusterName", "The cluster."),
        _FOLDER,
    ),
}

COMMANDS: Final[Mapping[str, AdminCommand]] = {**_TOPICS, **_GROUPS, **_MESSAGES, **_SERVERS}

_NO_USERS: Final = "this version knows no users and no access lists"
_NO_CONTROLLER: Final = "there is no controller: brokers here do not elect masters"
_NO_ROCKSDB: Final = "nothing here is kept in RocksDB"
_NO_LITE: Final = "there are no lite topics"
_NO_COLD: Final = "reads of cold data are not throttled"
_NO_STATIC: Final = "there are no static topics"
_NO_CONTAINER: Final = "there are no broker containers; `flaremq broker --processes N` starts several brokers"
# Commands of RocketMQ that are not here, and why: an answer that tells them from a typing error.
ABSENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("createUser", "updateUser", "deleteUser", "getUser", "listUser", "copyUser"), _NO_USERS),
    **dict.fromkeys(("createAcl", "updateAcl", "deleteAcl", "getAcl", "listAcl", "copyAcl"), _NO_USERS),
    **dict.fromkeys(("updateAclConfig", "deleteAclConfig", "clusterAclConfigVersion", "getAclConfig"), _NO_USERS),
    **dict.fromkeys(("updateGlobalWhiteAddr", "deleteAccessConfig"), _NO_USERS),
    **dict.fromkeys(("getSyncStateSet", "getBrokerEpoch", "getControllerMetaData"), _NO_CONTROLLER),
    **dict.fromkeys(("getControllerConfig", "updateControllerConfig", "electMaster"), _NO_CONTROLLER),
    **dict.fromkeys(("cleanBrokerMetadata", "resetMasterFlushOffset"), _NO_CONTROLLER),
    **dict.fromkeys(("exportMetadataInRocksDB", "rocksDBConfigToJson", "checkRocksdbCqWriteProgress"), _NO_ROCKSDB),
    **dict.fromkeys(("switchTimerEngine", "exportPopRecord"), _NO_ROCKSDB),
    **dict.fromkeys(("getBrokerLiteInfo", "getParentTopicInfo", "getLiteTopicInfo", "getLiteClientInfo"), _NO_LITE),
    **dict.fromkeys(("getLiteGroupInfo", "triggerLiteDispatch"), _NO_LITE),
    **dict.fromkeys(("getColdDataFlowCtrInfo", "updateColdDataFlowCtrGroupConfig"), _NO_COLD),
    **dict.fromkeys(("removeColdDataFlowCtrGroupConfig", "setCommitLogReadAheadMode"), _NO_COLD),
    **dict.fromkeys(("updateStaticTopic", "remappingStaticTopic"), _NO_STATIC),
    **dict.fromkeys(("addBroker", "removeBroker"), _NO_CONTAINER),
    "dumpCompactionLog": "there are no compacted topics",
    "startMonitoring": "use `flaremq group progress` from your monitoring",
    "clusterRT": "use checkMsgSendRT, or `flaremq bench`",
    "exportMetrics": "use brokerStatus and statsAll, or `flaremq cluster status -o json`",
}
