"""Secrets never leave a server: they are planted wherever it is told one, and looked for in all that it lets out."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq import sync
from flaremq.access.authority import BROKER, CONTROLLER, NAME_SERVER
from flaremq.client.admin.access import PlainAccount
from flaremq.client.credentials import Credentials
from flaremq.errors import FlareMQError
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import signed
from tests.support import planted
from tests.support.guarded_lab import INNER, ROOT, GuardedLab, write_private
from tests.support.planted import found_in

# What would take the account away that asks.
_NOT_ASKED = {RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_UPDATE_USER}
_FIELDS = {
    "username": ROOT.access_key,
    "subject": f"User:{ROOT.access_key}",
    "accessKey": "some-account",
    "topic": "T",
    "group": "G",
    "consumerGroup": "G",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "namespace": "n",
    "key": "k",
}
_BODIES = (b"", b"{", json.dumps({"username": "x", "password": planted.CLIENT, "userType": 7}).encode())


class Wire:
    """One connection on which requests are signed and answered one after the other."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._decoder = FrameDecoder()
        self._credentials = credentials

    def ask(self, code: int, ext: dict[str, str], body: bytes) -> RemotingCommand | None:
        """The reply; None if the server closed the connection instead."""
        fields = signed(
            ext,
            body,
            access_key=self._credentials.access_key,
            secret_key=self._credentials.secret_key,
            code=code,
        )
        request = RemotingCommand.request(code, fields, body)
        self._socket.sendall(encode_frame(request))
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return None
            if not data:
                return None
            for reply in self._decoder.receive(data):
                if reply.is_response and reply.opaque == request.opaque:
                    return reply

    def close(self) -> None:
        self._socket.close()


def shown(reply: RemotingCommand) -> str:
    """All of a reply."""
    return f"{reply.code} {reply.remark} {dict(reply.ext or {})} {bytes(reply.body_bytes)!r}"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def text_of(log: pytest.LogCaptureFixture) -> str:
    """Everything that was logged, as it would be written, with tracebacks."""
    formatter = logging.Formatter("%(name)s %(levelname)s %(message)s")
    return "\n".join(formatter.format(record) for record in log.records)


@pytest.mark.parametrize("plain", [False, True], ids=["users", "acl-1.0"])
def test_no_reply_to_any_request_of_an_administrator_holds_a_secret(
    plain: bool, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    leaks, answered = [], {}
    with GuardedLab(tmp_path, plain=plain, controller=True) as lab:
        assert lab.controller is not None
        for address, rows, server in (
            (lab.name_server, NAME_SERVER, "name server"),
            (lab.controller.address, CONTROLLER, "controller"),
            (lab.broker.address, BROKER, "broker"),
        ):
            for code in sorted(set(rows) - _NOT_ASKED):
                for ext in ({}, _FIELDS):
                    for body in _BODIES:
                        wire = Wire(address, INNER if code % 2 else ROOT)
                        reply = wire.ask(code, dict(ext), body)
                        wire.close()
                        if reply is None:
                            continue
                        answered[server, code] = min(reply.code, answered.get((server, code), 99_999))
                        if found_in(shown(reply)):
                            leaks.append((server, code, shown(reply)))
        for line in lab.audit():
            assert not found_in(json.dumps(line))
    assert leaks == []
    served = [code for code in answered.values() if code not in (ResponseCode.NO_PERMISSION,)]
    assert len(served) > 80, "refusals hold little"
    for asked in (("broker", 26), ("broker", 28), ("name server", 319), ("controller", 1010)):
        assert answered[asked] == 0, asked
    if plain:
        assert answered["broker", 54] == 0
    else:
        assert answered["broker", 3004] == answered["broker", 3005] == 0
    assert found_in(text_of(log)) == []
    assert planted.files_with(tmp_path / "store") == []


def test_what_servers_tell_of_accounts_is_a_mask(tmp_path: Path) -> None:
    with GuardedLab(tmp_path) as lab, sync.Admin(lab.name_server, credentials=ROOT) as admin:
        admin.create_user(lab.broker.address, "app", planted.CLIENT)
        users = admin.list_users(lab.broker.address)
        assert {user.username: user.password for user in users} == {
            name: "******" for name in (ROOT.access_key, INNER.access_key, "app")
        }
        config = admin.broker_config(lab.broker.address)
        assert config["initAuthenticationUser"] == config["innerClientAuthenticationCredentials"] == "******"
        assert config["haSecretFile"].endswith("/ha"), "a place is no secret"
        for values in admin.name_server_config().values():
            assert values["initAuthenticationUser"] == "******"
    stored = json.loads((tmp_path / "users" / "users.json").read_text())
    assert {user["password"] for user in stored["users"]} == {planted.INITIAL, planted.INNER, planted.CLIENT}
    assert (tmp_path / "users" / "users.json").stat().st_mode & 0o777 == 0o600


def test_what_servers_tell_of_accounts_of_acl_1_is_a_mask(tmp_path: Path) -> None:
    with GuardedLab(tmp_path, plain=True) as lab, sync.Admin(lab.name_server, credentials=ROOT) as admin:
        account = PlainAccount(access_key="another-account", secret_key=planted.CLIENT, default_topic_perm="PUB")
        admin.update_acl_account(lab.broker.address, account)
        _, accounts = admin.acl_config(lab.broker.address)
        assert {found.access_key: found.secret_key for found in accounts} == {
            name: "******" for name in (ROOT.access_key, INNER.access_key, "some-account", "another-account")
        }
    file = tmp_path / "home" / "conf" / "plain_acl.yml"
    assert planted.CLIENT in file.read_text() and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "broken",
    [
        f"accounts: [{{accessKey: some-account, secretKey: {planted.PLAIN}",
        f"accounts:\n- accessKey: some-account\n  secretKey: !!python/object:x {planted.PLAIN}\n",
        f"accounts:\n- accessKey: some-account\n  secretKey: {planted.PLAIN}\n  topicPerms: {planted.CLIENT}\n",
        f"accounts:\n- {planted.PLAIN}\n",
        f"accounts:\n- accessKey: some-account\n  secretKey: [{planted.PLAIN}]\n",
        f"accounts:\n- accessKey: some-account\n\tsecretKey: {planted.PLAIN}\n",
        f"{planted.PLAIN}: 1\n",
    ],
)
def test_a_broken_acl_file_is_reported_without_its_secrets(
    broken: str, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with GuardedLab(tmp_path, plain=True) as lab:
        write_private(tmp_path / "home" / "conf" / "plain_acl.yml", broken)
        lab.audit()  # looks at the files, too
        with sync.Admin(lab.name_server, credentials=ROOT) as admin:
            assert admin.list_topics() is not None, "the accounts of before still count"
    assert "plain_acl.yml" in text_of(log)
    assert found_in(text_of(log), (planted.PLAIN, planted.INITIAL, planted.INNER)) == []


@pytest.mark.parametrize(
    "broken",
    [
        f'{{"version": 1, "users": [{{"username": "root-of-all", "password": "{planted.INITIAL}"',
        f'{{"version": 1, "users": [{{"username": "root-of-all", "password": ["{planted.INITIAL}"]}}], "acls": []}}',
        f'{{"version": 1, "users": ["{planted.INITIAL}"], "acls": []}}',
    ],
)
def test_a_broken_file_of_users_is_reported_without_its_secrets(
    broken: str, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with GuardedLab(tmp_path) as lab:
        write_private(tmp_path / "users" / "users.json", broken)
        lab.audit()
    assert "users.json" in text_of(log)
    assert found_in(text_of(log)) == []


@pytest.mark.parametrize("name", ["initAuthenticationUser", "innerClientAuthenticationCredentials"])
@pytest.mark.parametrize(
    "wrong",
    [
        planted.CLIENT,
        f'"{planted.CLIENT}"',
        json.dumps({"username": "a", "accessKey": "a", "secret": planted.CLIENT}),
        json.dumps({"username": "a", "accessKey": "a", "password": [planted.CLIENT], "secretKey": [planted.CLIENT]}),
        json.dumps({"username": "", "accessKey": "", "password": planted.CLIENT, "secretKey": planted.CLIENT}),
        json.dumps(
            {"username": "a", "accessKey": "a", **dict.fromkeys(("password", "secretKey"), planted.CLIENT * 99)}
        ),
        f"env:{planted.CLIENT[:7]}_IS_NOT_SET",
    ],
)
def test_a_wrong_account_of_a_server_is_refused_without_showing_it(
    name: str, wrong: str, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FlareMQError, match=name) as caught, GuardedLab(tmp_path, **{name: wrong}):
        pass
    assert found_in(str(caught.value)) == []
    assert found_in(text_of(log)) == []


def test_secrets_of_servers_may_be_named_instead_of_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_ROOT", json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}))
    inner = json.dumps({"accessKey": INNER.access_key, "secretKey": INNER.secret_key})
    place = write_private(tmp_path / "secrets" / "inner.json", inner)
    named = {"initAuthenticationUser": "env:THE_ROOT", "innerClientAuthenticationCredentials": f"file:{place}"}
    with GuardedLab(tmp_path, **named) as lab, sync.Admin(lab.name_server, credentials=ROOT) as admin:
        assert {user.username for user in admin.list_users("broker-a")} == {ROOT.access_key, INNER.access_key}


def test_a_configuration_with_secrets_that_others_may_read_is_refused(tmp_path: Path) -> None:
    from flaremq.broker.options import load_options
    from flaremq.controller.options import ControllerOptions
    from flaremq.namesrv.options import NamesrvOptions

    file = tmp_path / "server.conf"
    loaders: list[Any] = [load_options, NamesrvOptions.load, ControllerOptions.load]
    for load in loaders:
        file.write_text(f'initAuthenticationUser={{"username":"root","password":"{planted.INITIAL}"}}\n')
        file.chmod(0o644)
        with pytest.raises(FlareMQError, match="mode 0644: others could read it") as caught:
            load(file)
        assert not found_in(str(caught.value))
        file.chmod(0o600)
        load(file)
        file.write_text("initAuthenticationUser=env:ROOT_OF_ALL\n")
        file.chmod(0o644)
        load(file)


def test_failed_proofs_are_told_without_what_was_proven(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    wrong = Credentials(access_key=ROOT.access_key, secret_key=planted.CLIENT, security_token=planted.TOKEN)
    with GuardedLab(tmp_path) as lab:
        with pytest.raises(FlareMQError) as caught, sync.Admin(lab.name_server, credentials=wrong) as admin:
            admin.list_topics()
        assert "check signature failed" in str(caught.value)
        lines = lab.audit()
    assert not found_in(repr(caught.value)) and not found_in(text_of(log)) and not found_in(json.dumps(lines))


def test_no_repr_of_what_holds_a_secret_shows_it(tmp_path: Path) -> None:
    with GuardedLab(tmp_path) as lab:
        broker, access = lab.broker, lab.access_of_broker()
        assert access.users is not None
        things = [broker.options, broker.options.access, lab.namesrv.options, access, access.users, access.users.tables]
        things += [*access.users.tables.users.values(), *access.users.tables.accounts.values(), access.guard, lab]
        things += [broker._remoting_options]
        for thing in things:
            assert found_in(repr(thing)) == [] and found_in(str(thing)) == [], type(thing)


def test_the_repr_of_a_request_hides_the_key_it_carries() -> None:
    request = RemotingCommand.request(50, {"accessKey": "x", "secretKey": planted.CLIENT, "Signature": planted.TOKEN})
    assert found_in(repr(request)) == [] and "accessKey" in repr(request)
