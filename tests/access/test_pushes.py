"""What a broker sends to clients by itself goes to nobody who merely claims to be the one it is for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from flaremq.access.guard import GuardRules
from flaremq.access.judge import Account
from flaremq.message.topics import HALF_TOPIC
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import encode_frame
from flaremq.protocol.signing import signed
from tests.access.attack_lab import asked, lab, secret_of, send_fields
from tests.access.test_guard import OFF, ROOT, Gate, Peer, request, send

_HALF = "UNIQ_KEY\x01C00002021CA84E0E2F2A4F5E49AD0001\x02TRAN_MSG\x01true\x02PGROUP\x01pay\x02"


def _heartbeat(client: str, group: str) -> bytes:
    return orjson.dumps({"clientID": client, "producerDataSet": [{"groupName": group}], "consumerDataSet": []})


@pytest.mark.parametrize(("user", "is_asked"), [("attacker", False), ("victim", True)])
def test_only_who_may_send_to_a_topic_is_asked_about_its_half_messages(
    user: str, is_asked: bool, tmp_path: Path
) -> None:
    """Anybody may call itself a producer of any group, and the question holds the message."""

    async def run() -> list[int]:
        async with lab(tmp_path, transaction_time_out=1) as found:
            sender, asker = await found.connect(), await found.connect()
            now = str(found.broker.clock.now_ms())
            fields = send_fields("orders", _HALF, g=now)
            assert (await sender.ask(asked("victim", 310, fields, b"secret order"))).code == 0
            sender.writer.close()
            assert (await asker.ask(asked(user, 34, {}, _heartbeat("c", "pay")))).code == 0
            store = found.broker.store_loop.store
            while store.max_offset(HALF_TOPIC, 0) < 2:  # whoever is asked about is written anew
                await found.broker.state.transactions.check_round()
                await asyncio.sleep(0)
            await asker.ask(asked(user, 30, {"topic": "orders" if is_asked else "open", "queueId": "0"}))
            return [command.code for command in asker.pushed]

    assert asyncio.run(run()) == ([RequestCode.CHECK_TRANSACTION_STATE] if is_asked else [])


def test_replies_go_to_the_account_that_had_the_client_id_first(tmp_path: Path) -> None:
    async def run() -> tuple[list[bytes], list[bytes]]:
        async with lab(tmp_path) as found:
            victim, attacker, answering = await found.connect(), await found.connect(), await found.connect()
            for raw, user in ((victim, "victim"), (attacker, "attacker")):
                assert (await raw.ask(asked(user, 34, {}, _heartbeat("10.0.0.1@77", "pay")))).code == 0
            fields = send_fields("replies", "REPLY_TO_CLIENT\x0110.0.0.1@77\x02CORRELATION_ID\x01x\x02")
            answering.writer.write(encode_frame(asked("victim", 325, fields, b"secret reply")))
            seen = asyncio.create_task(victim.replies(1))
            stolen = asyncio.create_task(attacker.replies(1))
            while not victim.pushed and not attacker.pushed:
                await asyncio.sleep(0)
            for task in (seen, stolen):
                task.cancel()
            (push,) = victim.pushed + attacker.pushed
            confirmation = RemotingCommand.response()
            confirmation.opaque = push.opaque
            victim.writer.write(encode_frame(confirmation))
            assert (await answering.replies(1)).popitem()[1].code == 0
            return [command.body_bytes for command in victim.pushed], [c.body_bytes for c in attacker.pushed]

    assert asyncio.run(run()) == ([b"secret reply"], [])


@pytest.mark.parametrize("is_dated", [False, True])
def test_a_client_that_is_asked_something_gets_nothing_by_which_the_asker_signed(
    is_dated: bool, tmp_path: Path
) -> None:
    """Or it could send the operator's request again."""
    consumer = {"groupName": "good", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    consumer |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": []}
    heartbeat = orjson.dumps({"clientID": "c", "producerDataSet": [], "consumerDataSet": [consumer]})

    async def run() -> dict[str, object]:
        async with lab(tmp_path) as found:
            client, operator = await found.connect(), await found.connect()
            assert (await client.ask(asked("victim", 34, {}, heartbeat))).code == 0
            fields = signed(
                {"consumerGroup": "good", "clientId": "c"},
                b"",
                access_key="root",
                secret_key=secret_of("root"),
                security_token="token",
                code=307 if is_dated else None,
            )
            operator.writer.write(encode_frame(RemotingCommand.request(307, fields)))
            waiting = asyncio.create_task(client.replies(1))
            while not any(command.code == 307 for command in client.pushed):
                await asyncio.sleep(0)
            waiting.cancel()
            (push,) = [command for command in client.pushed if command.code == 307]
            answer = RemotingCommand.response()
            answer.opaque = push.opaque
            client.writer.write(encode_frame(answer))
            assert (await operator.replies(1)).popitem()[1].code == 0
            return dict(push.ext or {})

    assert asyncio.run(run()) == {"consumerGroup": "good", "clientId": "c"}


def test_what_may_be_shown_is_asked_of_the_account_as_it_is_now(tmp_path: Path) -> None:
    gate, peer = Gate(tmp_path), Peer()
    assert not gate.guard.may_send(peer, "both")  # type: ignore[arg-type]  # a peer of tests
    assert gate.check(peer, send()) is None
    may = lambda topic: gate.guard.may_send(peer, topic)  # type: ignore[arg-type]  # noqa: E731
    assert [may("both"), may("denied"), may("%RETRY%bad")] == [True, False, False]
    assert gate.guard.account_of(peer) == "app"  # type: ignore[arg-type]
    gate.judge.accounts["app"] = OFF
    assert not may("both")
    del gate.judge.accounts["app"]
    assert not may("both")
    assert gate.check(peer, request(30, {"topic": "x"}, account=ROOT)) is None
    assert may("denied")
    gate.judge.trusted = ("127.0.0.1",)
    assert gate.check(peer, send(account=None)) is None
    assert may("denied")
    open_gate, stranger = Gate(tmp_path, rules=GuardRules(unsigned_codes=frozenset((34, 310)))), Peer()
    assert open_gate.check(stranger, request(34, {}, b"{}", account=None)) is None
    assert open_gate.guard.may_send(stranger, "both")  # type: ignore[arg-type]


def test_a_name_that_was_said_from_a_trusted_address_is_no_account(tmp_path: Path) -> None:
    """It was never proven, and counts no longer than the address is trusted; nor does a name that looks like it."""
    gate, peer = Gate(tmp_path), Peer()
    gate.judge.trusted = ("127.0.0.1",)
    assert gate.check(peer, request(30, {"topic": "x"}, account=Account("root", b"never-proven"))) is None
    assert gate.guard.may_send(peer, "denied")  # type: ignore[arg-type]  # a peer of tests
    gate.judge.trusted = ()
    assert not gate.guard.may_send(peer, "denied")  # type: ignore[arg-type]
    odd = Account("root@white list", b"its-own-secret")
    gate.judge.accounts[odd.name], gate.judge.allowed[odd.name] = odd, {("Topic:both", "PUB")}
    gate.judge.accounts["root"] = ROOT
    assert gate.check(peer, send(account=odd)) is None
    assert gate.guard.may_send(peer, "both")  # type: ignore[arg-type]
    assert not gate.guard.may_send(peer, "denied")  # type: ignore[arg-type]
