"""Every frame that was sent to a real broker with access control on is sent to ours, which has the same accounts.

The code must be the recorded one, except where ours is stricter on purpose: each such case stands below with the code
that ours gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions
from flaremq.broker.service import BrokerService
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder
from tests.access.recorded import Case, cases
from tests.support.ports import free_ports

_ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
- {accessKey: rocketmq-app, secretKey: app-secret-1, topicPerms: [both=PUB|SUB, pubOnly=PUB, subOnly=SUB, denied=DENY],
   groupPerms: [goodGroup=SUB, badGroup=DENY]}
- {accessKey: rocketmq-admin, secretKey: admin-secret-1, admin: true}
- {accessKey: rocketmq-adm2, secretKey: adm2-secret-1, admin: true, topicPerms: [only=PUB]}
- {accessKey: rocketmq-dflt, secretKey: dflt-secret-1, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
- {accessKey: rocketmq-white, secretKey: white-secret-1, whiteRemoteAddress: 127.0.0.*}
- {accessKey: rocketmq-victim, secretKey: victim-secret-1, defaultTopicPerm: PUB}
- {accessKey: rocketmq-twice, secretKey: twice-default-1, defaultTopicPerm: PUB}
"""
_IN_FOLDER = "accounts:\n- {accessKey: NAME, secretKey: SECRET, defaultTopicPerm: PUB}\n"

# Ours is stricter here: what the real one let through, and the code ours gives (1: to a client of 4.x).
STRICTER_49: Mapping[str, int | None] = {
    "send-empty-field-binary": 0,
    "query-unique-flag-signed": 0,  # as clients of 4.9.7 sign it
    "send-batch-320-denied": 1,
    "send-retry-other-group-a-own": 1,
    "send-retry-other-group-code-10": 1,
    "pull-%DLQ%goodGroup-goodGroup": 17,
    "view-33-message-of-a-denied-topic": 1,
    "unregister-missing-clientID": 1,
    "query-offset-14-denied-badGroup": 1,
    "max-offset-30-denied": 1,
    "lock-41-badGroup": 1,
    "user-26": 1,
    "user-28": 1,
    "user-21": 1,
    "user-43": 1,
    "user-45": 1,
    "user-201": 1,
    "user-202": 1,
    "user-203": 1,
    "user-208": 1,
    "user-300": 1,
    "user-305": 1,
    "user-306": 1,
    "user-314": 1,
    "user-315": 1,
    "user-316": 1,
    "user-317": 1,
    "user-321": 1,
    "user-329": 1,
    "user-52": 1,
    "user-54": 1,
    "user-50-makes-itself-admin": 1,
    "user-17-after-that": 1,
    "send-denied-after-that": 1,
    "user-51-deletes-an-account": 1,
    "victim-after-that": 0,
    "user-51-unknown": 1,
    "user-50-short-key": 1,
    "user-50-bad-perm": 1,
    "user-50-missing-admin": 1,
    "after-broken-yaml": 1,
}
STRICTER_55: Mapping[str, int | None] = {
    "send-empty-field-binary": 0,
    "query-v399-unique-flag-signed": 0,
    "send-reply-325-denied": 16,
    "pull-%RETRY%badGroup-goodGroup": 16,
    "pull-%DLQ%goodGroup-goodGroup": 17,
    "lite-pull-361-denied-badGroup": 16,
    "lite-pull-361-denied-nobody": 16,
    "ack-retry-topic-v1": 17,
    "view-33-denied-no-topic": 1,
    "view-33-denied-claims-both": 1,
    "view-33-denied-topic": 1,
    "view-33-both": 0,
    "update-offset-15-%RETRY%badGroup-goodGroup": 16,
    "query-offset-14-%RETRY%badGroup-goodGroup": 16,
    "max-offset-30-both-has-pub-sub-only": 0,
    "send-back-36-good-group-denied-record": 1,
    "end-transaction-37-denied": 1,
    "iponly-proxy-protocol-says-10.1.2.3": None,
    "getter-3005-list-users": 16,
    "getter-3004": 16,
    "updater-3001-super": 16,
    "updater-3002-other-password": 16,
    "updater-3006-own-acl": 16,
    "updater-17-after-that": 16,
    "nobody-18": 16,
    "nobody-25": 16,
    "nobody-26": 16,
    "nobody-28": 16,
    "nobody-21": 16,
    "nobody-43": 16,
    "nobody-200": 16,
    "nobody-225": 3,
    "nobody-201": 16,
    "nobody-305": 16,
    "nobody-306": 16,
    "nobody-316": 16,
    "nobody-329": 16,
    "nobody-401": 16,
    "nobody-402": 16,
    "nobody-400": 16,
    "nobody-907": 16,
    "nobody-25-switches-authentication-off": 16,
    "aclEnable-on-5.5.0-unsigned-send": 16,
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


async def _replies(folder: Path, access: AccessOptions, recorded: list[Case]) -> dict[str, RemotingCommand | None]:
    port = free_ports()
    options = BrokerOptions(listen_port=port, access=access)
    broker = BrokerService(folder / "store", options)
    await broker.start()
    replies: dict[str, RemotingCommand | None] = {}
    try:
        for case in recorded:
            if case.to == "namesrv":
                continue
            replies[case.name] = await _reply(port - 2 if case.to == "broker-fast" else port, case.sent, case.code)
    finally:
        await broker.stop()
    return replies


async def _reply(port: int, sent: bytes, code: int | None) -> RemotingCommand | None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if code is None:
            writer.write_eof()  # nothing is answered: the end of the stream is awaited instead
        decoder = FrameDecoder(header_limit=8 << 20)
        while True:
            data = await reader.read(65536)
            if not data:
                return None
            for command in decoder.receive(data):
                if command.is_response:  # a broker also asks
                    return command
    finally:
        writer.close()


def _differences(recorded: list[Case], replies: Mapping[str, RemotingCommand | None]) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for case in recorded:
        if case.name not in replies:
            continue
        reply = replies[case.name]
        code = None if reply is None else reply.code
        if code != case.code:
            found[case.name] = (case.request_code, case.code, code, None if reply is None else reply.remark)
    return found


def test_acl_of_rocketmq_4(tmp_path: Path) -> None:
    _write(tmp_path / "home/conf/plain_acl.yml", _ACCOUNTS)
    _write(
        tmp_path / "home/conf/acl/one.yml",
        _IN_FOLDER.replace("NAME", "rocketmq-twice").replace("SECRET", "twice-dir-1")
        + "- {accessKey: rocketmq-dir1, secretKey: dir1-secret-1, defaultTopicPerm: PUB}\n",
    )
    _write(
        tmp_path / "home/conf/acl/sub/two.yaml",
        _IN_FOLDER.replace("NAME", "rocketmq-dir2").replace("SECRET", "dir2-secret-1"),
    )
    recorded = cases("cases-49.jsonl.gz")
    access = AccessOptions(acl_enable=True, acl_home=str(tmp_path / "home"))
    replies = asyncio.run(_replies(tmp_path, access, recorded))
    differences = _differences(recorded, replies)
    assert {name: found[2] for name, found in differences.items()} == STRICTER_49, differences


def test_authentication_and_authorization_of_rocketmq_5(tmp_path: Path) -> None:
    recorded = cases("cases-55.jsonl.gz")
    access = AccessOptions(
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"rocketmq","password":"12345678"}',
    )
    replies = asyncio.run(_replies(tmp_path, access, recorded))
    differences = _differences(recorded, replies)
    assert {name: found[2] for name, found in differences.items()} == STRICTER_55, differences


@pytest.mark.parametrize("name", ["cases-49.jsonl.gz", "cases-55.jsonl.gz"])
def test_the_recordings_are_whole(name: str) -> None:
    assert len(cases(name)) > 130
