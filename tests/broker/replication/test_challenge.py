"""Both ends prove the shared secret; strangers, other secrets, other groups and replays get nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.broker.replication.challenge import MasterProof, SlaveProof, begins_hello, check_secret
from flaremq.errors import InvalidArgumentError, RemoteProtocolError

SECRET = b"correct horse battery"
GROUP = "DefaultCluster/broker-a"


def slave(secret: bytes = SECRET, group: str = GROUP) -> SlaveProof:
    return SlaveProof(secret, group=group, broker_id=3)


def master(secret: bytes = SECRET, group: str = GROUP) -> MasterProof:
    return MasterProof(secret, group=group)


def exchange(one: SlaveProof, other: MasterProof) -> None:
    down = other.receive(one.hello)
    up = one.receive(down)
    one.receive(other.receive(up))


def test_ends_with_the_same_secret_believe_each_other() -> None:
    one, other = slave(), master()
    exchange(one, other)
    assert one.is_done and other.is_done
    assert other.broker_id == 3


def test_bytes_may_come_one_by_one() -> None:
    one, other = slave(), master()
    up = one.hello
    for _ in range(3):
        down = b"".join(other.receive(bytes([byte])) for byte in up)
        up = b"".join(one.receive(bytes([byte])) for byte in down)
    assert one.is_done and other.is_done


def test_stream_behind_the_proof_is_handed_on() -> None:
    one, other = slave(), master()
    proof = one.receive(other.receive(one.hello))
    last = other.receive(proof + b"report")
    one.receive(last + b"frame")
    assert other.rest == b"report" and one.rest == b"frame"


def test_slave_with_another_secret_is_refused_and_learns_nothing() -> None:
    one, other = slave(b"another secret of many bytes"), master()
    proof = one.receive(other.receive(one.hello))
    with pytest.raises(RemoteProtocolError, match="does not know the shared secret"):
        other.receive(proof)


def test_master_with_another_secret_is_refused() -> None:
    one, liar = slave(), master(b"another secret of many bytes")
    one.receive(liar.receive(one.hello))
    with pytest.raises(RemoteProtocolError, match="does not know the shared secret"):
        one.receive(master_proof_of(liar))


def master_proof_of(liar: MasterProof) -> bytes:
    """What a master would send that checks nothing and knows another secret."""
    twin = SlaveProof(liar._secret, group=GROUP, broker_id=3)
    other = master(liar._secret)
    return other.receive(twin.receive(other.receive(twin.hello)))


def test_proof_of_one_connection_is_worth_nothing_on_another() -> None:
    one, first, second = slave(), master(), master()
    proof = one.receive(first.receive(one.hello))
    second.receive(one.hello)
    with pytest.raises(RemoteProtocolError):
        second.receive(proof)


def test_proof_of_the_slave_is_not_one_of_the_master() -> None:
    one, other = slave(), master()
    proof = one.receive(other.receive(one.hello))
    with pytest.raises(RemoteProtocolError):
        one.receive(proof)


def test_slave_of_another_group_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="not of"):
        master().receive(slave(group="DefaultCluster/broker-b").hello)


def test_answer_of_a_rocketmq_master_is_told_apart() -> None:
    heartbeat = (-5).to_bytes(8, "big", signed=True) + bytes(4)
    with pytest.raises(RemoteProtocolError, match="RocketMQ"):
        slave().receive(heartbeat)


@given(st.binary(min_size=32, max_size=32), st.text(max_size=60), st.integers(0, 2**63 - 1))
def test_no_eight_bytes_of_a_hello_acknowledge_anything_to_a_rocketmq_master(
    nonce: bytes, group: str, broker_id: int
) -> None:
    hello = SlaveProof(SECRET, group=group, broker_id=broker_id, random=lambda _: nonce).hello
    assert len(hello) % 8 == 0
    for at in range(0, len(hello), 8):
        assert int.from_bytes(hello[at : at + 8], "big", signed=True) < -1


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_whatever_a_stranger_sends_ends_in_an_error_or_waits_for_more(parts: list[bytes]) -> None:
    other = master()
    try:
        for part in parts:
            other.receive(part)
    except RemoteProtocolError:
        return
    assert not other.is_done
    assert len(other._held) < 1024


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=1))
def test_changed_byte_anywhere_ends_in_an_error(at: int, byte: bytes) -> None:
    one, other = slave(), master()
    hello = one.hello
    at %= len(hello)
    changed = hello[:at] + byte + hello[at + 1 :]
    if changed == hello:
        return
    try:
        proof = one.receive(other.receive(changed))
        if proof:
            other.receive(proof)
    except RemoteProtocolError:
        return
    assert not other.is_done


def test_first_report_of_a_slave_is_no_hello() -> None:
    assert begins_hello(slave().hello[:8])
    for offset in (0, 1, 2**62, -1):
        assert not begins_hello(offset.to_bytes(8, "big", signed=True))


def test_short_secret_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="too short"):
        check_secret(b"1234")
