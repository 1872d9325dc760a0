"""The guard: who is let in, who is not, and what of it is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from flaremq.access.attempts import Attempts
from flaremq.access.audit import AuditLog
from flaremq.access.authority import BROKER, NAME_SERVER
from flaremq.access.guard import Guard, GuardRules
from flaremq.access.judge import Account
from flaremq.access.refusals import PlainVoice, UsersVoice
from flaremq.access.replay import WINDOW_MS, ReplayGuard
from flaremq.access.rules import Surroundings
from flaremq.clock import ManualClock
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import BINARY_HEADER, RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import PROOF, SIGNATURE, read_proof, signed
from flaremq.remoting.handlers import TAKEN
from tests.access.plain_judge import Allowed, DictionaryJudge

SECRET = "marked-secret-1"
APP = Account("app", SECRET.encode())
ROOT = Account("root", b"root-secret-1", is_super=True)
OFF = Account("off", SECRET.encode(), is_enabled=False)
MAY: Allowed = {"app": {("Topic:both", "PUB"), ("Topic:both", "SUB"), ("Group:good", "SUB")}}


class Peer:
    """A connection as the guard sees it."""

    def __init__(
        self, peer: str = "127.0.0.1:4711", *, encrypted: bool = False, certificate: str | None = None
    ) -> None:
        self.peer = peer
        self.is_encrypted = encrypted
        self.peer_certificate_name = certificate
        self.visitor: Any = None
        self.on_close: list[Callable[[Any], None]] = []
        self.replies: list[RemotingCommand] = []
        self.closed = False

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        self.replies.append(response)

    def begin(self, request: RemotingCommand) -> None: ...

    def finish(self, request: RemotingCommand) -> None: ...

    def close(self) -> None:
        self.closed = True
        for callback in self.on_close:
            callback(self)


class Gate:
    """A guard and what is around it."""

    def __init__(
        self,
        folder: Path,
        *,
        voice: Any = None,
        rules: GuardRules | None = None,
        dated: bool = False,
        now_ms: int = 1_700_000_000_000,
    ) -> None:
        self.clock = ManualClock(now_ms)
        self.judge = DictionaryJudge([APP, ROOT, OFF], dict(MAY))
        self.audit = AuditLog(str(folder / "audit" / "audit.log"), self.clock.now_ms)
        self.records: dict[int, str] = {}
        self.guard = Guard(
            {**BROKER, **NAME_SERVER},
            self.judge,
            voice or UsersVoice(),
            Surroundings(
                "DefaultCluster",
                has_topic=lambda name: name == "both",
                has_group=lambda name: name in ("good", "good_t"),
            ),
            replay=ReplayGuard(self.clock.now_ms, dated_only=dated),
            attempts=Attempts(self.clock.monotonic),
            audit=self.audit,
            rules=rules or GuardRules(),
            read_topic=self._read_topic,
        )
        self.path = folder / "audit" / "audit.log"

    async def _read_topic(self, offset: int) -> str | None:
        return self.records.get(offset)

    def check(self, peer: Any, request: RemotingCommand, *, is_served: bool = True) -> Any:
        return self.guard.check(peer, request, is_served=is_served)

    def audited(self) -> list[dict[str, Any]]:
        self.audit.write()
        return [orjson.loads(line) for line in self.path.read_bytes().splitlines()] if self.path.exists() else []


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def request(
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    account: Account | None = APP,
    dated: bool = False,
) -> RemotingCommand:
    """A request as it comes off the wire."""
    fields: Any = ext or {}
    if account is not None:
        fields = signed(
            fields,
            body,
            access_key=account.name,
            secret_key=account.secret.decode(),
            code=code if dated else None,
        )
    command = RemotingCommand.request(code, fields, body)
    (decoded,) = FrameDecoder().receive(encode_frame(command))
    return decoded


def time_of(command: RemotingCommand) -> int:
    proof = read_proof(str((command.ext or {})[PROOF]))
    assert proof is not None
    return proof.time_ms


def send(topic: str = "both", **kwargs: Any) -> RemotingCommand:
    return request(310, {"a": "pg", "b": topic, "g": "1700000000000"}, b"hello", **kwargs)


def test_who_signs_and_may_is_let_in(gate: Gate) -> None:
    assert gate.check(Peer(), send()) is None


@pytest.mark.parametrize("account", [Account("app", b"another-secret"), Account("unknown", b"x"), OFF])
def test_unknown_disabled_and_wrongly_signed_get_one_answer(gate: Gate, account: Account) -> None:
    reply = gate.check(Peer(), send(account=account))
    assert (reply.code, reply.remark, reply.ext) == (ResponseCode.NO_PERMISSION, "check signature failed.", None)


def test_the_audit_log_tells_them_apart(gate: Gate) -> None:
    for account in (Account("app", b"another-secret"), Account("unknown", b"x"), OFF):
        gate.check(Peer(), send(account=account))
    assert [(line["user"], line["rule"]) for line in gate.audited()] == [
        ("app", "wrong signature"),
        ("unknown", "unknown account"),
        ("off", "disabled account"),
    ]


def test_who_has_no_name_is_refused(gate: Gate) -> None:
    assert gate.check(Peer(), send(account=None)).remark == "username cannot be null."
    assert gate.check(Peer(), request(310, {"AccessKey": ""}, account=None)).remark == "username cannot be null."


def test_plain_acl_speaks_to_each_client_in_its_words(tmp_path: Path) -> None:
    gate = Gate(tmp_path, voice=PlainVoice())
    old, new = send(account=None), send(account=None)
    old.version, new.version = 407, 513
    assert (gate.check(Peer(), old).code, gate.check(Peer(), old).remark) == (
        ResponseCode.SYSTEM_ERROR,
        "org.apache.rocketmq.acl.common.AclException: No accessKey is configured",
    )
    assert (gate.check(Peer(), new).code, gate.check(Peer(), new).remark) == (
        ResponseCode.NO_PERMISSION,
        "No accessKey is configured",
    )


def test_a_code_that_has_no_row_is_for_super_users_only(gate: Gate) -> None:
    assert gate.check(Peer(), request(4711)).code == ResponseCode.NO_PERMISSION
    assert gate.check(Peer(), request(4711, account=ROOT)) is None
    assert gate.check(Peer(), request(4711), is_served=False) is None  # nobody answers it anyway
    assert gate.check(Peer(), request(4711, account=None), is_served=False).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("code", [25, 50, 51, 53, 54, 3001, 3005, 3007, 318, 103])
def test_what_needs_a_super_user_is_refused_to_others(gate: Gate, code: int) -> None:
    reply = gate.check(Peer(), request(code, {"x": "1"}))
    assert reply.code == ResponseCode.NO_PERMISSION
    assert gate.check(Peer(), request(code, {"x": "1"}, account=ROOT)) is None


def test_a_user_may_look_at_its_own_policies(gate: Gate) -> None:
    assert gate.check(Peer(), request(3009, {"subject": "User:app"})) is None
    for subject in ("User:other", "User:ap", "User:app2", "User:app ", "user:app", "User:APP", "app", ""):
        assert gate.check(Peer(), request(3009, {"subject": subject})).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["%RETRY%bad", "%DLQ%bad", "%RETRY%bad+both", "%RETRY%good_t"])
def test_retry_topics_belong_to_their_group(gate: Gate, topic: str) -> None:
    fields = {"topic": topic, "consumerGroup": "good"}
    for code in (11, 361, 14, 15, 200051):
        assert gate.check(Peer(), request(code, fields)).code == ResponseCode.NO_PERMISSION, code
    assert gate.check(Peer(), send(topic)).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["%RETRY%good", "%DLQ%good", "%RETRY%good+both", "%RETRY%good_both"])
def test_the_own_groups_retry_topics_are_open(gate: Gate, topic: str) -> None:
    for code in (11, 361, 200051):
        assert gate.check(Peer(), request(code, {"topic": topic, "consumerGroup": "good"})) is None, code


@pytest.mark.parametrize("topic", ["%DLQ%good_both", "%DLQ%good_x", "%RETRY%good_x"])
def test_a_group_that_is_gone_leaves_nothing_to_one_whose_name_it_begins_with(gate: Gate, topic: str) -> None:
    """POP has retry topics of a group and a topic, if there is such a topic, and dead letters of groups alone."""
    for code in (11, 361, 200051):
        assert gate.check(Peer(), request(code, {"topic": topic, "consumerGroup": "good"})).code == 16, code


def test_a_record_is_judged_by_its_own_topic(gate: Gate) -> None:
    gate.records = {100: "both", 200: "denied", 300: "%RETRY%bad", 400: "%RETRY%good"}

    async def verdicts() -> list[int | None]:
        found = []
        for offset in (100, 200, 300, 400, 500):
            reply = await gate.check(Peer(), request(33, {"offset": str(offset), "topic": "both"}))
            found.append(None if reply is None else reply.code)
        return found

    assert asyncio.run(verdicts()) == [None, 16, 16, None, None]


def test_needs_that_cannot_be_read_are_refused(gate: Gate) -> None:
    assert gate.check(Peer(), request(34, {}, b"{")).remark == "parse authorization context error."
    assert gate.check(Peer(), request(310, {"a": "pg"})).remark == "parse authorization context error."


def test_offsets_are_cloned_of_a_topic_that_is_named(gate: Gate) -> None:
    """Without one those of all topics are, of which nobody has looked at the rights."""
    gate.judge.allowed["app"] = {("Group:good", "UPDATE"), ("Group:good", "GET"), ("Topic:both", "UPDATE")}
    fields = {"srcGroup": "good", "destGroup": "good"}
    assert gate.check(Peer(), request(314, {**fields, "topic": "both"})) is None
    assert gate.check(Peer(), request(314, fields)).code == 16
    assert gate.check(Peer(), request(314, fields, account=ROOT)) is None


def test_a_heartbeat_needs_each_group_and_topic(gate: Gate) -> None:
    body = orjson.dumps(
        {
            "clientID": "c",
            "consumerDataSet": [
                {"groupName": "good", "subscriptionDataSet": [{"topic": "both"}, {"topic": "%RETRY%good"}]}
            ],
        }
    )
    assert gate.check(Peer(), request(34, {}, body)) is None
    assert gate.check(Peer(), request(34, {}, body.replace(b"both", b"none"))).code == 16
    assert gate.check(Peer(), request(34, {}, body.replace(b'"good"', b'"bad"'))).code == 16


# Signatures


def test_the_signature_of_the_protocols_worked_example_is_accepted(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.judge.accounts["app"] = Account("app", b"app-secret-1")
    fields = dict(
        pair.split("=")
        for pair in f"a=pg_app b=both c=TBW102 d=4 e=0 f=0 g={1700000000000} h=0 j=0 k=false m=false".split()
    )
    fields |= {"i": "KEYS\x01k1\x02TAGS\x01t1\x02", "AccessKey": "app", SIGNATURE: "YcH6QY6JtlmFljbuY+Kemyhu9mc="}
    assert gate.check(Peer(), request(310, fields, b"hello auth", account=None)) is None
    assert gate.check(Peer(), request(310, fields, b"hello autH", account=None)).code == 16


def test_a_null_of_json_is_signed_as_that_word(gate: Gate) -> None:
    fields: Any = signed({"b": "both", "n": "null"}, b"", access_key="app", secret_key=SECRET)
    frame = orjson.dumps({"code": 310, "opaque": 1, "extFields": {**fields, "n": None}})
    frame = (4 + len(frame)).to_bytes(4, "big") + len(frame).to_bytes(4, "big") + frame
    (command,) = FrameDecoder().receive(frame)
    assert gate.check(Peer(), command) is None


@pytest.mark.parametrize("signed_as", ["", "null"])
def test_an_empty_text_of_a_binary_header_may_be_signed_either_way(gate: Gate, signed_as: str) -> None:
    fields = signed({"b": "both", "n": signed_as}, b"", access_key="app", secret_key=SECRET)
    command = RemotingCommand.request(310, {**fields, "n": ""})
    command.serialize_type = BINARY_HEADER
    (decoded,) = FrameDecoder().receive(encode_frame(command))
    assert gate.check(Peer(), decoded) is None


def test_the_field_old_clients_do_not_sign_is_left_out_for_them(gate: Gate) -> None:
    fields = signed({"topic": "both", "key": "k"}, b"", access_key="app", secret_key=SECRET)
    query = request(12, {**fields, "_UNIQUE_KEY_QUERY": "true"}, account=None)
    query.version = 399
    assert gate.check(Peer(), query) is None
    query.version = 513
    assert gate.check(Peer(), query).remark == "check signature failed."


def test_plain_acl_takes_that_field_signed_or_not(tmp_path: Path) -> None:
    gate = Gate(tmp_path, voice=PlainVoice())
    fields = {"topic": "both", "key": "k"}
    flag = {"_UNIQUE_KEY_QUERY": "true"}
    without = {**signed(fields, b"", access_key="app", secret_key=SECRET), **flag}
    over_it = signed({**fields, **flag}, b"", access_key="app", secret_key=SECRET)
    for ext in (without, over_it):
        assert gate.check(Peer(), request(12, ext, account=None)) is None
    changed = {**over_it, "_UNIQUE_KEY_QUERY": "false"}
    assert "Check signature failed" in gate.check(Peer(), request(12, changed, account=None)).remark


# Replay


@pytest.mark.parametrize("voice", [PlainVoice(), UsersVoice()])
def test_no_field_is_left_out_of_other_requests(tmp_path: Path, voice: Any) -> None:
    gate = Gate(tmp_path, voice=voice)
    fields = signed({"topic": "both", "queueId": "0"}, b"", access_key="app", secret_key=SECRET)
    command = request(30, {**fields, "_UNIQUE_KEY_QUERY": "true"}, account=None)
    command.version = 399
    assert "signature failed" in gate.check(Peer(), command).remark.lower()


@pytest.mark.parametrize("off_ms", [-WINDOW_MS - 1, WINDOW_MS + 1])
def test_a_time_that_is_off_in_either_direction_is_refused(gate: Gate, off_ms: int) -> None:
    command = request(30, {"topic": "both", "queueId": "0"}, dated=True)
    gate.clock.jump(time_of(command) - off_ms - gate.clock.now_ms())
    assert "off by 300 s" in gate.check(Peer(), command).remark
    gate.clock.jump(2 if off_ms > 0 else -2)
    assert gate.check(Peer(), command) is None


def test_a_dated_request_counts_once(gate: Gate) -> None:
    command = send(dated=True)
    gate.clock.jump(time_of(command) - gate.clock.now_ms())
    assert gate.check(Peer(), command) is None
    assert gate.check(Peer(), command).code == 16


def test_a_dated_request_fits_no_other_code_and_no_other_time(gate: Gate) -> None:
    command = request(351, {"topic": "both"}, account=ROOT, dated=True)
    gate.clock.jump(time_of(command) - gate.clock.now_ms())
    command.code = 215
    assert "another code" in gate.check(Peer(), command).remark
    command.code = 351
    gate.clock.advance(WINDOW_MS + 1000)
    assert "off by" in gate.check(Peer(), command).remark


def test_a_send_that_somebody_else_recorded_is_refused(gate: Gate) -> None:
    first, second = Peer("127.0.0.1:1"), Peer("127.0.0.1:2")
    assert gate.check(first, send()) is None
    assert gate.check(first, send()) is None  # an honest client that tries again
    assert gate.check(second, send()).code == 16
    first.close()
    assert gate.check(second, send()) is None  # it lost its connection
    assert gate.check(Peer("10.0.0.1:3", encrypted=True), send()).code == 16
    second.close()
    assert gate.check(Peer("10.0.0.1:4", encrypted=True), send()).code == 16
    assert gate.check(Peer("127.0.0.1:5"), send()) is None


def test_a_change_may_be_asked_for_again_by_who_asked_before(gate: Gate) -> None:
    first = Peer("127.0.0.1:1")
    change = request(17, {"topic": "t"}, account=ROOT)
    assert gate.check(first, change) is None
    assert gate.check(Peer("127.0.0.1:2"), change).code == 16
    first.close()
    assert gate.check(Peer("127.0.0.1:3"), change) is None
    assert gate.check(Peer("10.0.0.1:4", encrypted=True, certificate="x"), change).code == 16


@pytest.mark.parametrize("code", [25, 18, 200])
def test_a_change_that_stands_in_the_body_alone_is_no_more_repeatable(gate: Gate, code: int) -> None:
    body = b'{"groupName":"g","topicConfigList":[]}'
    first, change = Peer("127.0.0.1:1"), request(code, {}, body, account=ROOT)
    assert gate.check(first, change) is None
    assert gate.check(first, change) is None
    assert "from elsewhere" in gate.check(Peer("127.0.0.1:2"), change).remark
    assert "from elsewhere" in gate.check(Peer("10.0.0.1:4", encrypted=True, certificate="x"), change).remark


def test_the_signature_of_a_question_does_not_fit_a_change_from_elsewhere(gate: Gate) -> None:
    question = request(351, {"topic": "t"}, account=ROOT)
    assert gate.check(Peer("127.0.0.1:1"), request(202, {"topic": "t"}, account=ROOT)) is None
    assert gate.check(Peer("127.0.0.1:1"), question) is None
    question.code = 215
    assert gate.check(Peer("10.0.0.1:4", encrypted=True, certificate="x"), question).code == 16


def test_requests_that_change_nothing_may_be_repeated(gate: Gate) -> None:
    for peer in (Peer("127.0.0.1:1"), Peer("127.0.0.1:2")):
        for _ in range(2):
            assert gate.check(peer, request(30, {"topic": "both", "queueId": "0"})) is None


def test_dated_requests_can_be_demanded(tmp_path: Path) -> None:
    gate = Gate(tmp_path, dated=True)
    assert "signed time" in gate.check(Peer(), send()).remark
    command = send(dated=True)
    gate.clock.jump(time_of(command) - gate.clock.now_ms())
    assert gate.check(Peer(), command) is None


def test_memory_of_signatures_is_bounded() -> None:
    from flaremq.access.replay import Remembered

    remembered: Remembered[str, bool] = Remembered(size_max=10)
    for number in range(1000):
        remembered.put(str(number), True, number)
    assert len(remembered) <= 20
    assert remembered.get("999")


# Places


def test_other_machines_need_tls_unless_told_otherwise(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    assert "TLS" in gate.check(Peer("10.1.2.3:1"), send()).remark
    assert gate.check(Peer("10.1.2.3:2", encrypted=True), send()) is None
    gate = Gate(tmp_path, rules=GuardRules(without_tls=True))
    assert gate.check(Peer("10.1.2.3:1"), send()) is None


def test_administration_is_for_this_machine_named_addresses_and_certificates(tmp_path: Path) -> None:
    from flaremq.access.addresses import parse_networks

    gate = Gate(tmp_path, rules=GuardRules(without_tls=True, admin_networks=parse_networks("10.9.0.0/16")))
    change = request(17, {"topic": "new"}, account=ROOT)
    assert "not answered to 10.1.2.3" in gate.check(Peer("10.1.2.3:1"), change).remark
    for peer in (Peer(), Peer("10.9.1.1:1"), Peer("10.1.2.3:1", encrypted=True, certificate="operator")):
        assert gate.check(peer, request(17, {"topic": f"new{peer.peer}"}, account=ROOT)) is None


def test_white_listed_addresses_need_no_signature(tmp_path: Path) -> None:
    gate = Gate(tmp_path, voice=PlainVoice())
    gate.judge.trusted = ("10.7.7.7",)
    assert gate.check(Peer("10.7.7.7:1"), send(account=None)) is None


# Attempts


def test_failures_from_elsewhere_are_slowed_and_then_cut_off(tmp_path: Path) -> None:
    gate = Gate(tmp_path, rules=GuardRules(without_tls=True))
    peer, wrong = Peer("10.1.2.3:1"), send(account=Account("app", b"another-secret"))

    async def attack() -> list[Any]:
        return [gate.check(peer, wrong) for _ in range(12)]

    verdicts = asyncio.run(attack())
    assert [verdict is TAKEN for verdict in verdicts] == [False] * 3 + [True] * 9
    assert peer.closed


def test_who_was_cut_off_gets_nothing_served_that_came_in_the_same_read(tmp_path: Path) -> None:
    gate = Gate(tmp_path, rules=GuardRules(without_tls=True))
    peer, wrong = Peer("10.1.2.3:1"), send(account=Account("app", b"another-secret"))

    async def attack() -> list[Any]:
        return [gate.check(peer, command) for command in [wrong] * 12 + [send()]]

    verdicts = asyncio.run(attack())
    assert peer.closed
    assert verdicts[-1] is TAKEN
    assert not gate.guard.admits_sends(peer, "app", "both", [], [])  # type: ignore[arg-type]  # a peer of tests


def test_codes_that_need_no_signature_are_served_where_others_are(tmp_path: Path) -> None:
    gate = Gate(tmp_path, rules=GuardRules(unsigned_codes=frozenset((105, 106, 17, 25, 103, 3009))))
    assert gate.check(Peer(), request(106, {}, account=None)) is None
    route, change = request(105, {"topic": "both"}, account=None), request(17, {"topic": "t"}, account=None)
    assert gate.check(Peer(), route) is None
    assert gate.check(Peer("10.1.2.3:1"), route) is None  # nothing of it could be sent again to any effect
    assert gate.check(Peer(), change) is None
    assert "not answered to 10.1.2.3" in gate.check(Peer("10.1.2.3:3", encrypted=True), change).remark
    for code in (25, 103, 3009):  # of Super users, of servers, of the account itself
        assert gate.check(Peer(), request(code, {"subject": "User:"}, account=None)).code == 16


def test_codes_that_any_user_may_send_do_not_open_what_is_for_super_users_and_servers(tmp_path: Path) -> None:
    gate = Gate(tmp_path, rules=GuardRules(open_codes=frozenset((310, 25, 103, 3009, 4711))))
    assert gate.check(Peer(), send("denied")) is None
    for code in (25, 103, 3009, 4711):
        assert gate.check(Peer(), request(code, {"subject": "User:other"})).code == 16, code
    assert gate.check(Peer(), send("denied", account=Account("app", b"another-secret"))).code == 16


def test_a_change_is_noted_under_the_account_that_asked_for_it(gate: Gate) -> None:
    """Also where its record has to be read first, and another account sends over the same connection meanwhile."""
    from flaremq.remoting.handlers import HandlerTable, after_guard

    table = HandlerTable()
    table.register(323, lambda *_: RemotingCommand.response())
    gate.guard.install(table)
    gate.records, peer = {100: "both"}, Peer()
    gate.judge.allowed["app"] = {*MAY["app"], ("Topic:both", "UPDATE")}
    message_id = "7F00000100002A9F" + f"{100:016X}"

    async def serve() -> None:
        verdict = gate.check(peer, request(323, {"msgId": message_id}))
        assert gate.check(peer, request(30, {"topic": "both"}, account=ROOT)) is None
        await after_guard(verdict, table.entries[323][0], peer, request(323, {"msgId": message_id}))  # type: ignore[arg-type]

    asyncio.run(serve())
    assert [line["user"] for line in gate.audited()] == ["app"]


def test_failures_on_this_machine_are_answered_at_once(gate: Gate) -> None:
    wrong = send(account=Account("app", b"another-secret"))
    assert all(gate.check(Peer(), wrong).code == 16 for _ in range(100))


def test_many_addresses_fill_neither_memory_nor_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    attempts = Attempts(clock.monotonic)
    for number in range(100_000):
        attempts.failed(f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1", "no name")
    assert attempts.addresses <= 10_000
    assert attempts.total == 100_000
    assert len(caplog.records) == 100
    clock.advance(61_000)
    attempts.failed("2001:db8::1", "no name")
    assert "99900 other requests" in caplog.records[100].getMessage()
    assert len(caplog.records) == 102


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("127.0.0.1:1", True),
        ("127.8.9.10:1", True),
        ("[::1]:1", True),
        ("::1:1", True),
        ("[::ffff:127.0.0.1]:1", True),
        ("::ffff:127.0.0.1:1", True),
        ("[::ffff:10.0.0.1]:1", False),
        ("10.0.0.1:1", False),
        ("127.0.0.1.evil:1", False),
        ("localhost:1", False),
        ("[::127.0.0.1]:1", False),
        ("[fe80::1%lo]:1", False),
        ("0.0.0.0:1", False),
        ("unknown:0", False),
        (":0", False),
    ],
)
def test_this_machine_is_known_by_every_form_of_its_addresses_and_by_no_other(
    peer: str, is_local: bool, tmp_path: Path
) -> None:
    assert (Gate(tmp_path).check(Peer(peer), send()) is None) == is_local


def test_failures_are_said_once_a_minute(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    wrong = send(account=Account("app", b"another-secret"))
    for _ in range(100):
        gate.check(Peer(), wrong)
    assert len(caplog.records) == 1
    gate.clock.advance(61_000)
    gate.check(Peer(), wrong)
    assert len(caplog.records) == 2
    assert "100 requests" in caplog.records[1].getMessage()


def test_refusals_of_a_kind_are_one_line_a_minute(gate: Gate) -> None:
    peer = Peer()
    for _ in range(50):
        gate.check(peer, send("denied"))
    assert len(gate.audited()) == 1
    gate.clock.advance(61_000)
    gate.check(peer, send("denied"))
    assert gate.audited()[1]["further"] == 49


def test_no_secret_is_ever_written_down(gate: Gate) -> None:
    for command in (send(), send("denied"), request(50, {"accessKey": "new-key", "secretKey": SECRET}, account=ROOT)):
        gate.check(Peer(), command)
    assert SECRET not in repr(gate.audited()) + repr(APP)


def test_codes_of_the_table_are_request_codes() -> None:
    assert all(RequestCode(code) for code in {**BROKER, **NAME_SERVER})
