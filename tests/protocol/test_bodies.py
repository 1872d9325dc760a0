"""What bodies tolerate, what they refuse, and the forms that the recordings do not contain."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import pytest

from flaremq.errors import LocalProtocolError, RemoteProtocolError
from flaremq.protocol import bodies
from flaremq.protocol.bodies.bean import BODY_SIZE_MAX, BODY_VALUES_MAX, CLIENT_BODY_SIZE_MAX, Bean, properties
from flaremq.protocol.bodies.client import HeartbeatData, ProducerInfo, ProducerTableInfo, SubscriptionData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from flaremq.protocol.bodies.queue import MessageQueue, QueryAssignmentResponseBody, SetMessageRequestModeRequestBody
from flaremq.protocol.bodies.replication import DelayOffsetSerializeWrapper, MessageRequestModeSerializeWrapper
from flaremq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from flaremq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    GetConsumerStatusBody,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    ResetOffsetBody,
)
from flaremq.protocol.bodies.topic import DataVersion, KVTable, TopicConfig

ALL_BODIES = sorted(
    {
        body
        for module in pkgutil.iter_modules(bodies.__path__, "flaremq.protocol.bodies.")
        for body in vars(importlib.import_module(module.name)).values()
        if isinstance(body, type) and issubclass(body, Bean) and body is not Bean
    },
    key=lambda body: body.__name__,
)
QUEUE = MessageQueue("T", "broker-a", 1)
QUEUE_TEXT = b'{"brokerName":"broker-a","queueId":1,"topic":"T"}'


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_an_empty_object_is_a_body_with_its_defaults(kind: type[Bean]) -> None:
    body = kind.from_json(b"{}")
    assert body == kind()
    assert kind.from_json(body.to_json()) == body


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_nulls_and_unknown_keys_are_ignored(kind: type[Bean]) -> None:
    value: dict[str, Any] = {row.java_name: None for row in properties(kind)}
    value["never heard of"] = {"a": [1]}
    assert kind.from_value(value) == kind()


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_written_properties_are_in_alphabetical_order(kind: type[Bean]) -> None:
    names = list(kind().to_value())
    assert names == sorted(names)


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"5", b'"x"', b"{", b"\xff{}", b"{}{}", b"[" * 5000])
def test_a_body_that_is_no_object_is_refused(kind: type[Bean], data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=kind.__name__):
        kind.from_json(data)


@pytest.mark.parametrize("kind", ALL_BODIES, ids=lambda kind: kind.__name__)
def test_a_property_of_the_wrong_kind_is_refused_by_name_or_read_as_it_is(kind: type[Bean]) -> None:
    for row in properties(kind):
        values: tuple[Any, ...] = ([[]], {"a": {"b": []}}, "text", 1.5, True, -1)
        for wrong in values:
            try:
                body = kind.from_value({row.java_name: wrong})
            except RemoteProtocolError as error:
                assert str(error)
            else:
                assert kind.from_json(body.to_json()) == body


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (TopicConfig, b'{"perm":"six"}', r"TopicConfig\.perm must be a number of 32 bits"),
        (TopicConfig, b'{"perm":4294967296}', r"TopicConfig\.perm must be a number of 32 bits"),
        (TopicConfig, b'{"perm":true}', r"TopicConfig\.perm must be a number of 32 bits"),
        (TopicConfig, b'{"order":"maybe"}', r"TopicConfig\.order must be true or false"),
        (TopicConfig, b'{"topicName":[]}', r"TopicConfig\.topicName must be text"),
        (TopicConfig, b'{"attributes":[]}', r"TopicConfig\.attributes must be an object"),
        (DataVersion, b'{"counter":9223372036854775808}', r"DataVersion\.counter must be a number of 64 bits"),
        (TopicRouteData, b'{"queueDatas":{}}', r"TopicRouteData\.queueDatas must be a list"),
        (TopicRouteData, b'{"queueDatas":[5]}', r"QueueData must be an object, not a number"),
        (BrokerData, b'{"brokerAddrs":{"x":"a"}}', r"BrokerData\.brokerAddrs must be a number of 64 bits"),
        (ConsumeStats, b'{"consumeTps":"NaN"}', r"ConsumeStats\.consumeTps must be a number"),
        (ConsumeStats, b'{"offsetTable":{"x":{}}}', r"ConsumeStats\.offsetTable must be keyed by message queues"),
        (ConsumeStats, b'{"offsetTable":{"[]":{}}}', r"MessageQueue must be an object"),
        (ConsumeStatsList, b'{"consumeStatsList":[5]}', r"consumeStatsList must be a list of objects"),
    ],
)
def test_a_refusal_names_class_and_property(kind: type[Bean], text: bytes, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        kind.from_json(text)


def test_numbers_and_booleans_may_come_as_text_and_texts_as_numbers() -> None:
    config = TopicConfig.from_json(b'{"perm":"4","order":"TRUE","readQueueNums":"08","topicName":123}')
    assert config == TopicConfig(topic_name="123", perm=4, order=True, read_queue_nums=8)
    assert config.is_readable
    assert KVTable.from_json(b'{"table":{"a":1,"b":true,"c":null}}').table == {"a": "1", "b": "true"}


def test_what_is_kept_unread_is_kept_only_so_deep_that_it_can_be_written() -> None:
    def nested(depth: int) -> bytes:
        return b'{"forbiddenTable":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"

    kept = SubscriptionGroupWrapper.from_json(nested(20))
    assert SubscriptionGroupWrapper.from_json(kept.to_json()) == kept
    with pytest.raises(RemoteProtocolError, match="nested at most"):
        SubscriptionGroupWrapper.from_json(nested(300))


def test_bodies_of_clients_are_bounded_below_the_frame() -> None:
    assert CLIENT_BODY_SIZE_MAX < BODY_SIZE_MAX
    padding = b" " * CLIENT_BODY_SIZE_MAX
    with pytest.raises(RemoteProtocolError, match="at most"):
        HeartbeatData.from_json(b"{}" + padding)
    assert KVTable.from_json(b"{}" + padding) == KVTable()


def test_values_are_counted_before_there_are_any() -> None:
    with pytest.raises(RemoteProtocolError, match="KVTable has more than"):
        KVTable.from_json(b'{"table":[' + b"[]," * BODY_VALUES_MAX + b"1]}")


def test_what_json_cannot_hold_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="TopicConfig"):
        TopicConfig(topic_name="\ud800").to_json()
    with pytest.raises(LocalProtocolError, match="DataVersion"):
        DataVersion(counter=2**64).to_json()


# Heartbeats as the clients that are not Java's send them.


def subscription(text: str) -> SubscriptionData:
    heartbeat = HeartbeatData.from_json(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[' + text.encode() + b"]}]}"
    )
    return heartbeat.consumer_data_set[0].subscription_data_set[0]


def test_go_sends_tag_hashes_as_text_and_versions_in_nanoseconds() -> None:
    data = subscription(
        '{"topic":"T","subString":"TagA","expressionType":"TAG","codeSet":["2598919"],"tagsSet":["TagA"],'
        '"subVersion":1700000000000000000,"classFilterMode":false}'
    )
    assert data.code_set == {2598919}
    assert data.tags_set == {"TagA"}
    assert data.sub_version == 1_700_000_000_000_000_000


@pytest.mark.parametrize("expression_type", ["", '"expressionType":"",', '"expressionType":null,'])
def test_a_missing_expression_type_means_tags(expression_type: str) -> None:
    data = subscription("{" + expression_type + '"topic":"T","subString":"*"}')
    assert data.is_tag_type
    assert data.expression_type == "TAG"


def test_a_heartbeat_without_lists_or_fingerprint_has_none() -> None:
    heartbeat = HeartbeatData.from_json(b'{"clientID":"c","producerDataSet":null}')
    assert heartbeat == HeartbeatData(client_id="c")
    assert (heartbeat.heartbeat_fingerprint, heartbeat.without_sub) == (0, False)


def test_the_message_model_may_come_in_any_case() -> None:
    text = b'{"clientID":"c","consumerDataSet":[{"groupName":"G","messageModel":"Clustering"},null]}'
    (consumer,) = HeartbeatData.from_json(text).consumer_data_set
    assert consumer.message_model == "CLUSTERING"
    assert consumer.consume_type == "CONSUME_PASSIVELY"


# Routes.


def test_broker_ids_are_read_bare_or_quoted_and_written_quoted() -> None:
    bare = b'{"brokerAddrs":{0:"a:1",1:"b:2"},"brokerName":"x"}'
    data = BrokerData.from_json(bare)
    assert data.broker_addrs == {0: "a:1", 1: "b:2"}
    assert data == BrokerData.from_json(bare.replace(b"0:", b'"0":').replace(b",1:", b',"1":'))
    assert data.to_json().startswith(b'{"brokerAddrs":{"0":"a:1","1":"b:2"},"brokerName":"x"')


def test_the_older_spelling_of_the_topic_flag_is_read() -> None:
    assert QueueData.from_json(b'{"topicSynFlag":3}').topic_sys_flag == 3
    assert QueueData.from_json(b'{"topicSynFlag":3,"topicSysFlag":1}').topic_sys_flag == 1


def test_optional_parts_of_a_route_are_left_out_when_absent() -> None:
    assert TopicRouteData().to_json() == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
    assert b'"orderTopicConf":"b:4"' in TopicRouteData(order_topic_conf="b:4").to_json()


# Maps keyed by queues, and the other forms.


def test_reset_offsets_have_a_form_for_java_and_one_for_cpp() -> None:
    body = ResetOffsetBody(offset_table={QUEUE: 42})
    assert body.to_json() == b'{"offsetTable":{' + QUEUE_TEXT + b":42}}"
    assert ResetOffsetBody.from_json(body.to_json()) == body
    rows = json.loads(body.to_list_json())["offsetTable"]
    assert rows == [{"brokerName": "broker-a", "queueId": 1, "topic": "T", "offset": 42}]
    assert ResetOffsetBody.from_json(body.to_list_json()) == body


def test_consumer_status_holds_a_table_of_its_own_or_one_a_client() -> None:
    body = GetConsumerStatusBody(consumer_table={"c": {QUEUE: 5}})
    assert body.to_json() == b'{"consumerTable":{"c":{' + QUEUE_TEXT + b':5}},"messageQueueTable":{}}'
    assert GetConsumerStatusBody.from_json(body.to_json()) == body


def test_consume_stats_lists_go_by_group_and_topic() -> None:
    stats = ConsumeStats(offset_table={QUEUE: OffsetWrapper(broker_offset=9, consumer_offset=4)}, consume_tps=0.5)
    body = ConsumeStatsList(consume_stats_list=({"G": (stats, stats)}, {"H": ()}), broker_addr="a:1", total_diff=5)
    assert ConsumeStatsList.from_json(body.to_json()) == body


def test_no_assignment_differs_from_an_empty_one() -> None:
    assert QueryAssignmentResponseBody().to_json() == b"{}"
    assert QueryAssignmentResponseBody(message_queue_assignments=()).to_json() == b'{"messageQueueAssignments":[]}'
    assert QueryAssignmentResponseBody.from_json(b"{}").message_queue_assignments is None


def test_request_modes_go_by_topic_and_group() -> None:
    mode = SetMessageRequestModeRequestBody(topic="T", consumer_group="G", mode="POP", pop_share_queue_num=-1)
    body = MessageRequestModeSerializeWrapper(message_request_mode_map={"T": {"G": mode}})
    assert MessageRequestModeSerializeWrapper.from_json(body.to_json()) == body


def test_delay_offsets_are_keyed_by_bare_levels() -> None:
    body = DelayOffsetSerializeWrapper(offset_table={1: 12, 3: 7})
    assert body.to_json() == b'{"offsetTable":{1:12,3:7}}'
    assert DelayOffsetSerializeWrapper.from_json(body.to_json()) == body


def test_java_spellings_are_kept_on_the_wire() -> None:
    span = QueueTimeSpan(message_queue=QUEUE, min_timestamp=1, max_timestamp=2, consume_timestamp=3, delay_time=4)
    text = QueryConsumeTimeSpanBody(consume_time_span_set=(span,)).to_json()
    assert b'"consumeTimeStamp":3,"delayTime":4,"maxTimeStamp":2' in text
    info = ProducerTableInfo(data={"P": (ProducerInfo(client_id="c", remote_ip="1.2.3.4:5"),)})
    assert b'"remoteIP":"1.2.3.4:5"' in info.to_json()
    assert ProducerTableInfo.from_json(info.to_json()) == info


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("T", "b", 2),
        MessageQueue("T", "a", 10),
        MessageQueue("S", "z", 1),
        MessageQueue("T", "b", 0),
    ]
    assert [(q.topic, q.broker_name, q.queue_id) for q in sorted(queues)] == [
        ("S", "z", 1),
        ("T", "a", 10),
        ("T", "b", 0),
        ("T", "b", 2),
    ]


def test_a_changed_table_has_the_next_version() -> None:
    version = DataVersion(counter=3, timestamp=5)
    assert version.next(99) == DataVersion(counter=4, timestamp=99)


def test_a_group_keeps_the_retry_policy_it_was_given() -> None:
    assert SubscriptionGroupConfig().group_retry_policy == {"type": "CUSTOMIZED"}
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000}}
    config = SubscriptionGroupConfig.from_value({"groupName": "G", "groupRetryPolicy": policy})
    assert json.loads(config.to_json())["groupRetryPolicy"] == policy


# Batch acknowledgements.


@pytest.mark.parametrize("bits", ['"FQE="', "[21,1]", "[21,1,0]"])
def test_acknowledged_positions_are_read_from_base64_or_numbers(bits: str) -> None:
    text = '{"brokerName":"b","acks":[{"c":"G","t":"T","r":"1","so":100,"q":2,"rq":3,"pt":5,"it":6,"b":' + bits + "}]}"
    (ack,) = BatchAckMessageRequestBody.from_json(text.encode()).acks
    assert list(ack.positions()) == [0, 2, 4, 8]
    assert (ack.start_offset, ack.queue_id, ack.revive_queue_id, ack.retry) == (100, 2, 3, "1")
    assert BatchAck.from_json(ack.to_json()) == ack


def test_signed_bytes_of_java_are_bits_too() -> None:
    assert list(BatchAck.from_value({"b": [-128]}).positions()) == [7]


def test_long_names_of_an_acknowledgement_are_read() -> None:
    ack = BatchAck.from_value({"consumerGroup": "G", "topic": "T", "startOffset": 7, "bitSet": "AQ=="})
    assert (ack.consumer_group, ack.topic, ack.start_offset, ack.bits) == ("G", "T", 7, 1)


@pytest.mark.parametrize("bits", ["!!", "A", 5, [300], ["a"], [True], [1] * 2000, "A" * 4000])
def test_bits_of_another_kind_or_without_end_are_refused(bits: object) -> None:
    with pytest.raises(RemoteProtocolError, match=r"BatchAck\.b"):
        BatchAck.from_value({"b": bits})


def test_positions_and_bits_are_each_others_inverse() -> None:
    positions = [0, 1, 31, 63, 64, 1000]
    assert list(BatchAck(bits=sum(1 << position for position in positions)).positions()) == positions
