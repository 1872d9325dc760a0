"""The authority table a second time, by hand: for each request code a request, and all that it needs.

A need is ``Type:name action|action``; ``super``, ``inner``, ``own`` and ``signed`` mean what they do in the table. The
names are those of the request beside it. ``record`` is the topic of the stored record.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson


class Sample(NamedTuple):
    """One request, and what it needs."""

    ext: dict[str, str]
    body: bytes
    needs: tuple[str, ...]


CLUSTER = "DefaultCluster"
_T = {"topic": "tt"}
_G = {"consumerGroup": "gg"}
_TG = {**_T, **_G}
_PULL = ("Topic:tt SUB", "Group:gg SUB")
_POP = ("Group:gg SUB", "Topic:tt SUB")


def _json(value: object) -> bytes:
    return orjson.dumps(value)


def _of(ext: dict[str, str], *needs: str, body: object = None) -> Sample:
    return Sample(ext, b"" if body is None else _json(body), needs)


BROKER = {
    10: _of(_T, "Topic:tt PUB"),
    310: _of({"b": "tt"}, "Topic:tt PUB"),
    320: _of({"b": "tt"}, "Topic:tt PUB"),
    324: _of(_T, "Topic:tt PUB"),
    325: _of({"b": "tt"}, "Topic:tt PUB"),
    36: _of({"group": "gg", "offset": "100"}, "Group:gg SUB", "Topic:record SUB"),
    37: _of({"commitLogOffset": "100", "topic": "claimed"}, "Topic:record PUB"),
    370: _of(_T, "Topic:tt PUB"),
    900100: _of(_T, "Topic:tt PUB"),
    11: _of(_TG, *_PULL),
    361: _of(_TG, *_PULL),
    34: _of(
        {},
        "Group:gg SUB",
        "Topic:tt SUB",
        "Topic:uu SUB",
        body={
            "clientID": "c",
            "producerDataSet": [{"groupName": "pp"}],
            "consumerDataSet": [
                {
                    "groupName": "gg",
                    "subscriptionDataSet": [{"topic": "tt"}, {"topic": "uu"}, {"topic": "%RETRY%gg"}],
                }
            ],
        },
    ),
    35: _of({"clientID": "c", **_G}, "Group:gg SUB"),
    46: _of(
        {},
        "Group:gg SUB",
        "Topic:tt SUB",
        body={"clientId": "c", "group": "gg", "subscriptionData": {"topic": "tt"}},
    ),
    38: _of(_G, "Group:gg SUB|GET"),
    14: _of(_TG, "Topic:tt SUB|GET", "Group:gg SUB|GET"),
    15: _of(_TG, "Topic:tt SUB|UPDATE", "Group:gg SUB|UPDATE"),
    41: _of(
        {},
        "Group:gg SUB",
        "Topic:tt SUB",
        body={"consumerGroup": "gg", "clientId": "c", "mqSet": [{"topic": "tt", "brokerName": "b", "queueId": 0}]},
    ),
    42: _of(
        {},
        "Group:gg SUB",
        "Topic:tt SUB",
        body={"consumerGroup": "gg", "clientId": "c", "mqSet": [{"topic": "tt", "brokerName": "b", "queueId": 0}]},
    ),
    400: _of({}, "Group:gg SUB", "Topic:tt SUB", body={"consumerGroup": "gg", "topic": "tt", "clientId": "c"}),
    401: _of({}, "Group:gg UPDATE", "Topic:tt UPDATE", body={"consumerGroup": "gg", "topic": "tt", "mode": "POP"}),
    402: _of({}, "Cluster:DefaultCluster GET"),
    29: _of(_T, "Topic:tt GET|SUB"),
    30: _of(_T, "Topic:tt GET|SUB"),
    31: _of(_T, "Topic:tt GET|SUB"),
    32: _of(_T, "Topic:tt GET|SUB"),
    12: _of({**_T, "key": "k"}, "Topic:tt SUB|GET"),
    33: _of({"offset": "100", "topic": "claimed"}, "Topic:record GET|SUB"),
    200050: _of(_TG, *_POP),
    200051: _of(_TG, *_POP),
    200052: _of(_TG, *_POP),
    200053: _of(_TG, *_POP),
    200054: _of(_TG, *_POP),
    200055: _of(_TG, "Group:gg GET", "Topic:tt GET"),
    200151: _of({}, *_POP, body={"brokerName": "b", "acks": [{"c": "gg", "t": "tt", "r": "0", "b": "AQ=="}]}),
    17: _of(_T, "Topic:tt CREATE"),
    18: _of({}, "Topic:tt CREATE", body={"topicConfigList": [{"topicName": "tt"}]}),
    215: _of(_T, "Topic:tt DELETE"),
    351: _of(_T, "Topic:tt GET"),
    202: _of(_T, "Topic:tt GET"),
    300: _of(_T, "Topic:tt GET"),
    **{code: _of({}, "Cluster:DefaultCluster GET") for code in (21, 43, 45, 60, 61, 201, 305, 26, 28, 907, 1007)},
    **{code: _of({"x": "1"}, "Cluster:DefaultCluster GET") for code in (204, 328, 315, 317)},
    200: _of({}, "Group:gg CREATE", body={"groupName": "gg"}),
    207: _of({"groupName": "gg"}, "Group:gg DELETE"),
    352: _of({"group": "gg"}, "Group:gg GET"),
    343: _of({"group": "gg"}, "Group:gg GET"),
    203: _of(_G, "Group:gg GET"),
    307: _of({**_G, "clientId": "c"}, "Group:gg GET"),
    345: _of({"group": "gg", **_T}, "Group:gg GET", "Topic:tt GET"),
    303: _of({"group": "gg", **_T}, "Group:gg GET", "Topic:tt GET"),
    223: _of({"group": "gg", **_T}, "Group:gg GET", "Topic:tt GET"),
    321: _of({**_G, **_T}, "Group:gg GET", "Topic:tt GET"),
    25: _of({}, "super", body={"a": "b"}),
    208: _of(
        {**_G, "topic": "tt", "topicList": "uu;vv"}, "Group:gg GET", "Topic:tt GET", "Topic:uu GET", "Topic:vv GET"
    ),
    306: _of({}, "Cluster:DefaultCluster UPDATE"),
    316: _of({}, "Cluster:DefaultCluster UPDATE"),
    329: _of({}, "Cluster:DefaultCluster UPDATE"),
    222: _of({"group": "gg", **_T}, "Group:gg UPDATE", "Topic:tt UPDATE"),
    309: _of({**_G, "msgId": "7F00000100002A9F0000000000000064"}, "Group:gg SUB", "Topic:record SUB"),
    314: _of({"srcGroup": "ss", "destGroup": "gg", **_T}, "Group:gg UPDATE", "Topic:tt UPDATE", "Group:ss GET"),
    323: _of({"msgId": "7F00000100002A9F0000000000000064"}, "Topic:record UPDATE"),
    **{code: _of({"accessKey": "x"}, "super") for code in (50, 51, 52, 53, 54)},
    **{code: _of({"username": "x"}, "super") for code in (3001, 3002, 3003, 3004, 3005)},
    **{code: _of({"subject": "User:x"}, "super") for code in (3006, 3007, 3008, 3010)},
    3009: _of({"subject": "User:x"}, "own"),
    906: _of({}, "inner"),
    908: _of({}, "inner"),
    1008: _of({}, "inner"),
}
NAME_SERVER = {
    105: _of(_T, "Topic:tt PUB|SUB|GET"),
    **{code: _of({}, "signed") for code in (106, 206, 224, 304, 311, 312, 313)},
    319: _of({}, "Cluster:DefaultCluster GET"),
    101: _of({"namespace": "n", "key": "k"}, "Cluster:DefaultCluster GET"),
    219: _of({"namespace": "n"}, "Cluster:DefaultCluster GET"),
    322: _of({"clusterName": "cc"}, "Cluster:cc GET"),
    901: _of({"clusterName": "cc"}, "Cluster:cc GET"),
    **{code: _of({"x": "1"}, "Cluster:DefaultCluster UPDATE") for code in (100, 102, 205, 327, 217, 216)},
    103: _of({"clusterName": "cc"}, "inner"),
    104: _of({"clusterName": "cc"}, "inner"),
    904: _of({"clusterName": "cc"}, "inner"),
    318: _of({}, "super"),
}
CONTROLLER = {code: _of({"x": "1"}, "inner") for code in (*range(1001, 1007), *range(1009, 1014), 904)}
