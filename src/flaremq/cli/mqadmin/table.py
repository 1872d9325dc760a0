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
    """One command. ``place`` is its function, as in ``topics:topic_list``."""

    summary: str
    place: str
    flags: list[Flag]

    @property
    def one_of(self) -> list[str]:
        """One of these must be given: the broker, or the cluster whose brokers are meant."""
        found = [flag.long for flag in self.flags if flag in (_SHARED["broker"], _SHARED["clusterName"])]
        return found if len(found) == 2 else []


def _flag(line: str) -> Flag:
    short, long, help = line.split(None, 2)
    return Flag(short[1:], long.rstrip("!?"), help, is_required=long.endswith("!"), has_value=not long.endswith("?"))


def _commands(table: str) -> dict[str, AdminCommand]:
    commands: dict[str, AdminCommand] = {}
    for line in table.splitlines():
        if not line.startswith(" "):
            name, place, summary = line.split(" ", 2)
            commands[name] = AdminCommand(summary, place, flags := [])
        elif line.lstrip().startswith("-"):
            flags.append(_flag(line))
        else:
            flags += [_SHARED[each] for each in line.split()]
    return commands


# A line a flag: short and long name and its help; ! behind the name: it must be given, ?: it is a switch.
# Flags that several commands have, by the name the table below uses:
_SHARED: Final = {
    name: _flag(line)
    for name, _, line in (
        line.partition(" ")
        for line in """\
broker -b brokerAddr One broker, by address.
clusterName -c clusterName All brokers of a cluster.
cluster -c cluster All brokers of a cluster.
topic -t topic! Topic.
groupName -g groupName! Consumer group.
consumerGroup -g consumerGroup! Consumer group.
group -g group! Consumer group.
route -c cluster Accepted for old scripts; the topic's own route is used.
force -f force Accepted for old scripts; a reset is always forced.
begin -b beginTimestamp From this time on: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.
end -e endTimestamp Up to this time: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.
charset -c charsetName How to read bodies as text; UTF-8 unless given.
subExpression -s subExpression Only these tags, as in 'TagA || TagB'.
bodyFormat -f bodyFormat Show the body too, read as this charset.
filePath -f filePath Folder to write to; rocketmq/export in the temporary folder unless given.
key -k key! Name.
value -v value! Value.
askedBroker -b brokerAddr Ask this broker only.
pushGroup -g consumerGroup With -d: the group of that client.
pushClient -d clientId Let this consumer have it again, now.
storedFrom -b beginTimestamp Stored at or after this time (ms).
storedUntil -e endTimestamp Stored at or before this time (ms).
msgId -i msgId! Message id.
queueId -i queueId! Queue.
interval -i interval Repeat after so many seconds, until Ctrl-C.
brokerName -b brokerName! Broker, by name.
namespace -s namespace! Namespace.
controller -a controllerAddress! A controller, by address.
controllers -a controllerAddress! The controllers, by address, separated by ;.
ofBroker -b brokerName One broker, by name.
username -u username! Name of the user.
subject -s subject! Who, as in User:name.
resources -r resources! Resources, as in Topic:orders,Group:g*; separated by commas.
actions -a actions! All, Pub, Sub, Create, Update, Delete, Get, List; separated by commas.
decision -d decision! Allow or Deny.
sourceIp -i sourceIp Only from these addresses or networks; separated by commas.
fromBroker -f fromBroker! From this broker, by address.
toBroker -t toBroker! To this broker, by address.
showSecrets - showSecrets? Show passwords and secrets that the broker tells.
""".splitlines()
    )
}

# Name, function and summary of a command, then its flags.
COMMANDS: Final[Mapping[str, AdminCommand]] = _commands("""\
updateTopic topics:update_topic Make a topic or change it.
    broker clusterName topic
    -r readQueueNums  Queues that can be read; 8 unless given.
    -w writeQueueNums Queues that can be written; 8 unless given.
    -p perm           2 write, 4 read, 6 both.
    -o order          true: keep the order of queues even while a broker is away.
    -u unit           true: set the unit flag.
    -s hasUnitSub     true: set the flag for unit subscriptions.
    -a attributes     Changes of attributes, as in +message.type=FIFO,-other.
updateTopicList topics:update_topic_list Make or change the topics of a file.
    broker clusterName
    -f filename! A JSON list of topic settings.
updateTopicPerm topics:update_topic_perm Change what may be done with a topic.
    broker clusterName topic
    -p perm! 2 write, 4 read, 6 both.
deleteTopic topics:delete_topic Delete a topic on brokers and name servers.
    topic
    -c clusterName! All brokers of this cluster.
topicList topics:topic_list All topics.
    -c clusterModel? With cluster and consumer groups.
topicRoute topics:topic_route The brokers and queues of a topic.
    topic
    -l list? As a table.
topicStatus topics:topic_status Both ends of each queue of a topic.
    topic route
topicClusterList topics:topic_cluster_list The clusters that have a topic.
    topic
updateOrderConf topics:update_order_conf Set, get or delete the order configuration of a topic.
    topic
    -v orderConf For put: queues by broker, as in broker-a:4;broker-b:4.
    -m method!   put, get or delete.
allocateMQ topics:allocate_mq How clients would share the queues of a topic.
    topic
    -i ipList! The clients, separated by commas.
statsAll stats:stats_all Rates and accumulation of all topics and groups.
    -a activeTopic? Only where something went on in the last day.
    -t topic        Only this topic.
updateSubGroup groups:update_sub_group Make a consumer group or change it.
    broker clusterName groupName
    -s consumeEnable                false: it may not consume.
    -m consumeFromMinEnable         true: it may begin at the oldest message.
    -d consumeBroadcastEnable       true: each consumer may get everything.
    -o consumeMessageOrderly        true: POP consumers keep the order.
    -q retryQueueNums               Queues for retries.
    -r retryMaxTimes                Deliveries after the first.
    -p groupRetryPolicy             How long to wait between them, as JSON.
    -i brokerId                     Broker id to consume from.
    -w whichBrokerWhenConsumeSlowly Broker id to consume from when far behind.
    -a notifyConsumerIdsChanged     false: do not tell consumers when others come or go.
    - attributes                   Changes of attributes, as in +a=b,-c.
updateSubGroupList groups:update_sub_group_list Make or change the consumer groups of a file.
    broker clusterName
    -f filename! A JSON list of group settings.
deleteSubGroup groups:delete_sub_group Delete a consumer group.
    broker clusterName groupName
    -r removeOffset true: forget how far it was.
getConsumerConfig groups:get_config The settings of a consumer group on each broker.
    groupName
setConsumeMode groups:set_consume_mode Let a group read a topic by PULL or POP.
    broker clusterName
    -t topicName!       Topic.
    groupName
    -m mode!            PULL or POP.
    -q popShareQueueNum Queues that clients share in POP mode.
consumerConnection connections:consumer_connection The connected consumers of a group and their subscriptions.
    consumerGroup askedBroker
producerConnection connections:producer_connection The connected producers of a group.
    -g producerGroup! Producer group.
    topic
producer connections:producer All producers of a broker.
    -b broker! The broker, by address.
consumerStatus connections:consumer_status What each consumer of a group tells about itself; written to a file each.
    consumerGroup
    -i clientId Only this client, to the screen.
    askedBroker
    -s jstack?  With stacks of its threads.
consumerProgress offsets:consumer_progress How far groups are behind.
    -g groupName    One group, queue by queue.
    -t topicName    Only this topic.
    -s showClientIP true: which client has which queue.
    route
brokerConsumeStats offsets:broker_consume_stats How far all groups of a broker are behind.
    -b brokerAddr!   The broker, by address.
    -t timeoutMillis Accepted for old scripts.
    -l level         Only queues that are at least so many messages behind.
    -o order         true: only ordered topics.
resetOffsetByTime offsets:reset_offset_by_time Let a group go on from another time.
    group topic
    -s timestamp! now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.
    force route
    -b broker     With -q: the broker, by address.
    -q queue      Only this queue.
    -o offset     With -q: to this offset.
skipAccumulatedMessage offsets:skip_accumulated Let a group go on at the end.
    group topic force route
cloneGroupOffset offsets:clone_group_offset Give a group the offsets of another.
    -s srcGroup!  The group that has them.
    -d destGroup! The group that gets them.
    topic
    -o offline    Accepted for old scripts.
queryMsgById messages:query_by_id A message by its offset id.
    topic
    -i msgId!      Offset id; several are separated by commas.
    pushGroup pushClient
    -s sendMessage true: send it once more.
    -u unitName    Accepted for old scripts.
    bodyFormat route
queryMsgByKey messages:query_by_key Messages by key.
    topic
    -k msgKey! Key.
    storedFrom storedUntil
    -m maxNum  So many at most; 64 unless given.
    route
    -p keyType K: by key, the only one here.
    -l lastKey Accepted for old scripts.
queryMsgByUniqueKey messages:query_by_unique_key A message by the id its sender got.
    msgId topic pushGroup pushClient
    -a showAll?  All messages with this id, 32 at most.
    route
    -s startTime Stored at or after this time (ms).
    -e endTime   Stored at or before this time (ms).
queryMsgByOffset messages:query_by_offset A message by its place in a queue.
    topic
    -b brokerName! Broker.
    queueId
    -o offset!     Offset in the queue.
    bodyFormat
    -r routeTopic  Accepted for old scripts; the topic's own route is used.
queryMsgTraceById trace:query_trace The trace of a message, where clients write traces.
    msgId
    -t traceTopic Topic of the traces; RMQ_SYS_TRACE_TOPIC unless given.
    storedFrom storedUntil
    -c maxNum     So many records at most; 64 unless given.
queryCq messages:query_cq Units of a consume queue.
    topic
    -q queue!   Queue.
    -i index!   First unit.
    -c count    So many; 10 unless given.
    -b broker   The broker, by address; the first of the topic unless given.
    -g consumer Add this group's subscription.
printMsg reading:print_msg The messages of a topic.
    topic charset subExpression begin end
    -d printBody      false: without bodies.
    -l lmqParentTopic Accepted for old scripts.
printMsgByQueue reading:print_msg_by_queue The messages of a queue, or how many have which tag.
    topic
    -a brokerName! Broker.
    queueId charset subExpression begin end
    -p printMsg    true: show the messages.
    -d printBody   true: with bodies.
    -f calculate   true: count tags.
consumeMessage reading:consume_message Messages of a topic or queue, from an offset or a time on.
    topic
    -b brokerName     Broker.
    -i queueId        Queue.
    -o offset         First offset.
    -g consumerGroup  Accepted for old scripts; nothing is committed.
    -s beginTimestamp From this time on: milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS.
    end
    -c MessageNumber  So many at most; 128 unless given.
sendMessage messages:send_message Send a message.
    topic
    -p body!          Body, as text.
    -k key            Keys.
    -c tags           Tag.
    -b broker         Broker to send to.
    -i qid            Queue to send to; needs -b.
    -m msgTraceEnable Accepted for old scripts; no trace is written.
sendMsgStatus messages:send_msg_status Send messages to a broker and see how long each takes.
    -b brokerName! Broker.
    -s messageSize Bytes of a body; 128 unless given.
    -c count       So many messages; 50 unless given.
checkMsgSendRT messages:check_send_rt Send messages to a topic and see how long each takes.
    topic
    -a amount So many messages; 100 unless given.
    -s size   Bytes of a body; 128 unless given.
clusterList servers:cluster_list All brokers with their rates.
    -m moreStats? Messages of today and yesterday instead.
    interval clusterName
brokerStatus servers:broker_status Everything a broker tells about itself.
    broker clusterName
getBrokerConfig servers:get_broker_config All options of a broker.
    broker clusterName
updateBrokerConfig servers:update_broker_config Change an option of brokers.
    broker clusterName
    -a updateAllBroker true: with -c, slaves too.
    key value
haStatus servers:ha_status How a broker stands with its replicas.
    broker clusterName interval
getSyncStateSet controllers:get_sync_state_set Master and SyncStateSet of brokers, as the controller knows them.
    controller ofBroker clusterName interval
getBrokerEpoch controllers:get_broker_epoch Which parts of their logs brokers have from which master.
    ofBroker clusterName interval
getControllerMetaData controllers:get_metadata Which controller leads.
    controller
getControllerConfig controllers:get_config All options of controllers.
    controllers
updateControllerConfig controllers:update_config Change an option of controllers.
    controllers key value
electMaster controllers:elect_master Make a broker of the SyncStateSet the master.
    controller
    -c clusterName! The cluster.
    -bn brokerName! The broker, by name.
    -b brokerId!    Which of the brokers of that name.
cleanBrokerMetadata controllers:clean_broker_metadata Let the controller forget brokers.
    controller
    -bn brokerName!               The broker, by name.
    -b brokerControllerIdsToClean Only the brokers with these ids, as in 1;2;3.
    -c clusterName                The cluster; needed unless -l is given.
    -l cleanLivingBroker?         Those that are alive, too.
resetMasterFlushOffset controllers:reset_master_flush_offset Let a slave forget how far its master had flushed.
    -b brokerAddr! The slave, by address.
    -o offset!     The offset it has to believe instead.
cleanExpiredCQ servers:clean Delete consume queues whose messages are gone.
    broker cluster
cleanUnusedTopic servers:clean Delete consume queues of topics that no longer exist.
    broker cluster
deleteExpiredCommitLog servers:clean Delete log files that are old enough.
    broker cluster
wipeWritePerm servers:change_write_perm Take a broker out of the routes of producers.
    brokerName
addWritePerm servers:change_write_perm Put a broker back into the routes of producers.
    brokerName
getNamesrvConfig servers:get_namesrv_config All options of the name servers.
updateNamesrvConfig servers:update_namesrv_config Change an option of the name servers.
    key value
updateKvConfig servers:update_kv_config Let the name servers keep a value.
    namespace key value
deleteKvConfig servers:delete_kv_config Let the name servers forget a value.
    namespace key
createUser users:create_user Make a user.
    broker clusterName username
    -p password! Its password; - reads it from stdin.
    -t userType  Super or Normal; Normal unless given.
updateUser users:update_user Change the password, the type or the status of a user.
    broker clusterName username
    -p password   A new password; - reads it from stdin.
    -t userType   Super or Normal.
    -s userStatus enable or disable.
deleteUser users:delete_user Delete a user and its policies.
    broker clusterName username
getUser users:get_user One user.
    broker clusterName username showSecrets
listUser users:list_user All users.
    broker clusterName
    -f filter Only names that contain this.
    showSecrets
copyUser users:copy_user Copy users from one broker to another.
    fromBroker toBroker
    -u usernames Only these, separated by commas.
createAcl users:create_acl Let a user do something, or forbid it.
    broker clusterName subject resources actions decision sourceIp
updateAcl users:update_acl Change what a user may do with resources.
    broker clusterName subject resources actions decision sourceIp
deleteAcl users:delete_acl Forget what a user may do.
    broker clusterName subject
    -r resource Only what is said of this resource.
getAcl users:get_acl What a user may do.
    broker clusterName subject
listAcl users:list_acl What users may do.
    broker clusterName
    -s subject  Only subjects that contain this.
    -r resource Only resources that contain this.
copyAcl users:copy_acl Copy policies from one broker to another.
    fromBroker toBroker
    -s subjects Only these, separated by commas.
updateAclConfig users:update_acl_config Make an account of ACL 1.0 or change it.
    broker clusterName
    -a accessKey!         Its name.
    -s secretKey!         Its secret; - reads it from stdin.
    -w whiteRemoteAddress From there it needs no signature.
    -i defaultTopicPerm   DENY, PUB, SUB or PUB|SUB for topics that are not named.
    -u defaultGroupPerm   DENY, PUB, SUB or PUB|SUB for groups that are not named.
    -t topicPerms         As in topicA=DENY,topicB=PUB|SUB.
    -g groupPerms         As in groupA=SUB.
    -m admin              true: it may use administration.
deleteAclConfig users:delete_acl_config Delete an account of ACL 1.0.
    broker clusterName
    -a accessKey! Its name.
deleteAccessConfig users:delete_acl_config Delete an account of ACL 1.0; the older name of deleteAclConfig.
    broker clusterName
    -a accessKey! Its name.
updateGlobalWhiteAddr users:update_global_white_addr Say from where no account is needed (ACL 1.0).
    broker clusterName
    -g globalWhiteRemoteAddresses! Addresses, separated by commas.
    -p aclFileFullPath             The file of the broker to change.
clusterAclConfigVersion users:cluster_acl_config_version The ACL files of brokers and their versions (ACL 1.0).
    broker clusterName
getAclConfig users:get_acl_config Accounts and white list of brokers (ACL 1.0).
    broker clusterName showSecrets
getAccessConfigSubCommand users:get_acl_config The same; the older name of getAclConfig.
    broker clusterName showSecrets
exportMetadata export:export_metadata Write topics and groups to a file.
    clusterName broker filePath
    -t topic?             Topics only.
    -g subscriptionGroup? Groups only.
    -s specialTopic?      With topics of retries and dead letters.
exportConfigs export:export_configs Write the main options of all brokers to a file.
    -c clusterName! The cluster.
    filePath
""")

_NO_ROCKSDB: Final = "nothing here is kept in RocksDB"
_NO_LITE: Final = "there are no lite topics"
_NO_COLD: Final = "reads of cold data are not throttled"
_NO_STATIC: Final = "there are no static topics"
_NO_CONTAINER: Final = "there are no broker containers; `flaremq broker --processes N` starts several brokers"
# Commands of RocketMQ that are not here, and why: an answer that tells them from a typing error.
ABSENT: Final[Mapping[str, str]] = {
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
