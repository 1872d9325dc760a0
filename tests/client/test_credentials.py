"""Accounts of clients: how they are given, where secrets are looked up, what is never shown."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flaremq
from flaremq import sync
from flaremq.client.admin.admin import Admin
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.credentials import Credentials
from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.options import properties_of
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.signing import SigningKey, content
from flaremq.secret_place import secret_value
from tests.support.fake_cluster import fake_cluster

SECRET = "planted-5c1d9e-secret"
TOKEN = "planted-5c1d9e-token"
ACCOUNT = Credentials(access_key="app", secret_key=SECRET)


def private_file(path: Path, text: str = SECRET) -> str:
    path.write_text(text + "\n", encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def is_signed(request: RemotingCommand, secret: str = SECRET, name: str = "app") -> bool:
    ext = {key: value for key, value in (request.ext or {}).items() if key != "Signature"}
    expected = SigningKey(secret.encode()).sign(content(ext, request.body_bytes)).decode()
    return ext.get("AccessKey") == name and request.field("Signature") == expected


def requests_of(make: Callable[[str], Any], *, blocking: bool) -> list[RemotingCommand]:
    """What a client sends when it is told to do something small."""

    async def run() -> list[RemotingCommand]:
        async with fake_cluster() as cluster:
            if blocking:
                await asyncio.to_thread(_use_blocking, make(cluster.address))
            else:
                await _use(make(cluster.address))
            return [*cluster.name_server.requests, *cluster.broker().requests]

    return asyncio.run(run())


async def _use(client: Any) -> None:
    async with client:
        if isinstance(client, Producer):
            await client.send(Message("T", b"x"))
        else:
            await client.queues("T")


def _use_blocking(client: Any) -> None:
    with client:
        if isinstance(client, sync.Producer):
            client.send(Message("T", b"x"))
        else:
            client.queues("T")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (Producer, {}),
        (Consumer, {"group": "g"}),
        (Admin, {}),
        (sync.Producer, {}),
        (sync.Consumer, {"group": "g"}),
        (sync.Admin, {}),
    ],
)
def test_every_client_signs_with_the_credentials_it_is_given(kind: Any, more: dict[str, str]) -> None:
    blocking = kind.__module__ == "flaremq.sync"
    requests = requests_of(lambda address: kind(address, credentials=ACCOUNT, **more), blocking=blocking)
    assert requests
    assert all(is_signed(request) for request in requests)


def test_credentials_become_options_like_any_other() -> None:
    options = ProducerOptions(send_window=7).signed_by(ACCOUNT)
    assert options == ProducerOptions(send_window=7, access_key="app", secret_key=SECRET)
    assert options.credentials() == ACCOUNT
    assert ClientOptions().credentials() is None
    assert ClientOptions().signed_by(None) == ClientOptions()


def test_two_accounts_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"both credentials .* and options with accessKey='other'"):
        Producer("127.0.0.1:1", options=ProducerOptions(access_key="other", secret_key="s3cret-o"), credentials=ACCOUNT)
    with pytest.raises(InvalidArgumentError, match="credentials are Credentials"):
        Admin("127.0.0.1:1", credentials=("app", SECRET))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"access_key": "", "secret_key": SECRET}, "one of them is empty"),
        ({"access_key": "app", "secret_key": ""}, "one of them is empty"),
        ({"access_key": "app", "secret_key": SECRET.encode()}, "secret_key is a text, not a bytes"),
        ({"access_key": "app", "secret_key": SECRET, "security_token": None}, "security_token is a text"),
    ],
)
def test_wrong_credentials_are_refused_without_showing_them(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        Credentials(**wrong)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"secret_key": SECRET}, "secretKey is given without accessKey"),
        ({"secret_key_file": "/x"}, "secretKeyFile is given without accessKey"),
        ({"access_key": "app"}, "without its secretKey or secretKeyFile"),
        ({"security_token": TOKEN}, "securityToken is given without"),
        ({"access_key": "app", "secret_key": SECRET, "secret_key_file": "/x"}, "both secretKey and secretKeyFile"),
    ],
)
def test_half_an_account_among_options_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        ClientOptions(**given)
    assert SECRET not in str(caught.value) and TOKEN not in str(caught.value)


def test_secrets_are_found_where_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", SECRET)
    monkeypatch.setenv("A_TOKEN", TOKEN)
    path = private_file(tmp_path / "secret")
    named = Credentials(access_key="app", secret_key="env:A_SECRET", security_token="env:A_TOKEN")
    plain = Credentials(access_key="app", secret_key=SECRET, security_token=TOKEN)
    assert named.resolved() == plain
    assert ClientOptions().signed_by(named).credentials() == plain
    assert replace(named, secret_key=f"file:{path}").resolved() == plain
    assert ClientOptions(access_key="app", secret_key_file=path).credentials() == ACCOUNT
    assert ClientOptions(access_key="app", secret_key=f"file:{path}").credentials() == ACCOUNT
    for shown in (repr(named), str(pickle.dumps(named)), str(pickle.dumps(ClientOptions().signed_by(named)))):
        assert SECRET not in shown and TOKEN not in shown


def test_a_secret_that_is_not_where_it_is_said_to_be_is_an_error(tmp_path: Path) -> None:
    for text, words in (
        ("env:NOT_SET_ANYWHERE", "environment variable 'NOT_SET_ANYWHERE', which is not set here"),
        (f"file:{tmp_path}/none", "cannot be read: No such file"),
        (f"file:{tmp_path}", "cannot be read: Is a directory"),
        ("file:" + private_file(tmp_path / "blank", "  "), "is empty"),
        ("file:" + private_file(tmp_path / "long", "x" * 5000), "more than 4096 bytes"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            secret_value(text, "secretKey")


def test_a_file_that_others_may_read_holds_no_secret(tmp_path: Path) -> None:
    path = private_file(tmp_path / "secret")
    os.chmod(path, 0o640)
    with pytest.raises(InvalidArgumentError, match=r"mode 0640: others could read it \(chmod 600\)") as caught:
        ClientOptions(access_key="app", secret_key_file=path).credentials()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", [ClientOptions, ProducerOptions, ConsumerOptions])
def test_no_text_of_options_shows_a_secret(kind: type[ClientOptions]) -> None:
    options = kind(access_key="app", secret_key=SECRET, security_token=TOKEN)
    shown = [repr(options), str(options), f"{options}", str(properties_of(options)), repr(options.credentials())]
    shown += [repr(ACCOUNT), str(ACCOUNT), repr(sync.Producer("127.0.0.1:1", credentials=ACCOUNT))]
    assert all(SECRET not in text and TOKEN not in text for text in shown)
    assert "app" in shown[0] and "app" in repr(ACCOUNT)


def test_credentials_are_a_name_of_the_package_that_is_loaded_when_it_is_used() -> None:
    assert flaremq.Credentials is Credentials
    code = "import sys, flaremq; print('flaremq.client' in sys.modules, 'Credentials' in flaremq.__all__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
