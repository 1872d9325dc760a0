"""Request-reply: the answer reaches the client that asked, is stored, and failures are told to who answers."""

from __future__ import annotations

from typing import Any

import pytest

from flaremq.broker.ingest.admission import SendAdmission
from flaremq.broker.ingest.replies import SendReplies
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.reply import ReplyHandler
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.errors import UnavailableError
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.send import SendMessageRequestHeader
from flaremq.storage.status import PutMessageStatus
from tests.broker.waiting_lab import HOST, FakeConnection, WaitingLab, run
from tests.support.golden_frames import golden_frames, golden_pairs

TOPIC = "DefaultCluster_REPLY_TOPIC"
ASKER = "192.0.2.2@GP_REQ_I"


class Relay:
    """A broker between one who asked and one who answers."""

    def __init__(self, **options: Any) -> None:
        self.lab = WaitingLab()
        self.options = BrokerOptions(**options)
        producers = ProducerTable(self.options, self.lab.clock)
        self.asker = FakeConnection("127.0.0.1:50000")
        self.answerer = FakeConnection("127.0.0.1:47138")
        producers.register(
            "GP_REQ", ClientInfo(connection=self.asker.connection, client_id=ASKER, language="JAVA", version=1)
        )
        topics, groups = self.lab.topics(self.options), self.lab.groups(self.options)
        replies = SendReplies(self.options, self.lab.store, HOST)
        statistics = BrokerStatistics("DefaultCluster", self.lab.clock.now_ms())
        admission = SendAdmission(self.options, self.lab.clock, topics, groups, statistics, replies)
        self.handler = ReplyHandler(self.options, self.lab.clock, self.lab.access, admission, producers, HOST)

    def reply(self, body: bytes = b"answer", code: int = 325, **changes: Any) -> RemotingCommand:
        fields: dict[str, Any] = {
            "producer_group": "GP_REPLIER",
            "topic": TOPIC,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000,
            "flag": 0,
            "properties": f"MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01{ASKER}\x02CORRELATION_ID\x01c-1\x02",
        }
        header = SendMessageRequestHeader(**(fields | changes))
        request = RemotingCommand.request(code, header.encode_letters() if code == 325 else header.encode(), body)
        return run(self.handler.send_reply(self.answerer.connection, request))


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
def test_answer_is_pushed_to_who_asked_and_stored(code: int) -> None:
    relay = Relay()
    reply = relay.reply(code=code)
    (pushed,) = relay.asker.requested
    assert (pushed.code, pushed.body_bytes) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"answer")
    (stored,) = relay.lab.messages(TOPIC)
    assert stored.body == b"answer"
    assert stored.properties["CORRELATION_ID"] == "c-1"
    assert (reply.code, reply.ext) == (
        0,
        {
            "msgId": stored.message_id,
            "queueId": 0,
            "queueOffset": 0,
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        },
    )


@pytest.mark.parametrize("recording", ["json-49", "json-55"])
def test_recorded_answers_are_pushed_and_answered_as_recorded(recording: str) -> None:
    relay = Relay(listen_port=20911)
    pushes = [frame.command for frame in golden_frames(recording) if frame.command.code == 326]
    pairs = [(ask.command, reply.command) for ask, reply in golden_pairs(recording) if ask.command.code == 325]
    assert len(pushes) == len(pairs) == 2
    for (request, recorded_reply), recorded in zip(pairs, pushes, strict=True):
        reply = run(relay.handler.send_reply(relay.answerer.connection, request))
        ours, theirs = dict(relay.asker.requested[-1].ext or {}), dict(recorded.ext or {})
        ours_properties, their_properties = properties_of(ours), properties_of(theirs)
        for name in ("storeTimestamp", "bornHost", "storeHost", "properties"):
            assert ours.pop(name)
            theirs.pop(name)
        assert ours == theirs
        assert ours_properties.pop("PUSH_REPLY_TIME") == str(relay.lab.clock.now_ms())
        their_properties.pop("PUSH_REPLY_TIME")
        # 4.9 has these two in the reply only.
        assert ours_properties == their_properties | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert relay.asker.requested[-1].body_bytes == recorded.body_bytes
        assert reply.code == recorded_reply.code
        assert set(reply.ext or {}) == set(recorded_reply.ext or {})
        assert str((reply.ext or {})["queueOffset"]) == (recorded_reply.ext or {})["queueOffset"]


def test_push_names_both_hosts_as_text() -> None:
    relay = Relay()
    relay.reply()
    ext = relay.asker.requested[0].ext or {}
    assert (ext["bornHost"], ext["storeHost"]) == ("127.0.0.1:47138", "127.0.0.1:10911")


def test_empty_answer_is_an_answer() -> None:
    relay = Relay()
    assert relay.reply(b"").code == 0
    assert relay.asker.requested[0].body_bytes == b""
    assert relay.lab.bodies(TOPIC) == [b""]


def test_answer_is_only_pushed_if_it_is_not_to_be_stored() -> None:
    relay = Relay(store_reply_message_enable=False)
    reply = relay.reply()
    assert (reply.code, (reply.ext or {})["msgId"]) == (0, "0")
    assert relay.lab.bodies(TOPIC) == []


def test_answer_that_reached_its_client_is_a_success_even_if_it_was_not_stored() -> None:
    relay = Relay()
    with relay.lab.refusing(TOPIC, PutMessageStatus.SERVICE_NOT_AVAILABLE):
        reply = relay.reply()
    assert (reply.code, (reply.ext or {})["msgId"]) == (0, "0")


@pytest.mark.parametrize(
    "properties", [None, "CORRELATION_ID\x01c", "REPLY_TO_CLIENT\x01somebody else\x02CORRELATION_ID\x01c\x02"]
)
def test_answer_for_nobody_is_an_error(properties: str | None) -> None:
    relay = Relay()
    assert relay.reply(properties=properties).code == ResponseCode.SYSTEM_ERROR
    assert relay.asker.requested == []


@pytest.mark.parametrize(
    "answer", [UnavailableError("closed"), RemotingCommand.response(ResponseCode.SYSTEM_ERROR, "who are you?")]
)
def test_answer_that_is_not_confirmed_is_an_error(answer: RemotingCommand | Exception) -> None:
    relay = Relay()
    relay.asker.answer = answer
    reply = relay.reply()
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert relay.lab.bodies(TOPIC) == [b"answer"]


def test_client_that_confirms_nothing_gets_no_more_answers() -> None:
    relay = Relay()
    relay.asker.calls = 64
    assert relay.reply().code == ResponseCode.SYSTEM_ERROR
    assert relay.asker.requested == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "no blanks"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"topic": "Unknown", "default_topic": "Unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 1}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_answer_to_a_place_that_is_none_is_refused(changes: dict[str, Any], code: int) -> None:
    relay = Relay()
    reply = relay.reply(**changes)
    assert reply.code == code
    assert reply.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert relay.asker.requested == []


def test_broker_chooses_the_queue_for_a_negative_one() -> None:
    relay = Relay()
    assert (relay.reply(queue_id=-1).ext or {})["queueId"] == 0


def test_nothing_is_taken_before_the_broker_accepts_messages() -> None:
    relay = Relay(start_accept_send_request_time_stamp=1_800_000_000_000)
    assert relay.reply().code == ResponseCode.SYSTEM_ERROR
    relay = Relay(broker_permission=4)
    assert relay.reply().code == ResponseCode.NO_PERMISSION


def properties_of(ext: dict[str, Any]) -> dict[str, str]:
    pieces = str(ext["properties"]).split("\x02")
    return dict(piece.split("\x01", 1) for piece in pieces if piece)
