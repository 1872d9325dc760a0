"""Requests 50 to 54 against what a real 4.9.7 answered: ``tests/golden/access/plain-49.md``."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.administration.plain_acl import PlainAclHandler
from flaremq.broker.options import BrokerOptions
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from tests.access.plain.acl_lab import AclLab
from tests.support.fake_connection import FakeConnection, ask
from tests.support.golden_frames import decode_one

_FILE = Path(__file__).resolve().parents[2] / "golden" / "access" / "plain-49.jsonl.gz"


class Office:
    """The handlers over the recorded accounts."""

    def __init__(self, home: Path) -> None:
        self.lab = AclLab.recorded(home)
        options = BrokerOptions(broker_name="broker-a", broker_cluster_name="DefaultCluster", listen_port=20911)
        self.table = HandlerTable()
        PlainAclHandler(self.lab.store, options).register(self.table)

    async def ask(self, code: int, **ext: str) -> RemotingCommand:
        return await ask(self.table, FakeConnection(), RemotingCommand.request(code, ext))


def _cases(recording: str) -> list[tuple[str, RemotingCommand, RemotingCommand]]:
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        (row["case"], decode_one(bytes.fromhex(row["sent"])), decode_one(bytes.fromhex(row["got"])))
        for row in rows
        if row["recording"] == recording
    ]


def _masked(body: bytes) -> dict[str, Any]:
    """A recorded list of accounts as ours has it: without secrets, the files in the order of their names."""
    config: dict[str, Any] = json.loads(body)
    for entry in config["plainAccessConfigs"]:
        entry["secretKey"] = "******"
    return _ordered(config)


def _ordered(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "plainAccessConfigs": sorted(config["plainAccessConfigs"], key=lambda entry: entry["accessKey"])}


@pytest.mark.parametrize("recording", ["raw", "mqadmin"])
def test_replies_are_those_of_4_9_7_without_its_secrets(tmp_path: Path, recording: str) -> None:
    async def run() -> None:
        office = Office(tmp_path)
        for case, request, expected in _cases(recording):
            reply = await ask(office.table, FakeConnection(), request)
            remark = (expected.remark or "").replace("secretKey=abcdefg", "secretKey=******")
            assert (case, reply.code, reply.remark or "") == (case, expected.code, remark)
            if request.code == RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG:
                assert _ordered(json.loads(reply.body_bytes)) == _masked(expected.body_bytes), case
                assert [list(entry) for entry in json.loads(reply.body_bytes)["plainAccessConfigs"]] == [
                    sorted(entry) for entry in json.loads(reply.body_bytes)["plainAccessConfigs"]
                ]
            elif request.code == RequestCode.GET_BROKER_CLUSTER_ACL_INFO:
                _compare_versions(case, reply, expected, tmp_path)
            else:
                assert reply.body_bytes == b""

    asyncio.run(run())


def _compare_versions(case: str, reply: RemotingCommand, expected: RemotingCommand, home: Path) -> None:
    ours, theirs = dict(reply.ext or {}), dict(expected.ext or {})
    assert ours.keys() == theirs.keys(), case
    for name in ("brokerName", "brokerAddr", "clusterName"):
        assert ours[name] == theirs[name], case

    def counters(text: object) -> dict[str, int]:
        return {path.partition("/conf/")[2]: version["counter"] for path, version in json.loads(str(text)).items()}

    assert counters(ours["allAclFileVersion"]) == counters(theirs["allAclFileVersion"]), case
    assert all(path.startswith(str(home)) for path in json.loads(str(ours["allAclFileVersion"])))
    version = json.loads(str(ours["version"]))
    assert version.keys() == json.loads(str(theirs["version"])).keys()
    # 4.9.7 answers the version of the last reload there; ours is in effect at once.
    assert version == json.loads(str(ours["allAclFileVersion"]))[str(home / "conf/plain_acl.yml")]


def test_change_is_in_effect_and_in_the_file_when_it_is_answered(tmp_path: Path) -> None:
    async def run() -> None:
        office = Office(tmp_path)
        reply = await office.ask(
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="rocketmq-new1", secretKey="new1-secret-1", admin="TRUE"
        )
        assert reply.code == 0
        assert office.lab.secret("rocketmq-new1") == office.lab.reopen().secret("rocketmq-new1") == "new1-secret-1"
        reply = await office.ask(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="10.0.0.{1,2},10.1.0.*")
        assert reply.code == 0
        assert office.lab.reopen().judge.trusts("10.0.0.2", None)
        assert office.lab.reopen().judge.trusts("10.1.0.2", None)

    asyncio.run(run())


def test_missing_field_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        office = Office(tmp_path)
        for code in (
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        ):
            reply = await office.ask(code)
            assert reply.code == 1
            assert "is null" in (reply.remark or "")

    asyncio.run(run())


def test_failure_that_somebody_must_look_at_is_explained(tmp_path: Path) -> None:
    async def run() -> None:
        office = Office(tmp_path)
        office.lab.write("acl/one.yml", "accounts: [")
        deleted = await office.ask(RequestCode.DELETE_ACL_CONFIG, accessKey="rocketmq-app")
        assert deleted.code == 210
        assert "one.yml" in (deleted.remark or "")
        listed = await office.ask(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="10.0.0.1")
        assert listed.code == 211
        put = await office.ask(
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="rocketmq-new1", secretKey="MARKED-secret"
        )
        assert put.code == 209
        assert "MARKED" not in (put.remark or "")

    asyncio.run(run())


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        office = Office(tmp_path)
        await office.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="rocketmq-new1", secretKey="MARKED-secret")
        await office.ask(RequestCode.DELETE_ACL_CONFIG, accessKey="rocketmq-new1")

    asyncio.run(run())
    assert "account 'rocketmq-new1' is deleted" in caplog.text
    assert "MARKED" not in caplog.text
