"""Administration of users and policies: recorded requests asked again, and what ours refuses beyond them."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from flaremq.access.users.initial import create_missing, parse_initial_user
from flaremq.access.users.user_store import UserStore
from flaremq.broker.administration.users import UserHandler
from flaremq.java_json import parse_java_json, write_java_json
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from tests.access.users.recorded import recorded
from tests.support.fake_connection import FakeConnection, ask

SECRET = "marked-secret-51"


class UserLab:
    """The handler over a store that has the Super user ``rocketmq``."""

    def __init__(self, folder: Path) -> None:
        self.store = UserStore(folder)
        create_missing(self.store, [parse_initial_user('{"username":"rocketmq","password":"12345678"}')])
        self.table = HandlerTable()
        UserHandler(self.store).register(self.table)
        self.connection = FakeConnection()

    async def ask(self, code: int, body: Any = None, *, by: str = "rocketmq", **ext: str) -> RemotingCommand:
        data = b"" if body is None else write_java_json(body)
        return await self.send(RemotingCommand.request(code, {"AccessKey": by, **ext}, data))

    async def send(self, request: RemotingCommand) -> RemotingCommand:
        return await ask(self.table, self.connection, request)

    async def create(self, name: str, type: str = "Normal") -> None:
        body = {"password": f"{name}-secret", "userType": type}
        reply = await self.ask(RequestCode.AUTH_CREATE_USER, body, username=name)
        assert reply.code == ResponseCode.SUCCESS

    async def allow(self, name: str, *resources: str, policy_type: str = "Custom") -> None:
        entries = [{"resource": resource, "actions": ["Pub"], "decision": "Allow"} for resource in resources]
        body = {"policies": [{"policyType": policy_type, "entries": entries}]}
        reply = await self.ask(RequestCode.AUTH_CREATE_ACL, body, subject=f"User:{name}")
        assert reply.code == ResponseCode.SUCCESS

    async def resources(self, name: str) -> list[str]:
        """What the policies of a user speak of, in order."""
        reply = await self.ask(RequestCode.AUTH_GET_ACL, subject=f"User:{name}")
        if not reply.body:
            return []
        policies = parse_java_json(reply.body_bytes)["policies"]
        return [entry["resource"] for policy in policies for entry in policy["entries"]]


def masked(body: bytes) -> bytes:
    """A recorded body as ours is: no secrets."""
    return re.sub(rb'"password":"[^"]*"', b'"password":"******"', body)


# Recorded


@pytest.mark.parametrize("recording", ["raw", "mqadmin"])
def test_recorded_requests_are_answered_as_the_real_broker_answered_them(tmp_path: Path, recording: str) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        asked = 0
        for case in recorded(recording):
            request, real = case.request, case.reply
            if request.code not in lab.table.entries or request.field("AccessKey") != "rocketmq":
                continue  # not for this handler, or not let through to it
            reply = await lab.send(request)
            asked += 1
            remark = real.remark
            if case.case == "super-3006-no-body":  # without the names of classes and lines
                remark = "The body of acl is null"
            got, expected = (reply.code, reply.remark, reply.body_bytes), (real.code, remark, masked(real.body_bytes))
            assert got == expected, case.case
        assert asked == {"raw": 51, "mqadmin": 29}[recording]

    asyncio.run(run())


# Secrets


def test_no_reply_and_no_log_line_has_a_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def run() -> None:
        lab = UserLab(tmp_path)
        replies = [
            await lab.ask(RequestCode.AUTH_CREATE_USER, {"password": SECRET}, username="app"),
            await lab.ask(RequestCode.AUTH_CREATE_USER, {"password": SECRET}, username="app"),
            await lab.ask(RequestCode.AUTH_UPDATE_USER, {"password": SECRET + "2"}, username="app"),
            await lab.ask(RequestCode.AUTH_UPDATE_USER, {"password": [SECRET]}, username="app"),
            await lab.ask(RequestCode.AUTH_UPDATE_USER, SECRET, username="app"),
            await lab.send(RemotingCommand.request(3002, {"username": "app"}, f'{{"password":"{SECRET}"'.encode())),
            await lab.ask(RequestCode.AUTH_GET_USER, username="app"),
            await lab.ask(RequestCode.AUTH_LIST_USER),
        ]
        assert [reply.code for reply in replies] == [0, 16, 0, 16, 29, 29, 0, 0]
        assert lab.store.tables.users["app"].password == SECRET + "2"
        text = "".join(f"{reply!r}{reply.body_bytes!r}" for reply in replies) + repr(lab.store.tables.users)
        assert SECRET not in text + repr(lab.store.tables.accounts) + caplog.text

    asyncio.run(run())


@pytest.mark.parametrize("code", [RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER])
def test_the_mask_of_replies_is_no_password(tmp_path: Path, code: RequestCode) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("old")
        name = "new" if code == RequestCode.AUTH_CREATE_USER else "old"
        reply = await lab.ask(code, {"password": "******"}, username=name)
        assert reply.code == ResponseCode.NO_PERMISSION and "******" in (reply.remark or "")
        assert lab.store.tables.users["old"].password == "old-secret"
        assert "new" not in lab.store.tables.users

    asyncio.run(run())


# The last Super user


@pytest.mark.parametrize("body", [None, {"userStatus": "disable"}, {"userType": "Normal"}])
def test_the_last_enabled_super_user_stays(tmp_path: Path, body: dict[str, str] | None) -> None:
    code = RequestCode.AUTH_DELETE_USER if body is None else RequestCode.AUTH_UPDATE_USER

    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("off", "Super")
        assert (await lab.ask(RequestCode.AUTH_UPDATE_USER, {"userStatus": "DISABLE"}, username="off")).code == 0
        reply = await lab.ask(code, body, username="rocketmq")
        assert reply.code == ResponseCode.NO_PERMISSION and "last enabled Super" in (reply.remark or "")
        assert lab.store.tables.has_super
        assert (await lab.ask(RequestCode.AUTH_UPDATE_USER, {"userStatus": "enable"}, username="off")).code == 0
        assert (await lab.ask(code, body, username="rocketmq")).code == ResponseCode.SUCCESS

    asyncio.run(run())


@pytest.mark.parametrize("body", [{"userStatus": "disabled"}, {"userType": "King"}])
def test_an_update_to_an_unknown_word_is_refused_and_changes_nothing(tmp_path: Path, body: dict[str, str]) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("app")
        before = lab.store.tables
        reply = await lab.ask(RequestCode.AUTH_UPDATE_USER, body | {"password": "x"}, username="app")
        assert reply.code == ResponseCode.NO_PERMISSION and lab.store.tables is before

    asyncio.run(run())


# Policies


def test_deleting_a_user_deletes_what_the_next_one_of_that_name_would_inherit(tmp_path: Path) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("app")
        await lab.allow("app", "*")
        assert (await lab.ask(RequestCode.AUTH_DELETE_USER, username="app")).code == ResponseCode.SUCCESS
        await lab.create("app")
        assert await lab.resources("app") == []

    asyncio.run(run())


def test_deleting_one_resource_keeps_the_others_and_the_other_policy(tmp_path: Path) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("app")
        await lab.allow("app", "Topic:a", "Topic:b", "Topic:a")
        await lab.allow("app", "Topic:a", policy_type="Default")
        subject = "User:app"
        await lab.ask(RequestCode.AUTH_DELETE_ACL, subject=subject, resource="Topic:a")
        assert await lab.resources("app") == ["Topic:b", "Topic:a"]
        await lab.ask(RequestCode.AUTH_DELETE_ACL, subject=subject, resource="Topic:a", policyType="default")
        assert await lab.resources("app") == ["Topic:b"]
        await lab.ask(RequestCode.AUTH_DELETE_ACL, subject=subject, resource="Topic:b")
        assert "app" not in lab.store.tables.acls

    asyncio.run(run())


def test_deleting_a_resource_that_is_none_deletes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await lab.create("app")
        await lab.allow("app", "Topic:a")
        reply = await lab.ask(RequestCode.AUTH_DELETE_ACL, subject="User:app", resource="Tpic:a")
        assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "The resource is null.")
        assert await lab.resources("app") == ["Topic:a"]

    asyncio.run(run())


def test_who_is_not_super_lists_only_his_own_policies_whatever_the_filter_meets(tmp_path: Path) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        for name in ("app", "app2"):
            await lab.create(name)
            await lab.allow(name, "Topic:a")
        reply = await lab.ask(RequestCode.AUTH_LIST_ACL, by="app", subjectFilter="User:app")
        assert [acl["subject"] for acl in parse_java_json(reply.body_bytes)] == ["User:app"]
        both = await lab.ask(RequestCode.AUTH_LIST_ACL, subjectFilter="User:app")
        assert [acl["subject"] for acl in parse_java_json(both.body_bytes)] == ["User:app", "User:app2"]

    asyncio.run(run())


def test_changes_asked_at_once_are_all_made(tmp_path: Path) -> None:
    async def run() -> None:
        lab = UserLab(tmp_path)
        await asyncio.gather(*(lab.create(f"user{number}") for number in range(20)))
        assert len(lab.store.tables.users) == 21 == len(UserStore(tmp_path).tables.users)

    asyncio.run(run())


def test_a_change_that_cannot_be_written_is_refused_and_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def run() -> None:
        lab = UserLab(tmp_path)
        monkeypatch.setattr("flaremq.access.users.user_store.replace_file", fail)
        reply = await lab.ask(RequestCode.AUTH_CREATE_USER, {"password": "x"}, username="app")
        assert reply.code == ResponseCode.SYSTEM_ERROR and "No space left" in (reply.remark or "")
        assert "app" not in lab.store.tables.users

    asyncio.run(run())
