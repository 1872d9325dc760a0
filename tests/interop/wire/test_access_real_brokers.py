"""Our clients, command line and pipeline on real brokers with access control: who may, and who may not and is told so.

A 4.9.7 broker with the accounts of ``conf/plain_acl.yml`` and a 5.5.0 broker with users and policies. Their name
servers ask nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq.client.credentials import Credentials
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import AccessDeniedError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.pipeline.scan import scan
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sink.task import TaskIdentity
from flaremq.sync import Admin, Consumer, Producer
from tests.interop.wire import accounts, probe, servers
from tests.interop.wire.selection import require
from tests.pipeline.sink_lab import bodies, numbered, run_task
from tests.support import cli

pytestmark = pytest.mark.interop

_GENERATIONS = {"rocketmq-4.9.7": accounts.ACL, "rocketmq-5.5.0": accounts.AUTH}
_TOPIC = f"{accounts.PREFIX}real"
_SINK = f"{accounts.PREFIX}sink"
_WRONG: probe.Signer = (accounts.APP[0], "wrong-secret-1")
_STRANGER: probe.Signer = ("wire-stranger", "stranger-secret-1")
_OURS = ("FLAREMQ_ACCESS_KEY", "FLAREMQ_SECRET_KEY", "FLAREMQ_SECURITY_TOKEN", "ROCKETMQ_HOME", "NAMESRV_ADDR")


@pytest.fixture(scope="module", params=[pytest.param("rocketmq-4.9.7", marks=pytest.mark.wire_core), "rocketmq-5.5.0"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    require(servers.why_not(request.param))
    generation = _GENERATIONS[request.param]
    with accounts.guarded(request.param, generation, tmp_path_factory.mktemp("real")) as started:
        if generation == accounts.AUTH:
            accounts.make_users(started)
        with _admin(started) as admin:
            for topic in (_TOPIC, _SINK):
                admin.create_topic(topic, read_queues=4, write_queues=4)
        yield started


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of who runs the tests counts."""
    for name in _OURS:
        monkeypatch.delenv(name, raising=False)


def _admin(cluster: servers.Servers, signer: probe.Signer = accounts.ADMIN) -> Admin:
    return Admin(cluster.name_server, credentials=accounts.credentials(signer))


def _producer(cluster: servers.Servers, signer: probe.Signer | None, **more: Any) -> Producer:
    return Producer(cluster.name_server, credentials=signer and accounts.credentials(signer), **more)


def _stored(cluster: servers.Servers, topic: str) -> int:
    with _admin(cluster) as admin:
        return sum(each.max_offset for each in admin.topic_stats(topic).offset_table.values())


class _Commits:
    """Every transaction is committed."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT


def test_a_producer_and_a_consumer_that_sign_do_their_work(cluster: servers.Servers) -> None:
    group = f"{accounts.PREFIX}-real-group"
    with _producer(cluster, accounts.APP, listener=_Commits()) as producer:
        producer.send(Message(_TOPIC, b"one", tags="A", keys="key-1"))
        producer.send_batch([Message(_TOPIC, b"two"), Message(_TOPIC, b"three")])
        producer.send_delayed(Message(_TOPIC, b"four"), level=1)
        producer.transaction(Message(_TOPIC, b"five"))
    received: set[bytes] = set()
    consumer = Consumer(
        cluster.name_server,
        group=group,
        subscribe=_TOPIC,
        start_from="first",
        credentials=accounts.credentials(accounts.APP),
    )
    with consumer:
        for message in consumer:
            received.add(bytes(message.body))
            message.ack()
            if len(received) == 5:
                break
    assert received == {b"one", b"two", b"three", b"four", b"five"}
    with _admin(cluster) as admin:
        assert [bytes(each.body) for each in admin.query_by_key(_TOPIC, "key-1")] == [b"one"]


@pytest.mark.parametrize(
    "signer", [None, _WRONG, _STRANGER, accounts.READER], ids=["unsigned", "wrong", "stranger", "reader"]
)
def test_who_may_not_is_refused_and_nothing_is_stored(cluster: servers.Servers, signer: probe.Signer | None) -> None:
    before = _stored(cluster, _TOPIC)
    with _producer(cluster, signer) as producer, pytest.raises(AccessDeniedError) as refused:
        producer.send(Message(_TOPIC, b"not this"))
    sentence = str(refused.value)
    assert ".java:" not in sentence
    assert not [secret for secret in (*accounts.SECRETS, _WRONG[1], _STRANGER[1]) if secret in sentence]
    assert _stored(cluster, _TOPIC) == before


def test_a_consumer_that_may_not_is_told_so(cluster: servers.Servers) -> None:
    consumer = Consumer(
        cluster.name_server,
        group=f"{accounts.PREFIX}-real-refused",
        subscribe=_TOPIC,
        credentials=accounts.credentials(accounts.NOBODY),
    )
    with pytest.raises(AccessDeniedError), consumer:
        next(iter(consumer))


# The command line


def _flaremq(cluster: servers.Servers, *arguments: object) -> cli.Outcome:
    outcome = cli.flaremq(*arguments, "-n", cluster.name_server)
    shown = outcome.out + outcome.err
    assert not [secret for secret in accounts.SECRETS if secret in shown]
    return outcome


def _sign(monkeypatch: pytest.MonkeyPatch, signer: probe.Signer) -> None:
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", signer[0])
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", signer[1])


def _ok(outcome: cli.Outcome) -> str:
    assert outcome.code == 0, outcome
    return outcome.out


def test_commands_sign_by_environment_file_and_tools_yml(
    cluster: servers.Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = accounts.ADMIN
    secret_path = accounts.secret_file(tmp_path / "secret", secret)
    tools = accounts.secret_file(tmp_path / "tools.yml", f"accessKey: {key}\nsecretKey: {secret}\n")
    before = _stored(cluster, _TOPIC)
    for ways in (["--access-key", key, "--secret-key-file", secret_path], ["--tools-yml", tools]):
        assert _TOPIC in _ok(_flaremq(cluster, *ways, "topic", "list"))
        _ok(_flaremq(cluster, *ways, "message", "send", _TOPIC, "by a command"))
    _sign(monkeypatch, accounts.APP)
    _ok(_flaremq(cluster, "message", "send", _TOPIC, "by a command"))
    assert _stored(cluster, _TOPIC) == before + 3
    _sign(monkeypatch, accounts.READER)  # looking at messages is done as the group TOOLS_CONSUMER
    assert "by a command" in _ok(_flaremq(cluster, "message", "print", _TOPIC))


@pytest.mark.parametrize("signer", [None, _WRONG, accounts.READER], ids=["unsigned", "wrong", "reader"])
def test_commands_of_others_are_refused_with_a_sentence(
    cluster: servers.Servers, monkeypatch: pytest.MonkeyPatch, signer: probe.Signer | None
) -> None:
    before = _stored(cluster, _TOPIC)
    if signer is not None:
        _sign(monkeypatch, signer)
    for words in (["message", "send", _TOPIC, "not this"], ["topic", "create", f"{_TOPIC}-mine"]):
        refused = _flaremq(cluster, *words)
        assert refused.code == 3, refused
        assert refused.err.startswith("flaremq: ") and ".java:" not in refused.err
    assert _stored(cluster, _TOPIC) == before


def test_our_mqadmin_signs(cluster: servers.Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = _flaremq(cluster, "mqadmin", "updateTopic", "-b", cluster.broker, "-t", f"{_TOPIC}-made")
    assert refused.code != 0
    _sign(monkeypatch, accounts.ADMIN)
    made = _ok(_flaremq(cluster, "mqadmin", "updateTopic", "-b", cluster.broker, "-t", f"{_TOPIC}-made"))
    assert f"create topic to {cluster.broker} success." in made
    assert _TOPIC in _ok(_flaremq(cluster, "mqadmin", "topicList"))
    assert "broker-a" in _ok(_flaremq(cluster, "mqadmin", "clusterList"))
    assert "broker-a" in _ok(_flaremq(cluster, "mqadmin", "topicStatus", "-t", _TOPIC))


def test_accounts_are_administered_by_our_commands(
    cluster: servers.Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker has the commands of its generation; what they made is used at once."""
    _sign(monkeypatch, accounts.ADMIN)
    if cluster.target == "rocketmq-4.9.7":
        signer = _account_of_1_0(cluster)
    else:
        signer = _user_of_2_0(cluster, tmp_path)
    with _producer(cluster, signer) as producer:
        producer.send(Message(_TOPIC, b"by somebody new"))
        with pytest.raises(AccessDeniedError):
            producer.send(Message(_SINK, b"not this"))


def _account_of_1_0(cluster: servers.Servers) -> probe.Signer:
    name, secret = "rocketmq-new1", "new1-secret-1"

    def mqadmin(command: str, *words: str) -> str:
        return _ok(_flaremq(cluster, "mqadmin", command, *words))

    made = mqadmin("updateAclConfig", "-b", cluster.broker, "-a", name, "-s", secret, "-t", f"{_TOPIC}=PUB")
    assert f"create or update plain access config to {cluster.broker} success." in made
    assert secret not in mqadmin("getAclConfig", "-b", cluster.broker)
    assert "plain_acl.yml" in mqadmin("clusterAclConfigVersion", "-b", cluster.broker)
    mqadmin("updateAclConfig", "-b", cluster.broker, "-a", "rocketmq-new2", "-s", secret)
    assert "rocketmq-new2" in mqadmin("deleteAclConfig", "-b", cluster.broker, "-a", "rocketmq-new2")
    return name, secret


def _user_of_2_0(cluster: servers.Servers, folder: Path) -> probe.Signer:
    name, secret = "wire-new", "new1-secret-1"
    place = f"file:{accounts.secret_file(folder / 'password', secret)}"
    _ok(_flaremq(cluster, "user", "create", name, "--password", place))
    _ok(_flaremq(cluster, "acl", "set", f"User:{name}", f"Topic:{_TOPIC}", "Pub"))
    users = _ok(_flaremq(cluster, "user", "list", "-o", "jsonl")).splitlines()
    assert {name, accounts.APP[0]} <= {json.loads(line)["user"] for line in users}
    assert f"Topic:{_TOPIC}" in _ok(_flaremq(cluster, "acl", "list", "-o", "jsonl"))

    def mqadmin(command: str, *words: str) -> str:
        shown = _ok(_flaremq(cluster, "mqadmin", command, "-b", cluster.broker, *words))
        assert secret not in shown
        return shown

    other = ("-u", "wire-other")
    assert "success." in mqadmin("createUser", *other, "-p", secret)
    assert "success." in mqadmin("createAcl", "-s", "User:wire-other", "-r", "Topic:x", "-a", "Pub", "-d", "Deny")
    assert "wire-other" in mqadmin("getUser", *other) and "wire-other" in mqadmin("listUser")
    assert "Topic:x" in mqadmin("getAcl", "-s", "User:wire-other")
    assert "success." in mqadmin("updateUser", *other, "-s", "disable")
    assert "disable" in mqadmin("getUser", *other)
    assert "success." in mqadmin("deleteAcl", "-s", "User:wire-other")
    assert "success." in mqadmin("deleteUser", *other)
    assert "wire-other" not in mqadmin("listUser")
    return name, secret


# The pipeline


def _account(signer: probe.Signer | None) -> dict[str, str]:
    return {} if signer is None else {"accessKey": signer[0], "secretKey": signer[1]}


def test_sink_and_source_that_sign(cluster: servers.Servers, tmp_path: Path) -> None:
    told = {"nameServer": cluster.name_server, "topic": _SINK, **_account(accounts.APP)}
    task = TaskIdentity("query", 1, 1)
    run_task(parse_sink_options(told), task, [bodies(numbered(0, 500))])
    assert run_task(parse_sink_options(told), task, [bodies(numbered(0, 500))]).stored_before == 500
    place = f"file:{accounts.secret_file(tmp_path / 'secret', accounts.READER[1])}"
    found = scan(
        name_server=cluster.name_server,
        topic=_SINK,
        columns="body",
        credentials=Credentials(access_key=accounts.READER[0], secret_key=place),
    )
    assert sorted(bytes(body).decode() for body in found.read_all()["body"].to_pylist()) == sorted(numbered(0, 500))


@pytest.mark.parametrize("signer", [None, _WRONG, accounts.READER], ids=["unsigned", "wrong", "reader"])
def test_sinks_that_may_not_write_store_nothing(cluster: servers.Servers, signer: probe.Signer | None) -> None:
    if signer == accounts.READER and cluster.target == "rocketmq-4.9.7":
        pytest.skip("a 4.9 broker lets any account send batches anywhere")
    before = _stored(cluster, _SINK)
    told = parse_sink_options({"nameServer": cluster.name_server, "topic": _SINK, **_account(signer)})
    with pytest.raises(AccessDeniedError):
        run_task(told, TaskIdentity("refused", 1, 1), [bodies(numbered(0, 10))])
    assert _stored(cluster, _SINK) == before


@pytest.mark.parametrize("signer", [None, _WRONG, accounts.NOBODY], ids=["unsigned", "wrong", "nobody"])
def test_sources_that_may_not_read_get_nothing(cluster: servers.Servers, signer: probe.Signer | None) -> None:
    with pytest.raises(AccessDeniedError):
        scan(name_server=cluster.name_server, topic=_TOPIC, columns="body", **_account(signer)).read_all()
