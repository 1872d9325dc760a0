"""What mqadmin is asked in the tests, in this order, and what has to be in its answer.

``{topic}`` and the like are the names of ``java/Admin.java``: a topic of four queues with three messages each, its
producers, a connected group that has read them all and one that has left. Every pattern is a regular expression that
has to be found; blanks in it stand for any number of blanks, because the tool prints columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    command: str
    patterns: tuple[str, ...]
    only: str = ""  # the generation that has this command
    absent: tuple[str, ...] = ()  # must not be found
    is_refused: bool = False  # the tool has to print an exception; the patterns are about it

    def words(self, names: Mapping[str, str]) -> list[str]:
        return [word.format_map(names).replace("~", " ") for word in self.command.split(" ")]

    def complaints(self, text: str, names: Mapping[str, str]) -> list[str]:
        """What is wrong with this answer."""
        quoted = {name: re.escape(value) for name, value in names.items()}
        found = [f"no {pattern!r}" for pattern in self.patterns if not _search(pattern, quoted, text)]
        return found + [f"unexpected {pattern!r}" for pattern in self.absent if _search(pattern, quoted, text)]


def _search(pattern: str, names: Mapping[str, str], text: str) -> bool:
    for name, value in names.items():
        pattern = pattern.replace("{" + name + "}", value)
    return re.search(pattern.replace(" ", r"\s+"), text) is not None


_DEFAULT = "DefaultCluster broker-a"

# "~" in a command is a blank inside a word.
STEPS = (
    Step("clusterList", "clusterList", (_DEFAULT + r" 0 {broker} V\d_\d+_\d+ [\d.]+\(",)),
    Step("clusterList_totals", "clusterList -m", (_DEFAULT + r" \d+ \d+ \d+ \d+",)),
    Step(
        "brokerStatus",
        "brokerStatus -b {broker}",
        (
            r"bootTimestamp : \d{13}",
            r"commitLogMaxOffset : \d+",
            r"putMessageTimesTotal : \d+",
            r"getTotalTps : [\d.]+ [\d.]+ [\d.]+",
            r"brokerVersionDesc : V\d_\d+_\d+",
            r"commitLogDiskRatio : 0?\.?\d+",
            r"sendThreadPoolQueueSize : 0",
        ),
    ),
    Step("topicList", "topicList", ("{topic}", "TBW102", "%RETRY%{group}")),
    Step("topicList_by_cluster", "topicList -c", ("DefaultCluster {topic} {group}",)),
    Step("topicClusterList", "topicClusterList -t {topic}", ("DefaultCluster",)),
    Step("topicRoute", "topicRoute -t {topic}", (r'0:"{broker}"', r'"readQueueNums":4', r'"perm":6')),
    Step("topicStatus", "topicStatus -t {topic}", tuple(rf"broker-a {queue} 0 3 20\d\d-" for queue in range(4))),
    Step("topicStatus_of_none", "topicStatus -t {run}-none", ("CODE: 17",), is_refused=True),
    Step("topicRoute_of_none", "topicRoute -t {run}-none", ("CODE: 17",), is_refused=True),
    Step(
        "updateTopic",
        "updateTopic -c DefaultCluster -t {run}-made -r 3 -w 3",
        ("create topic to {broker} success", r"topicName={run}-made, readQueueNums=3, writeQueueNums=3, perm=RW-"),
    ),
    Step("updateTopic_is_seen", "topicRoute -t {run}-made", (r'"readQueueNums":3', r'"writeQueueNums":3')),
    Step(
        "updateTopic_with_bad_name",
        "updateTopic -b {broker} -t bad~name! -r 2 -w 2",
        ("illegal characters",),
        is_refused=True,
    ),
    Step(
        "updateTopicPerm",
        "updateTopicPerm -c DefaultCluster -t {run}-made -p 4",
        ("update topic perm from 6 to 4 in {broker} success",),
    ),
    Step("updateTopicPerm_is_seen", "topicRoute -t {run}-made", (r'"perm":4',)),
    Step("updateOrderConf_put", "updateOrderConf -t {run}-made -m put -v broker-a:3", ("update orderConf success",)),
    Step("updateOrderConf_get", "updateOrderConf -t {run}-made -m get", (r"orderConf=\[broker-a:3\]",)),
    Step("updateOrderConf_delete", "updateOrderConf -t {run}-made -m delete", ("delete orderConf success",)),
    Step(
        "updateSubGroup",
        "updateSubGroup -c DefaultCluster -g {run}-group -r 5 -q 2",
        ("create subscription group to {broker} success", "retryQueueNums=2, retryMaxTimes=5"),
    ),
    Step(
        "getConsumerConfig",
        "getConsumerConfig -g {run}-group",
        ("groupName = {run}-group", "retryQueueNums = 2", "retryMaxTimes = 5"),
        only="5",
    ),
    Step("queryMsgByKey", "queryMsgByKey -t {topic} -k {key}", ("{unique_id} {queue} 2",)),
    Step(
        "queryMsgById",
        "queryMsgById -i {offset_id} -t {topic}",
        ("Topic: {topic}", r"Keys: \[{key}\]", "Queue ID: {queue}", "Queue Offset: 2", "Store Host: {broker}"),
        only="5",
    ),
    Step(
        "queryMsgById",
        "queryMsgById -i {offset_id}",
        ("Topic: {topic}", r"Keys: \[{key}\]", "Queue ID: {queue}", "Queue Offset: 2", "Store Host: {broker}"),
        only="4",
    ),
    Step(
        "queryMsgByUniqueKey",
        "queryMsgByUniqueKey -t {topic} -i {unique_id}",
        ("Topic: {topic}", r"Tags: \[TagA\]", r"Keys: \[{key}\]", "Queue Offset: 2"),
    ),
    Step(
        "queryMsgByOffset",
        "queryMsgByOffset -t {topic} -b broker-a -i {queue} -o 2",
        ("OffsetID: {offset_id}", r"Keys: \[{key}\]"),
    ),
    Step(
        "printMsg",
        "printMsg -t {topic} -d true",
        (r"minOffset=0, maxOffset=3, MessageQueue \[topic={topic}, brokerName=broker-a, queueId=0\]", "body of {key}"),
    ),
    Step(
        "printMsgByQueue",
        "printMsgByQueue -t {topic} -a broker-a -i {queue} -p true -d true",
        ("queueOffset=0", "queueOffset=2", "body of {key}"),
    ),
    Step(
        "consumeMessage",
        "consumeMessage -t {topic} -b broker-a -i {queue} -o 0 -c 3 -g {run}-tool",
        ("Consume ok", "body of {key}"),
    ),
    Step(
        "sendMessage",
        "sendMessage -t {topic} -p sent~by~mqadmin -k sent-key -c TagB -b broker-a -i 2",
        (r"broker-a 2 SEND_OK [0-9A-F]{32}",),
    ),
    Step("sendMessage_is_stored", "topicStatus -t {topic}", (r"broker-a 2 0 4 20\d\d-",)),
    Step("consumerProgress", "consumerProgress -g {group}", tuple(rf"{{topic}} broker-a {q} 3 3 0" for q in (0, 1, 3))),
    Step("consumerProgress_of_all", "consumerProgress", (r"{group} 1 V\d_\d+_\d+ PUSH CLUSTERING",)),
    Step(
        "consumerConnection",
        "consumerConnection -g {group}",
        (r"@{consumer_instance} \S+:\d+ JAVA V\d_", r"{topic} \*", "ConsumeType: CONSUME_PASSIVELY", "CLUSTERING"),
    ),
    Step("consumerConnection_offline", "consumerConnection -g {offline}", ("CODE: 206",), is_refused=True),
    Step(
        "producerConnection",
        "producerConnection -g {producers} -t {topic}",
        (r"@{producer_instance} 127.0.0.1:\d+ JAVA V\d_",),
    ),
    Step("consumerStatus", "consumerStatus -g {group}", (r"@{consumer_instance} V\d_", "Rebalance OK")),
    Step("brokerConsumeStats", "brokerConsumeStats -b {broker}", (r"{topic} {group} broker-a 0 3 3 0",)),
    Step("statsAll", "statsAll", (r"{topic} {group} \d+ [\d.]+ [\d.]+ \d+ \d+",)),
    Step(
        "queryCq",
        "queryCq -b {broker} -t {topic} -q 0 -i 0 -c 3",
        ("max: 3, min: 0", r"physicOffset=\d+, physicSize=\d+, tagsCode=2598919"),
    ),
    Step(
        "allocateMQ",
        "allocateMQ -t {topic} -i 127.0.0.1,127.0.0.2",
        (r'"127.0.0.1":\[', r'"queueId":3,"topic":"{topic}"'),
    ),
    Step(
        "resetOffsetByTime_offline",
        "resetOffsetByTime -g {offline} -t {topic} -s 0",
        (r"broker-a 0 (3 3 0 )?0", r"broker-a 3 (3 3 0 )?0"),
    ),
    Step("resetOffsetByTime_is_seen", "consumerProgress -g {offline}", (r"{topic} broker-a 0 3 0 3",)),
    Step(
        "skipAccumulatedMessage",
        "skipAccumulatedMessage -g {offline} -t {topic}",
        (r"broker-a 0 (3 0 3 )?3", r"broker-a 2 (4 0 4 )?4"),
    ),
    Step("skipAccumulatedMessage_is_seen", "consumerProgress -g {offline}", (r"{topic} broker-a 2 4 4 0",)),
    Step("cloneGroupOffset", "cloneGroupOffset -s {group} -d {run}-group -t {topic}", ("clone group offset success",)),
    Step("resetOffsetByTime_online", "resetOffsetByTime -g {group} -t {topic} -s now", (r"broker-a 0 3",)),
    Step(
        "setConsumeMode", "setConsumeMode -c DefaultCluster -t {topic} -g {run}-group -m PULL -q 0", ("success",), "5"
    ),
    Step("exportMetadata", "exportMetadata -b {broker} -t -f export", ("export export/topic.json success",), "5"),
    Step(
        "haStatus",
        "haStatus -b {broker}",
        ("#MasterAddr {broker}", r"#MasterCommitLogMaxOffset \d+", "#SlaveNum 0"),
        "5",
    ),
    Step("getBrokerConfig", "getBrokerConfig -b {broker}", ("brokerName = broker-a", r"flushDiskType = A?SYNC_FLUSH")),
    Step(
        "updateBrokerConfig",
        "updateBrokerConfig -b {broker} -k fileReservedTime -v 48",
        ("update broker config success, {broker}",),
    ),
    Step("updateBrokerConfig_is_seen", "getBrokerConfig -b {broker}", ("fileReservedTime = 48",)),
    Step("getNamesrvConfig", "getNamesrvConfig", (r"listenPort = \d+",)),
    Step(
        "updateKvConfig",
        "updateKvConfig -s {run} -k name -v value",
        ("create or update kv config to namespace success",),
    ),
    Step("deleteKvConfig", "deleteKvConfig -s {run} -k name", ("delete kv config from namespace success",)),
    Step("cleanExpiredCQ", "cleanExpiredCQ -b {broker}", ("success",)),
    Step("cleanUnusedTopic", "cleanUnusedTopic -b {broker}", ("success",)),
    Step("deleteExpiredCommitLog", "deleteExpiredCommitLog -b {broker}", ("success",)),
    Step("wipeWritePerm", "wipeWritePerm -b broker-a", (r"wipe write perm of broker\[broker-a\] .* OK, \d+",)),
    Step("wipeWritePerm_is_seen", "topicRoute -t {topic}", (r'"perm":4',)),
    Step("addWritePerm", "addWritePerm -b broker-a", (r"add write perm of broker\[broker-a\] .* OK, \d+",)),
    Step("addWritePerm_is_seen", "topicRoute -t {topic}", (r'"perm":6',)),
    Step(
        "deleteSubGroup",
        "deleteSubGroup -c DefaultCluster -g {run}-group -r true",
        (r"delete subscription group \[{run}-group\] from broker \[{broker}\] .* success",),
    ),
    Step(
        "deleteTopic",
        "deleteTopic -c DefaultCluster -t {run}-made",
        (
            r"delete topic \[{run}-made\] from cluster \[DefaultCluster\] success",
            r"delete topic \[{run}-made\] from NameServer success",
        ),
    ),
    Step("deleteTopic_is_seen", "topicRoute -t {run}-made", ("CODE: 17",), is_refused=True),
)


def steps_of(version: str) -> tuple[Step, ...]:
    """Those a release's mqadmin has."""
    return tuple(step for step in STEPS if step.only in ("", version[0]))
