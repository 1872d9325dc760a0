"""Signatures of requests."""

from __future__ import annotations

import asyncio
import base64
import hmac

import pytest

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.message.message import Message
from flaremq.protocol.signing import PROOF, SigningKey, content, read_proof, signed
from tests.support.fake_cluster import fake_cluster


def by_hmac(secret: bytes, signed_content: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, signed_content, "sha1")).decode()


@pytest.mark.parametrize("length", [0, 1, 20, 63, 64, 65, 200])
def test_key_signs_as_often_as_it_is_asked_whatever_its_length(length: int) -> None:
    secret = bytes(range(length))
    key = SigningKey(secret)
    for signed_content in (b"", b"x", bytes(1300), memoryview(b"abc")):
        assert key.sign(signed_content).decode() == by_hmac(secret, bytes(signed_content))


def test_signature_is_that_of_the_test_vector() -> None:
    fields = signed({"queueId": 0, "topic": "T"}, b"hi", access_key="ak1234567", secret_key="sk1234567")
    assert fields == {
        "queueId": "0",
        "topic": "T",
        "AccessKey": "ak1234567",
        "Signature": "0EdLCjYjk8DhpqoZycG28vj5rnI=",
    }


def test_security_token_is_sent_and_signed() -> None:
    with_token = signed({}, b"", access_key="a", secret_key="s", security_token="t")
    assert with_token["SecurityToken"] == "t"
    assert with_token["Signature"] != signed({}, b"", access_key="a", secret_key="s")["Signature"]


def test_every_request_of_a_producer_with_an_account_is_signed() -> None:
    async def run() -> None:
        options = ProducerOptions(access_key="ak1234567", secret_key="sk1234567")
        async with fake_cluster() as cluster, Producer(cluster.address, options=options) as producer:
            await producer.send(Message("T", b"x"))
            await producer.send_oneway(Message("T", b"y"))
            await cluster.broker().until(2, 310)
            requests = [*cluster.name_server.requests, *cluster.broker().requests]
        assert requests
        for request in requests:
            ext = {name: value for name, value in (request.ext or {}).items() if name != "Signature"}
            assert request.field("Signature") == by_hmac(b"sk1234567", content(ext, request.body_bytes))
            proof = read_proof(request.field(PROOF))
            assert proof is not None and proof.code == request.code

    asyncio.run(run())
