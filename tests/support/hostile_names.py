"""Names that would leave the store's folder if anybody let them, in every place where a client may put a name."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from tests.support.broker_lab import UNIQUE, pull_fields, send_header, texts
from tests.support.driven_store import batch_body

NAMES = (
    "../../evil", "..", ".", "a/../../../evil", "a/b", "/evil", "a\\b", "..\\..\\evil", "evil\0", "C:evil", "a\nb",
    "%2e%2e%2fevil", "~", "~/evil", "a b", "*", "$(evil)", "`evil`", ";evil", "x" * 300, "é", " ", "\u202eevil",
    "%RETRY%../../evil", "%DLQ%../../evil", "evil\x01", "commitlog/../../evil",
)  # fmt: skip


def requests_with_names(names: tuple[str, ...] = NAMES) -> Iterator[tuple[str, RemotingCommand]]:
    """(whom it is for, request): each name in each place."""
    for name in names:
        yield from _of_broker(name)
        yield from _of_name_server(name)


def _of_broker(name: str) -> Iterator[tuple[str, RemotingCommand]]:
    def request(code: int, ext: object = None, body: bytes = b"") -> tuple[str, RemotingCommand]:
        return "broker", RemotingCommand.request(code, ext, body)  # type: ignore[arg-type]

    for topic in (name, f"%RETRY%{name}", f"%DLQ%{name}"):
        yield request(310, send_header(topic).encode_letters(), b"b")
        yield request(10, send_header(topic).encode(), b"b")
        yield request(320, send_header(topic, batch=True).encode_letters(), batch_body((0, b"b", b"")))
    yield request(310, send_header("names", default_topic=name).encode_letters(), b"b")
    for prop in (
        "REAL_TOPIC",
        "RETRY_TOPIC",
        "INNER_MULTI_DISPATCH",
        "PGROUP",
        "CLUSTER",
        "POP_CK",
        "DLQ_ORIGIN_TOPIC",
    ):
        value = name.replace("\x01", "").replace("\x02", "")
        for detour in ("", "DELAY\x011\x02", "TIMER_DELAY_MS\x0150\x02", "TRAN_MSG\x01true\x02"):
            properties = f"{prop}\x01{value}\x02REAL_QID\x01../0\x02{detour}{UNIQUE}"
            yield request(310, send_header("names", properties=properties).encode_letters(), b"b")
        # The topics of timers and of POP take messages whose properties say where they go on to.
        due = f"{prop}\x01{value}\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02{UNIQUE}"
        yield request(310, send_header("rmq_sys_wheel_timer", properties=due).encode_letters(), b"b")
        revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
        mark = json.dumps({"t": name, "c": name, "so": 0, "q": 0, "rt": 1, "it": 1, "n": 1, "bm": 0, "d": [0]}).encode()
        for tag in ("ck", "ack", "bAck"):
            header = send_header(revive, properties=f"TAGS\x01{tag}\x02{UNIQUE}")
            yield request(310, header.encode_letters(), mark)
    pull = texts(pull_fields(name, 0, group=name, queue_id=0))
    yield request(11, pull)
    yield request(11, {**(pull or {}), "topic": "names"})
    offset = {"consumerGroup": name, "topic": name, "queueId": "0", "commitOffset": "1"}
    yield request(15, offset)
    yield request(15, {**offset, "topic": "names"})
    yield request(14, offset)
    back = {"offset": "0", "group": name, "delayLevel": "1", "originMsgId": name, "originTopic": name}
    yield request(36, back)
    topic_config = {"topic": name, "defaultTopic": name, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    topic_config |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    yield request(17, topic_config)
    yield request(18, None, json.dumps({"topicConfigList": [{"topicName": name}]}).encode())
    yield request(215, {"topic": name})
    yield request(200, None, json.dumps({"groupName": name}).encode())
    yield request(207, {"groupName": name, "cleanOffset": "true"})
    subscription = {"topic": name, "subString": name, "expressionType": name}
    consumer = {"groupName": name, "subscriptionDataSet": [subscription]}
    for client_id in (name, "client"):
        data = {"clientID": client_id, "producerDataSet": [{"groupName": name}], "consumerDataSet": [consumer]}
        yield request(34, None, json.dumps(data).encode())
    yield request(41, None, json.dumps({"consumerGroup": name, "clientId": name, "mqSet": [{"topic": name}]}).encode())
    yield request(222, {"topic": name, "group": name, "timestamp": "0", "isForce": "true"})
    yield request(314, {"srcGroup": name, "destGroup": name, "topic": name, "offline": "true"})
    yield request(401, None, json.dumps({"topic": name, "consumerGroup": name, "mode": "POP"}).encode())
    yield request(370, {"topic": name, "recallHandle": name, "producerGroup": name})
    pop = {"consumerGroup": name, "topic": name, "queueId": "-1", "maxMsgNums": "1", "invisibleTime": "1000"}
    pop |= {"pollTime": "0", "bornTime": "0", "initMode": "0", "exp": name, "expType": "TAG", "order": "false"}
    yield request(200050, pop)
    ack = {"consumerGroup": name, "topic": name, "queueId": "0", "extraInfo": name, "offset": "0"}
    yield request(200051, ack)
    half = {"producerGroup": name, "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8"}
    yield request(37, {**half, "msgId": name, "transactionId": name})
    yield request(12, {"topic": name, "key": name, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"})
    yield request(321, {"topic": name, "queueId": "0", "index": "0", "count": "1", "consumerGroup": name})
    yield request(25, None, f"{name}={name}\nstorePathRootDir={name}\n".encode())


def _of_name_server(name: str) -> Iterator[tuple[str, RemotingCommand]]:
    def request(code: int, ext: object = None, body: bytes = b"") -> tuple[str, RemotingCommand]:
        return "name server", RemotingCommand.request(code, ext, body)  # type: ignore[arg-type]

    register = {"brokerName": name, "brokerAddr": name, "clusterName": name, "haServerAddr": name, "brokerId": "0"}
    config = {
        "topicConfigSerializeWrapper": {"topicConfigTable": {name: {"topicName": name}}},
        "filterServerList": [name],
    }
    yield request(RequestCode.REGISTER_BROKER, register, json.dumps(config).encode())
    yield request(RequestCode.UNREGISTER_BROKER, register)
    yield request(RequestCode.PUT_KV_CONFIG, {"namespace": name, "key": name, "value": name})
    yield request(RequestCode.DELETE_KV_CONFIG, {"namespace": name, "key": name})
    yield request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
    yield request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": name, "clusterName": name})
    yield request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": name}, json.dumps({"queueDatas": [{}]}).encode())
    for key in ("kvConfigPath", "configStorePath", "rocketmqHome", "bindAddress", "productEnvName"):
        yield request(RequestCode.UPDATE_NAMESRV_CONFIG, None, f"{key}={name}\n".encode())
