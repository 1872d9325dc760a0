"""RocketMQ's own spelling: the names, the flags, and every column where scripts look for it.

Header lines and rows below are what the tool of RocketMQ 5.5.0 printed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq import sync
from flaremq.cli.mqadmin import text
from flaremq.cli.mqadmin.arguments import parse_time
from flaremq.cli.mqadmin.messages import _keep_body as keep_body
from flaremq.cli.mqadmin.table import ABSENT, COMMANDS
from flaremq.cli.mqadmin.trace import trace_records
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.message.message import Message
from flaremq.message.properties import encode_properties
from flaremq.message.record.codec import encode_record
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.testing import EphemeralBroker
from tests.support.admin_cli import Shell, until
from tests.support.cli import flaremq

# Those a tool needs for the ladder of capabilities, and those people use most.
NEEDED = """
    addWritePerm allocateMQ brokerConsumeStats brokerStatus cleanExpiredCQ cleanUnusedTopic cloneGroupOffset clusterList
    consumeMessage consumerConnection consumerProgress consumerStatus deleteExpiredCommitLog deleteKvConfig
    deleteSubGroup deleteTopic exportMetadata getBrokerConfig getConsumerConfig getNamesrvConfig haStatus printMsg
    printMsgByQueue producerConnection queryCq queryMsgById queryMsgByKey queryMsgByOffset queryMsgByUniqueKey
    queryMsgTraceById resetOffsetByTime sendMessage setConsumeMode skipAccumulatedMessage statsAll topicClusterList
    topicList topicRoute topicStatus updateBrokerConfig updateKvConfig updateOrderConf updateSubGroup updateTopic
    updateTopicPerm wipeWritePerm
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def shell(cluster: EphemeralBroker) -> Shell:
    shell = Shell(cluster)
    shell.fill("Old", 6, queues=2)
    shell.consume("OldGroup", "Old", 6)
    return shell


def test_every_command_that_tools_need_is_there_and_has_a_function() -> None:
    assert set(NEEDED) <= set(COMMANDS)
    for name, command in COMMANDS.items():
        module, _, function = command.place.partition(":")
        work = getattr(importlib.import_module(f"flaremq.cli.mqadmin.{module}"), function)
        assert list(inspect.signature(work).parameters)[1] == "args", name
        long_names = [flag.long for flag in command.flags]
        assert len(set(long_names)) == len(long_names) and set(command.one_of) <= set(long_names), name
        short_names = [flag.short for flag in command.flags if flag.short]
        assert len(set(short_names)) == len(short_names) and "n" not in short_names, name
    assert not {name.lower() for name in COMMANDS} & {name.lower() for name in ABSENT}


# --- the command line ---------------------------------------------------------------------------------------------


def test_alone_it_lists_all_commands() -> None:
    done = flaremq("mqadmin")
    assert done.code == 2
    assert [name for name in COMMANDS if not re.search(rf"^  {name} ", done.out + done.err, re.MULTILINE)] == []


def test_help_explains_the_flags_of_a_command() -> None:
    done = flaremq("mqadmin", "help", "consumerProgress")
    assert done.code == 0 and "-g, --groupName ARG" in done.out and "--namesrvAddr" in done.out
    assert flaremq("mqadmin", "help").out.startswith("Usage: flaremq mqadmin")
    assert flaremq("mqadmin", "help", "consumerProgres").code == 2


def test_an_unknown_command_is_answered_with_the_nearest_names() -> None:
    done = flaremq("mqadmin", "updateTopik")
    assert done.code == 2 and "did you mean updateTopic" in done.err and done.err.count("\n") == 1


def test_a_command_of_rocketmq_that_is_not_here_says_why() -> None:
    for name, reason in ABSENT.items():
        done = flaremq("mqadmin", name)
        assert done.code == 2 and reason in done.err, name


def test_names_may_be_written_in_any_case_and_flags_in_any_form(shell: Shell) -> None:
    expected = shell.mqadmin("topicStatus", "-t", "Old")
    for arguments in (("topicstatus", "-tOld"), ("TOPICSTATUS", "--topic=Old"), ("topicStatus", "--topic", "Old")):
        assert shell.mqadmin(*arguments) == expected
    assert flaremq("mqadmin", "topicStatus", "--namesrvAddr", shell.name_server, "-t", "Old").code == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("topicRoute",), "--topic"),
        (("updateTopic", "-t", "T"), "-b brokerAddr or -c clusterName"),
        (("queryMsgByOffset", "-t", "T", "-b", "b", "-i", "x", "-o", "0"), "--queueId"),
        (("updateTopic", "-t", "T", "-c", "DefaultCluster", "-o", "maybe"), "true or false"),
        (("resetOffsetByTime", "-g", "G", "-t", "Old", "-s", "teatime"), "yyyy-MM-dd"),
        (("printMsg", "-t", "Old", "-c", "KLINGON"), "KLINGON"),
        (("sendMessage", "-t", "Old", "-p", "x", "-i", "0"), "--broker"),
        (("updateOrderConf", "-t", "Old", "-m", "fetch"), "put, get or delete"),
        (("setConsumeMode", "-c", "DefaultCluster", "-t", "Old", "-g", "G", "-m", "PUSH"), "PULL or POP"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(shell: Shell, arguments: tuple[str, ...], hint: str) -> None:
    done = shell.run("mqadmin", *arguments)
    assert done.code == 2 and hint in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("topicRoute", "-t", "Nope"),
        ("topicStatus", "-t", "Nope"),
        ("consumerProgress", "-g", "Nope"),
        ("consumerConnection", "-g", "OldGroup"),
        ("getConsumerConfig", "-g", "Nope"),
        ("queryMsgByKey", "-t", "Old", "-k", "none"),
        ("queryMsgByUniqueKey", "-t", "Old", "-i", "none"),
        ("queryMsgByOffset", "-t", "Old", "-b", "broker-a", "-i", "0", "-o", "99"),
        ("updateOrderConf", "-t", "Nope", "-m", "get"),
        ("resetOffsetByTime", "-g", "OldGroup", "-t", "Nope", "-s", "now"),
        ("clusterList", "-c", "Nope"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_does_not_exist_is_one_sentence_and_code_1(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell.run("mqadmin", *arguments)
    assert (done.code, done.out) == (1, "") and done.err.count("\n") == 1


# --- topics -------------------------------------------------------------------------------------------------------


def test_topics(shell: Shell) -> None:
    address = shell.broker.address
    assert shell.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "AdminT", "-r", 3, "-w", 3) == [
        f"create topic to {address} success.",
        "TopicConfig [topicName=AdminT, readQueueNums=3, writeQueueNums=3, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]",
    ]
    assert "AdminT" in shell.mqadmin("topicList")
    assert shell.mqadmin("updateTopicPerm", "-c", "DefaultCluster", "-t", "AdminT", "-p", 4) == [
        f"update topic perm from 6 to 4 in {address} success."
    ]
    assert shell.mqadmin("updateTopicPerm", "-b", address, "-t", "AdminT", "-p", 6)[1] == (
        "TopicConfig [topicName=AdminT, readQueueNums=3, writeQueueNums=3, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]."
    )
    assert shell.mqadmin("topicClusterList", "-t", "AdminT") == ["DefaultCluster"]
    shares = json.loads(shell.ok("mqadmin", "allocateMQ", "-t", "AdminT", "-i", "b,a"))["result"]
    assert {client: [queue["queueId"] for queue in queues] for client, queues in shares.items()} == {
        "a": [0, 1],
        "b": [2],
    }
    assert shell.mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "AdminT") == [
        "delete topic [AdminT] from cluster [DefaultCluster] success.",
        "delete topic [AdminT] from NameServer success.",
    ]
    assert "AdminT" not in shell.mqadmin("topicList")


def test_topic_route_as_json_and_as_a_table(shell: Shell) -> None:
    address = shell.broker.address
    assert shell.ok("mqadmin", "topicRoute", "-t", "Old") == (
        '{\n\t"brokerDatas":[\n\t\t{\n\t\t\t"brokerAddrs":{\n'
        f'\t\t\t\t0:"{address}"\n'
        '\t\t\t},\n\t\t\t"brokerName":"broker-a",\n\t\t\t"cluster":"DefaultCluster",\n'
        '\t\t\t"enableActingMaster":false\n\t\t}\n\t],\n\t"filterServerTable":{},\n\t"queueDatas":[\n\t\t{\n'
        '\t\t\t"brokerName":"broker-a",\n\t\t\t"perm":6,\n\t\t\t"readQueueNums":2,\n\t\t\t"topicSysFlag":0,\n'
        '\t\t\t"writeQueueNums":2\n\t\t}\n\t]\n}\n'
    )
    lines = shell.mqadmin("topicRoute", "-t", "Old", "-l")
    assert lines[0] == (
        "#ClusterName                                  #BrokerName                      "
        "#BrokerAddrs                                       #ReadQueue #WriteQueue #Perm"
    )
    assert (
        lines[1] == f"{'DefaultCluster':<46}{'broker-a':<33}{{0={address}}}".ljust(130) + "2          2           6    "
    )
    assert lines[2:] == ["-" * 158, f"{'Total:':<46}{1:<84}2          2                "]


def test_topic_status(shell: Shell) -> None:
    lines = shell.mqadmin("topicStatus", "-t", "Old")
    assert lines[0] == (
        "#Broker Name                      #QID  #Min Offset           #Max Offset             #Last Updated"
    )
    assert re.fullmatch(
        r"broker-a                          0     0                     3                       "
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}",
        lines[1],
    )
    assert lines[3] == "" and re.fullmatch(r"Topic Put TPS: \d+\.\d+", lines[4])


def test_topic_list_with_clusters_and_groups(shell: Shell) -> None:
    lines = shell.mqadmin("topicList", "-c")
    assert lines[0] == f"{'#Cluster Name':<22}{'#Topic':<50}{'#Consumer Group':<48}"
    assert f"{'DefaultCluster':<22}{'Old':<66}{'OldGroup':<64}" in lines
    assert f"{'DefaultCluster':<22}{'TBW102':<66}{'':<64}" in lines
    assert not [line for line in lines if "%RETRY%" in line]


def test_order_configuration(shell: Shell) -> None:
    lines = shell.mqadmin("updateTopic", "-b", shell.broker.address, "-t", "AdminO", "-r", 2, "-w", 2, "-o", "true")
    assert lines[0] == "set broker orderConf. isOrder=true, orderConf=[broker-a:2]"
    assert "order=true" in lines[2]
    put = shell.mqadmin("updateOrderConf", "-t", "AdminO", "-m", "put", "-v", "broker-a:3")
    assert put == ["update orderConf success. topic=[AdminO], orderConf=[broker-a:3]"]
    got = shell.mqadmin("updateOrderConf", "-t", "AdminO", "-m", "get")
    assert got == ["get orderConf success. topic=[AdminO], orderConf=[broker-a:3] "]
    gone = shell.mqadmin("updateOrderConf", "-t", "AdminO", "-m", "delete")
    assert gone == ["delete orderConf success. topic=[AdminO]"]


def test_lists_of_topics_and_groups_come_from_files(shell: Shell, tmp_path: Path) -> None:
    topics, groups = tmp_path / "topics.json", tmp_path / "groups.json"
    topics.write_text('[{"topicName":"FromFile","readQueueNums":2,"writeQueueNums":2}]', encoding="utf-8")
    groups.write_text('[{"groupName":"GroupFromFile","retryMaxTimes":4}]', encoding="utf-8")
    address = shell.broker.address
    assert shell.mqadmin("updateTopicList", "-b", address, "-f", topics) == [
        f"submit batch of topic config to {address} success, please check the result later."
    ]
    assert shell.mqadmin("updateSubGroupList", "-c", "DefaultCluster", "-f", groups) == [
        f"submit batch of group config to {address} success, please check the result later."
    ]
    assert shell.rows("topic", "route", "FromFile")[0]["readQueueNums"] == 2
    (row,) = [row for row in shell.rows("group", "list") if row["group"] == "GroupFromFile"]
    assert row["retryMaxTimes"] == 4
    topics.write_text("{", encoding="utf-8")
    assert shell.run("mqadmin", "updateTopicList", "-b", address, "-f", topics).code == 2


def test_rates_of_topics_and_groups(shell: Shell) -> None:
    lines = shell.mqadmin("statsAll")
    assert lines[0] == (
        f"{'#Topic':<66}{'#Consumer Group':<65}#Accumulation      #InTPS     #OutTPS   #InMsg24Hour  #OutMsg24Hour"
    )
    (line,) = [line for line in lines if line.startswith("Old ")]
    assert re.fullmatch(rf"{'Old':<66}{'OldGroup':<64} {0:>12} +\d+\.\d\d +\d+\.\d\d +\d+ +\d+", line)
    assert any(line.startswith("TBW102 ") and line.endswith("    NO_CONSUMER") for line in lines)
    assert shell.mqadmin("statsAll", "-t", "Old")[1:] == [
        line for line in shell.mqadmin("statsAll", "-t", "Old") if line.startswith("Old ")
    ]
    assert not [line for line in shell.mqadmin("statsAll", "-a") if line.startswith("TBW102")]


# --- groups -------------------------------------------------------------------------------------------------------


def test_groups(shell: Shell) -> None:
    address = shell.broker.address
    assert shell.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "CG_ADM", "-r", 5, "-q", 2) == [
        f"create subscription group to {address} success.",
        "SubscriptionGroupConfig{groupName=CG_ADM, consumeEnable=true, consumeFromMinEnable=false, "
        "consumeBroadcastEnable=false, consumeMessageOrderly=false, retryQueueNums=2, retryMaxTimes=5, "
        "groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED, exponentialRetryPolicy=null, customizedRetryPolicy=null}, "
        "brokerId=0, whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=true, groupSysFlag=0, "
        "consumeTimeoutMinute=15, subscriptionDataSet=null, attributes={}}",
    ]
    lines = shell.mqadmin("getConsumerConfig", "-g", "CG_ADM")
    assert lines[0] == f"{'=' * 29}DefaultCluster:broker-a{'=' * 29}"
    assert "retryMaxTimes                           =  5" in lines
    assert "subscriptionDataSet                     =  " in lines
    mode = shell.mqadmin("setConsumeMode", "-c", "DefaultCluster", "-t", "Old", "-g", "CG_ADM", "-m", "POP", "-q", 1)
    assert mode == [
        f"set consume mode to {address} success.",
        "topic[Old] group[CG_ADM] consume mode[POP] popShareQueueNum[1]",
    ]
    assert shell.mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", "CG_ADM", "-r", "true") == [
        f"delete subscription group [CG_ADM] from broker [{address}] in cluster [DefaultCluster] success."
    ]
    assert shell.run("mqadmin", "getConsumerConfig", "-g", "CG_ADM").code == 1


def test_progress_of_one_group(shell: Shell) -> None:
    lines = shell.mqadmin("consumerProgress", "-g", "OldGroup", "-t", "Old")
    assert lines[0] == (
        f"{'#Topic':<66}{'#Broker Name':<34}#QID  #Broker Offset        #Consumer Offset      "
        "#Diff                #Inflight           #LastTime"
    )
    assert re.fullmatch(
        rf"{'Old':<66}{'broker-a':<34}0     3                     3                     "
        r"0                    0                    \d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        lines[1],
    )
    assert lines[3] == "" and re.fullmatch(r"Consume TPS: \d+\.\d\d", lines[4])
    assert lines[5:] == ["Consume Diff Total: 0", "Consume Inflight Total: 0"]
    shown = shell.mqadmin("consumerProgress", "-g", "OldGroup", "-t", "Old", "-s", "true")
    assert "#Consumer Offset      #Client IP           #Diff" in shown[0] and " N/A " in shown[1]


def test_progress_of_all_groups_and_of_a_broker(shell: Shell) -> None:
    lines = shell.mqadmin("consumerProgress")
    assert lines[0] == (f"{'#Group':<66}#Count  #Version                 #Type  #Model          #TPS     #Diff Total")
    (line,) = [line for line in lines if line.startswith("OldGroup ")]
    assert line.startswith(f"{'OldGroup':<66}0       OFFLINE                                         ")
    lines = shell.mqadmin("brokerConsumeStats", "-b", shell.broker.address)
    assert lines[0] == (
        f"{'#Topic':<66}{'#Group':<66}{'#Broker Name':<34}#QID  #Broker Offset        #Consumer Offset      "
        "#Diff                 #LastTime"
    )
    assert [line for line in lines if line.startswith(f"{'Old':<66}{'OldGroup':<66}{'broker-a':<34}0     3 ")]
    assert lines[-2] == "" and re.fullmatch(r"Diff Total: \d+", lines[-1])


def test_moving_a_group(shell: Shell) -> None:
    header = f"{'#brokerName':<42}{'#queueId':<42}{'#offset':<40}"

    def row(queue_id: int, offset: int) -> str:
        return f"{'broker-a':<42}{queue_id:<42}{offset:<40}"

    lines = shell.mqadmin("resetOffsetByTime", "-g", "OldGroup", "-t", "Old", "-s", 0)
    assert lines == [
        "start reset consumer offset by specified, group[OldGroup], topic[Old], force[true], timestamp(string)[0], "
        "timestamp(long)[0]",
        header,
        row(0, 0),
        row(1, 0),
    ]
    one = shell.mqadmin(
        "resetOffsetByTime", "-g", "OldGroup", "-t", "Old", "-s", -1, "-b", shell.broker.address, "-q", 1, "-o", 2
    )
    assert one[1] == "reset consumer offset to 2"
    progress = shell.mqadmin("consumerProgress", "-g", "OldGroup", "-t", "Old")
    assert [line.split()[4] for line in progress[1:3]] == ["0", "2"]
    assert shell.mqadmin("skipAccumulatedMessage", "-g", "OldGroup", "-t", "Old") == [header, row(0, 3), row(1, 3)]
    shell.ok("group", "create", "Cloned")
    assert shell.mqadmin("cloneGroupOffset", "-s", "OldGroup", "-d", "Cloned", "-t", "Old") == [
        "clone group offset success. srcGroup[OldGroup], destGroup=[Cloned], topic[Old]"
    ]
    assert {row["lag"] for row in shell.rows("group", "progress", "Cloned", "--topic", "Old")} == {0}


def test_connected_clients(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the status of each consumer goes to files in the working directory
    shell.fill("Live", 1)
    with (
        sync.Consumer(shell.name_server, group="LiveGroup", subscribe={"Live": "*"}) as consumer,
        sync.Producer(shell.name_server, group="LiveProducers") as producer,
    ):
        producer.send(Message("Live", b"x"))
        until(lambda: shell.run("mqadmin", "consumerConnection", "-g", "LiveGroup").code == 0)
        lines = shell.mqadmin("consumerConnection", "-g", "LiveGroup")
        assert lines[0] == "#ClientId                            #ClientAddr            #Language  #Version"
        assert lines[1].split()[0] == consumer.client_id and lines[1].endswith("PYTHON     V5_5_0")
        assert lines[2:5] == ["", "Below is subscription:", "#Topic               #SubExpression"]
        assert "Live                 *" in lines and "MessageModel: CLUSTERING" in lines
        here = shell.mqadmin("consumerConnection", "-g", "LiveGroup", "-b", shell.broker.address)
        assert here == lines
        until(lambda: bool(shell.mqadmin("producerConnection", "-g", "LiveProducers", "-t", "Live")))
        (line,) = shell.mqadmin("producerConnection", "-g", "LiveProducers", "-t", "Live")
        assert re.fullmatch(rf"0001  {re.escape(producer.client_id):<32} +127.0.0.1:\d+ +PYTHON   V5_5_0", line)
        every = shell.mqadmin("producer", "-b", shell.broker.address)
        assert [line for line in every if f"(LiveProducers) instance : clientId={producer.client_id}," in line]
        until(lambda: len(shell.mqadmin("consumerProgress", "-g", "LiveGroup", "-t", "Live", "-s", "true")) > 5)
        status = shell.mqadmin("consumerStatus", "-g", "LiveGroup")
        assert status[0] == f"{'#Index':<11}{'#ClientId':<41}{'#Version':<21}#ConsumerRunningInfoFile"
        path = Path(status[1].split()[-1])
        assert path.read_text(encoding="utf-8").startswith("#Consumer Properties#\n")
        assert status[-3:] == ["Same subscription in the same group of consumer", "", "Rebalance OK"]
        shown = shell.mqadmin("consumerStatus", "-g", "LiveGroup", "-i", consumer.client_id)
        assert "#Consumer Subscription#" in shown
        assert f"001 Topic: {'%RETRY%LiveGroup':<40} ClassFilter: false    SubExpression: *" in shown


# --- messages -----------------------------------------------------------------------------------------------------


def test_sending(shell: Shell) -> None:
    shell.ok("topic", "create", "Mail", "--queues", 2)
    header, row = shell.mqadmin("sendMessage", "-t", "Mail", "-p", "sent by hand", "-k", "m-1", "-c", "TagM")
    assert header == "#Broker Name                      #QID  #Send Result            #MsgId"
    assert re.fullmatch(r"broker-a                          [01]     SEND_OK                 [0-9A-F]{32}", row)
    _, row = shell.mqadmin("sendMessage", "-t", "Mail", "-p", "x", "-b", "broker-a", "-i", 1)
    assert row.split()[1] == "1"
    lines = shell.mqadmin("sendMsgStatus", "-b", "broker-a", "-c", 2)
    assert len(lines) == 2 and re.match(r"rt=\d+ms, SendResult=SendResult \[sendStatus=SEND_OK, msgId=", lines[0])
    lines = shell.mqadmin("checkMsgSendRT", "-t", "Mail", "-a", 3)
    assert lines[0] == "#Broker Name                      #QID  #Send Result            #RT"
    assert len(lines) == 5 and re.fullmatch(r"Avg RT: \d+\.\d\d", lines[-1])


def test_finding_messages(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ids = shell.fill("Found", 3)
    until(lambda: shell.run("mqadmin", "queryMsgByKey", "-t", "Found", "-k", "k-2").code == 0)
    header, row = shell.mqadmin("queryMsgByKey", "-t", "Found", "-k", "k-2")
    assert header == f"{'#Message ID':<50} #QID {'#Offset':>40} {'#IndexKey':<200}"
    assert row.startswith(f"{ids[2]:<50} {0:>4} {2:>40} ")
    assert re.fullmatch(rf"\d+00000@Found@K@k-2@{ids[2]}@\d+", row[97:].rstrip())
    by_key = shell.mqadmin("queryMsgByUniqueKey", "-t", "Found", "-i", ids[1])
    names = [line.partition(":")[0] for line in by_key if line]
    assert names == [
        "Topic", "Tags", "Keys", "Queue ID", "Queue Offset", "CommitLog Offset", "Reconsume Times", "Born Timestamp",
        "Store Timestamp", "Born Host", "Store Host", "System Flag", "Properties", "Message Body Path",
    ]  # fmt: skip
    assert by_key[:3] == ["Topic:               Found", "Tags:                [A]", "Keys:                [k-1 all]"]
    body = by_key[13].split()[-1]
    assert Path(body) == tmp_path / "rocketmq" / "msgbodys" / ids[1] and Path(body).read_bytes() == b"body 1"
    by_offset = shell.mqadmin("queryMsgByOffset", "-t", "Found", "-b", "broker-a", "-i", 0, "-o", 1, "-f", "UTF-8")
    assert by_offset[0].startswith("OffsetID:            7F000001") and by_offset[1:14] == by_key[:13]
    assert by_offset[15] == "Message Body:        body 1"
    offset_id = by_offset[0].split()[-1]
    assert shell.mqadmin("queryMsgById", "-t", "Found", "-i", offset_id)[:15] == by_offset[:15]
    again = shell.mqadmin("queryMsgById", "-t", "Found", "-i", offset_id, "-s", "true")
    assert again[0].startswith(f"prepare resend msg. originalMsgId={offset_id}SendResult [sendStatus=SEND_OK, ")
    assert shell.run("mqadmin", "queryMsgById", "-t", "Found", "-i", "zz").code == 2


def test_a_message_shows_how_groups_stand_with_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shell.fill("Tracked", 1)
    shell.consume("TrackedGroup", "Tracked", 1)
    lines = shell.mqadmin("queryMsgByOffset", "-t", "Tracked", "-b", "broker-a", "-i", 0, "-o", 0)
    assert lines[15:17] == ["", ""]
    assert lines[17] == (
        "MessageTrack [consumerGroup=TrackedGroup, trackType=NOT_ONLINE, exceptionDesc=CODE:206 "
        "DESC:the consumer group[TrackedGroup] not online]"
    )


def test_a_consumer_gets_a_message_again_on_demand(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shell.fill("Again", 1)
    offset_id = shell.mqadmin("queryMsgByOffset", "-t", "Again", "-b", "broker-a", "-i", 0, "-o", 0)[0].split()[-1]
    seen: list[str] = []
    with sync.Consumer(shell.name_server, group="AgainGroup", subscribe={"Again": "*"}, start_from="first") as consumer:

        def work() -> None:
            for message in consumer:
                seen.append(message.body.decode())
                if len(seen) == 2:
                    message.ack()
                    return

        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: len(seen) == 1)
        line = shell.mqadmin(
            "queryMsgById", "-t", "Again", "-i", offset_id, "-g", "AgainGroup", "-d", consumer.client_id
        )[0]
        thread.join()
    assert re.match(r"ConsumeMessageDirectlyResult \[order=false, autoCommit=true, consumeResult=CR_SUCCESS, ", line)
    assert seen == ["body 0", "body 0"]


def test_reading_topics_and_queues(shell: Shell) -> None:
    ids = shell.fill("Read", 4, queues=2)
    lines = shell.mqadmin("printMsg", "-t", "Read")
    assert lines[0] == "minOffset=0, maxOffset=2, MessageQueue [topic=Read, brokerName=broker-a, queueId=0]"
    assert lines[1].startswith(f"MSGID: {ids[0]} MessageExt [brokerName=broker-a, queueId=0, storeSize=")
    assert lines[1].endswith("transactionId='null'}] BODY: body 0") and lines[3] == "-" * 56
    assert shell.mqadmin("printMsg", "-t", "Read", "-d", "false")[1].endswith("BODY: NOT PRINT BODY")
    filtered = shell.mqadmin("printMsg", "-t", "Read", "-s", "Other")
    assert filtered[1] == (
        "MessageQueue [topic=Read, brokerName=broker-a, queueId=0] no matched msg. status=NO_MATCHED_MSG, offset=2"
    )
    assert shell.mqadmin("printMsg", "-t", "Read", "-e", "2020-01-01#00:00:00:000")[0].startswith("minOffset=0, maxOff")
    queue = ("printMsgByQueue", "-t", "Read", "-a", "broker-a", "-i", 1)
    assert shell.mqadmin(*queue) == []
    assert shell.mqadmin(*queue, "-f", "true") == ["Tag: A                              Count: 2"]
    assert [line[7:39] for line in shell.mqadmin(*queue, "-p", "true")] == [ids[1], ids[3]]
    lines = shell.mqadmin("consumeMessage", "-t", "Read", "-b", "broker-a", "-i", 1, "-o", 1, "-c", 5)
    assert lines[:2] == ["The oldler 5 message will be provided", "Consume ok"] and lines[2][7:39] == ids[3]
    assert lines[3] == (
        "MessageQueue [topic=Read, brokerName=broker-a, queueId=1] print msg finished. status=NO_NEW_MSG, offset=2"
    )
    assert len([line for line in shell.mqadmin("consumeMessage", "-t", "Read") if line.startswith("MSGID")]) == 4


def test_units_of_a_queue(shell: Shell) -> None:
    lines = shell.mqadmin("queryCq", "-b", shell.broker.address, "-t", "Old", "-q", 0, "-i", 1, "-c", 1)
    assert lines[:4] == ["Queue data: ", "max: 3, min: 0", "=" * 38, "idx: 1"]
    assert re.fullmatch(
        r"ConsumeQueueData\{physicOffset=\d+, physicSize=\d+, tagsCode=65, extendDataJson='null', bitMap='null', "
        r"eval=false, msg='null'\}",
        lines[4],
    )
    assert lines[5:] == ["=" * 38]
    assert "Queue data: " in shell.mqadmin("queryCq", "-t", "Old", "-q", 0, "-i", 0)


def test_traces(shell: Shell) -> None:
    shell.ok("topic", "create", "Traces", "--queues", 1)
    fields = ["Pub", "1794847188911", "DefaultRegion", "PG", "Old", "ID7", "null", "tk", "127.0.0.1:1", "6", "272"]
    records = "\x01".join([*fields, "0", "OID", "true"]) + "\x02"
    records += "\x01".join(["SubBefore", "1794847271978", "DefaultRegion", "CGT", "REQ", "ID7", "0", "tk"]) + "\x02"
    records += "\x01".join(["SubAfter", "REQ", "ID7", "4", "true", "tk", "0"]) + "\x02"
    with sync.Producer(shell.name_server) as producer:
        producer.send(Message("Traces", records.encode(), keys=["ID7"]))
    until(lambda: shell.run("mqadmin", "queryMsgTraceById", "-i", "ID7", "-t", "Traces").code == 0)
    lines = shell.mqadmin("queryMsgTraceById", "-i", "ID7", "-t", "Traces")
    assert lines[0] == (
        "#Type      #ProducerGroup       #ClientHost          #SendTime            #CostTimes #Status   "
    )
    assert re.fullmatch(r"Pub        PG                   127.0.0.1            .{19}  272ms      success   ", lines[1])
    assert lines[3].startswith("#Type      #ConsumerGroup       #ClientHost          #ConsumerTime        #CostTimes")
    assert re.fullmatch(r"Sub        CGT                  127.0.0.1            .{19}  4ms        success   ", lines[4])
    assert shell.run("mqadmin", "queryMsgTraceById", "-i", "ID8", "-t", "Traces").code == 1
    assert list(trace_records(b"Pub\x01short\x02nonsense\x02\xff")) == []


# --- brokers and name servers ---------------------------------------------------------------------------------------


def test_brokers(shell: Shell) -> None:
    address = shell.broker.address
    header, row = shell.mqadmin("clusterList")
    assert header == (
        "#Cluster Name           #Broker Name            #BID  #Addr                  #Version              "
        "#InTPS(LOAD)                   #OutTPS(LOAD)  #Timer(Progress)        #PCWait(ms)  #Hour         #SPACE    "
        "#ACTIVATED"
    )
    assert row.startswith(f"{'DefaultCluster':<24}{'broker-a':<24}0     {address:<22} V5_5_0     ")
    assert len(row) == len(header) and row.endswith("      true")
    header, row = shell.mqadmin("clusterList", "-m")
    assert header == (
        "#Cluster Name     #Broker Name                       #InTotalYest  #OutTotalYest  #InTotalToday #OutTotalToday"
    )
    assert len(row) == len(header)
    status = shell.mqadmin("brokerStatus", "-b", address)
    assert "brokerVersionDesc               : V5_5_0" in status and status == sorted(status)
    lines = shell.mqadmin("brokerStatus", "-c", "DefaultCluster")
    assert f"{address:<24} {'brokerVersionDesc':<32}: V5_5_0" in lines
    assert shell.ok("mqadmin", "haStatus", "-b", address).startswith(f"\n#MasterAddr\t{address}\n#MasterCommitLogMax")
    assert shell.mqadmin("haStatus", "-c", "DefaultCluster")[5] == (
        "#SlaveAddr                        #SlaveAckOffset             #Diff #TransferSpeed(KB/s)          #Status "
        "#TransferFromWhere"
    )


def test_options_of_brokers(shell: Shell) -> None:
    address = shell.broker.address
    lines = shell.mqadmin("getBrokerConfig", "-b", address)
    assert lines[0] == f"============{address}============"
    assert f"{'brokerName':<50}=  broker-a" in lines
    assert shell.mqadmin("getBrokerConfig", "-c", "DefaultCluster")[0] == f"============Master: {address}============"
    change = ("updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v")
    assert shell.mqadmin(*change, 70) == [f"update broker config success, {address}"]
    assert f"{'fileReservedTime':<50}=  70" in shell.mqadmin("getBrokerConfig", "-b", address)
    assert shell.mqadmin(
        "updateBrokerConfig", "-c", "DefaultCluster", "-a", "true", "-k", "fileReservedTime", "-v", 72
    ) == [f"update broker config success, {address}"]


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_cleaning(shell: Shell, command: str) -> None:
    assert shell.mqadmin(command, "-b", shell.broker.address) == ["success"]
    assert shell.mqadmin(command, "-c", "DefaultCluster") == ["success"]
    assert shell.mqadmin(command) == ["success"]


def test_name_servers(shell: Shell) -> None:
    where = f"of broker[broker-a] in name server[{shell.name_server}] OK, "
    (wiped,) = shell.mqadmin("wipeWritePerm", "-b", "broker-a")
    assert re.fullmatch(rf"wipe write perm {re.escape(where)}\d+", wiped)
    (added,) = shell.mqadmin("addWritePerm", "-b", "broker-a")
    assert re.fullmatch(rf"add write perm {re.escape(where)}\d+", added)
    assert shell.mqadmin("updateKvConfig", "-s", "NS", "-k", "a", "-v", "b") == [
        "create or update kv config to namespace success."
    ]
    with sync.Admin(shell.name_server) as admin:
        assert admin.get_kv_config("NS", "a") == "b"
        assert shell.mqadmin("deleteKvConfig", "-s", "NS", "-k", "a") == ["delete kv config from namespace success."]
        assert admin.get_kv_config("NS", "a") is None
    lines = shell.mqadmin("getNamesrvConfig")
    assert lines[0] == f"============{shell.name_server}============"
    changed = shell.mqadmin("updateNamesrvConfig", "-k", "enableTopicList", "-v", "true")
    assert changed == [f"update name server config success![{shell.name_server}]", "enableTopicList : true"]
    assert f"{'enableTopicList':<50}=  true" in shell.mqadmin("getNamesrvConfig")


def test_settings_are_written_to_files(shell: Shell, tmp_path: Path) -> None:
    folder, address = tmp_path / "export", shell.broker.address

    def export(*arguments: object) -> dict[str, dict[str, object]]:
        (line,) = shell.mqadmin(*arguments, "-f", folder)
        path = line.removeprefix("export ").removesuffix(" success")
        assert Path(path).parent == folder
        value: dict[str, dict[str, object]] = json.loads(Path(path).read_text(encoding="utf-8"))
        return value

    every = export("exportMetadata", "-c", "DefaultCluster")
    assert "Old" in every["topicConfigTable"] and "OldGroup" in every["subscriptionGroupTable"]
    assert not {"TBW102", "%RETRY%OldGroup"} & set(every["topicConfigTable"])
    assert "TOOLS_CONSUMER" not in every["subscriptionGroupTable"]
    special = export("exportMetadata", "-b", address, "-t", "-s")
    assert "%RETRY%OldGroup" in special["topicConfigTable"]
    assert "OldGroup" in export("exportMetadata", "-b", address, "-g")["subscriptionGroupTable"]
    assert sorted(os.listdir(folder)) == ["metadata.json", "subscriptionGroup.json", "topic.json"]
    configs = export("exportConfigs", "-c", "DefaultCluster")
    assert configs["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}
    assert configs["brokerConfigs"]["broker-a"]["flushDiskType"] == "ASYNC_FLUSH"  # type: ignore[index]


# --- Java's texts ---------------------------------------------------------------------------------------------------


def test_texts_are_those_of_java() -> None:
    topic = TopicConfig(topic_name="NewU", read_queue_nums=8, write_queue_nums=8, perm=2, topic_sys_flag=3)
    assert text.topic_config_text(topic, {"+message.type": "FIFO"}) == (
        "TopicConfig [topicName=NewU, readQueueNums=8, writeQueueNums=8, perm=-W-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=3, order=false, attributes={+message.type=FIFO}]"
    )
    group = SubscriptionGroupConfig(
        group_name="CGN", group_retry_policy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    )
    assert (
        "groupRetryPolicy=GroupRetryPolicy{type=CUSTOMIZED, exponentialRetryPolicy=null, "
        "customizedRetryPolicy=CustomizedRetryPolicy{next=[1000, 5000]}}" in text.group_config_text(group)
    )
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}
    group = SubscriptionGroupConfig(group_name="CGN", group_retry_policy=policy)
    assert "ExponentialRetryPolicy{initial=5000, max=7200000, multiplier=2}" in text.group_config_text(group)
    assert text.indented_json({"a": [], "b": {}, "c": {1: "x"}}) == (
        '{\n\t"a":[\n\t\t\n\t],\n\t"b":{},\n\t"c":{\n\t\t1:"x"\n\t}\n}'
    )


def test_a_message_reads_as_java_writes_it(make_message: Callable[..., ReceivedMessage]) -> None:
    message = make_message(body="order é".encode(), unique_key="C000")
    shown = text.message_text(message)
    assert shown.startswith("MessageExt [brokerName=broker-a, queueId=0, storeSize=")
    assert "bornHost=/" in shown and "storeHost=/" in shown
    assert shown.endswith("body=[111, 114, 100, 101, 114, 32, -61, -87], transactionId='null'}]")
    assert "properties={UNIQ_KEY=C000}" in shown


@pytest.mark.parametrize("unique_key", ["../../escaped", "/absolute", "a/b", ".", "é"])
def test_a_body_is_kept_in_its_folder_whatever_the_id_says(
    unique_key: str, make_message: Callable[..., ReceivedMessage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    path = Path(keep_body(make_message(body=b"x", unique_key=unique_key)))
    assert path.parent == tmp_path / "temporary" / "rocketmq" / "msgbodys" and path.read_bytes() == b"x"


def test_a_body_is_never_written_through_a_link(
    make_message: Callable[..., ReceivedMessage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "rocketmq" / "msgbodys"
    folder.mkdir(parents=True)
    (tmp_path / "victim").write_bytes(b"precious")
    (folder / "C000").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        keep_body(make_message(body=b"x", unique_key="C000"))
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.fixture
def make_message() -> Callable[..., ReceivedMessage]:
    def make(*, body: bytes, unique_key: str) -> ReceivedMessage:
        data = encode_record(
            topic=b"T",
            body=body,
            properties=encode_properties({"UNIQ_KEY": unique_key}),
            queue_id=0,
            queue_offset=7,
            physical_offset=1000,
            born_timestamp=1,
            born_host=bytes([127, 0, 0, 1, 0, 0, 4, 0]),
            store_timestamp=2,
            store_host=bytes([127, 0, 0, 1, 0, 0, 8, 0]),
        )
        return ReceivedMessage(data, MessageQueue(topic="T", broker_name="broker-a", queue_id=0))

    return make


def test_times_of_the_original_are_read() -> None:
    assert parse_time("now", 7) == 7
    assert parse_time("-1", 7) == -1
    assert parse_time("1700000000000", 7) == 1_700_000_000_000
    moment = parse_time("2026-11-16#16:17:00:005", 7)
    assert moment % 1000 == 5 and moment - parse_time("2026-11-16#16:16:59:000", 7) == 1005
    for bad in ("2026-11-16", "soon", "2026-11-16#16:17:00"):
        with pytest.raises(ValueError):
            parse_time(bad, 7)


@pytest.mark.parametrize("milliseconds", [253402300800000, 2**63 - 1, -(2**62)])
def test_times_that_clients_made_up_are_shown_all_the_same(milliseconds: int) -> None:
    """A sender may claim any born time; the message must still be printed."""
    assert text.exact_text(milliseconds).endswith(f",{milliseconds % 1000:03d}")
    assert text.compact_text(milliseconds).endswith(f"{milliseconds % 1000:03d}")
