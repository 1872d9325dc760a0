"""Every cell of the authority table: request code × who asks, for both generations, with the exact answer.

What each code needs is written down a second time in ``expected_needs``; accounts get exactly that, all but one of it,
or nothing, and the guard must say what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from flaremq.access import authority
from flaremq.access.attempts import Attempts
from flaremq.access.audit import AuditLog
from flaremq.access.authority import Row
from flaremq.access.guard import Guard, GuardRules
from flaremq.access.judge import Account
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.judge import PlainJudge
from flaremq.access.refusals import PlainVoice, UsersVoice
from flaremq.access.replay import ReplayGuard
from flaremq.access.rules import Surroundings
from flaremq.access.users.changes import create_user, put_acl, update_user
from flaremq.access.users.judge import UsersJudge
from flaremq.access.users.user_store import UserStore
from flaremq.clock import ManualClock
from flaremq.protocol.command import RemotingCommand
from tests.access import expected_needs
from tests.access.expected_needs import Sample
from tests.access.test_guard import Peer, request

SERVERS: dict[str, tuple[Mapping[int, Row], Mapping[int, Sample]]] = {
    "broker": (authority.BROKER, expected_needs.BROKER),
    "name server": (authority.NAME_SERVER, expected_needs.NAME_SERVER),
    "controller": (authority.CONTROLLER, expected_needs.CONTROLLER),
}
CELLS = [
    (generation, server, code)
    for generation in ("acl 1.0", "auth 2.0")
    for server, (_, samples) in SERVERS.items()
    for code in samples
]
pytestmark = pytest.mark.xdist_group("authority")  # the last test looks at what the others have done
ROLES = ("none", "wrong secret", "unknown key", "disabled", "without", "all but one", "with", "inner", "admin")
_asserted: set[tuple[str, str, int, str]] = set()
_SECRET = "secret-of-all-1"
# What an administrator of 1.0 with entries of its own may do, because there is no permission for it.
_ADMIN_ACTIONS = ("CREATE", "UPDATE", "DELETE")


@pytest.mark.parametrize("server", list(SERVERS))
def test_each_row_is_expected_and_each_expected_code_has_a_row(server: str) -> None:
    rows, samples = SERVERS[server]
    assert sorted(rows) == sorted(samples)


@pytest.mark.parametrize(("generation", "server", "code"), CELLS)
def test_cells(generation: str, server: str, code: int, tmp_path: Path) -> None:
    rows, samples = SERVERS[server]
    sample = samples[code]
    make = _plain if generation == "acl 1.0" else _users
    guard = make(tmp_path, rows, sample.needs)
    for role in ROLES:
        if role == "disabled" and generation == "acl 1.0":
            continue  # accounts of 1.0 are there or not
        found = asyncio.run(_answer(guard, role, code, sample))
        assert found == _expected(generation, role, code, sample), role
        _asserted.add((generation, server, code, role))


def test_all_cells_were_asserted(capsys: pytest.CaptureFixture[str]) -> None:
    """Last of the file: the others have run, unless only some were chosen."""
    wanted = {(*cell, role) for cell in CELLS for role in ROLES if (cell[0], role) != ("acl 1.0", "disabled")}
    with capsys.disabled():
        print(f"\nauthority table: {len(_asserted)} of {len(wanted)} cells asserted")
    assert _asserted == wanted or len(_asserted) == 0


async def _answer(guard: Guard, role: str, code: int, sample: Sample) -> tuple[int, str] | None:
    accounts = {
        "none": None,
        "wrong secret": Account("account-with", b"another-secret"),
        "unknown key": Account("account-unknown", _SECRET.encode()),
    }
    account = accounts.get(role, Account(f"account-{role}".replace(" ", "-"), _SECRET.encode()))
    verdict: Any = guard.check(Peer(), request(code, sample.ext, sample.body, account=account))  # type: ignore[arg-type]
    if isinstance(verdict, Awaitable):
        verdict = await verdict
    assert verdict is None or isinstance(verdict, RemotingCommand)
    return None if verdict is None else (verdict.code, verdict.remark or "")


def _expected(generation: str, role: str, code: int, sample: Sample) -> tuple[int, str] | None:
    """None: let in. The words are those of clients of 5.x."""
    old = generation == "acl 1.0"
    if role == "none":
        return 16, "No accessKey is configured" if old else "username cannot be null."
    if role in ("wrong secret", "unknown key", "disabled"):
        name = "account-with" if role == "wrong secret" else "account-unknown"
        return 16, f"Check signature failed for accessKey={name}" if old else "check signature failed."
    name, first = f"account-{role}".replace(" ", "-"), sample.needs[0]
    if role == "admin" or first == "signed" or (role == "inner" and first == "inner"):
        return None
    if first in ("super", "own", "inner"):
        return 16, _not_super(old, name, code)
    if role == "with" and not (old and any(_is_admins(need) for need in sample.needs)):
        return None
    held = set() if role in ("without", "inner") else set(sample.needs[1:] if role == "all but one" else sample.needs)
    for need in sample.needs:
        if old and _is_admins(need):
            return 16, _not_super(old, name, code)
        if need not in held:
            resource = need.partition(" ")[0]
            if old:
                type_, _, rest = resource.partition(":")
                return 16, f"No default permission for {type_.lower()}:{rest}"
            return 16, f"User:{name} has no permission to access {resource} from 127.0.0.1, no matched policies."
    raise AssertionError("nothing is missing")


def _not_super(old: bool, name: str, code: int) -> str:
    if old:
        return f"Need admin permission for request code={code}, but accessKey={name} is not"
    return f"User:{name} has no permission for request code={code}, it needs a super user."


def _is_admins(need: str) -> bool:
    """Whether no permission of 1.0 covers it."""
    resource, _, actions = need.partition(" ")
    return resource.startswith("Cluster:") or not {"PUB", "SUB", "GET"}.intersection(actions.split("|"))


async def _record(offset: int) -> str:
    assert offset == 100
    return "record"


def _guard(rows: Mapping[int, Row], judge: Any, voice: Any, folder: Path) -> Guard:
    clock = ManualClock()
    return Guard(
        rows,
        judge,
        voice,
        Surroundings(expected_needs.CLUSTER),
        replay=ReplayGuard(clock.now_ms),
        attempts=Attempts(clock.monotonic),
        audit=AuditLog(str(folder / "audit.log"), clock.now_ms),
        rules=GuardRules(inner="account-inner"),
        read_topic=_record,
    )


def _users(folder: Path, rows: Mapping[int, Row], needs: tuple[str, ...]) -> Guard:
    store = UserStore(folder)

    def edit(change: Callable[..., Any], *arguments: Any) -> None:
        store.change(lambda tables: change(tables, *arguments))

    for role in ("without", "all-but-one", "with", "inner", "disabled"):
        edit(create_user, f"account-{role}", {"password": _SECRET})
    edit(create_user, "account-admin", {"password": _SECRET, "userType": "Super"})
    edit(update_user, "account-disabled", {"userStatus": "disable"})
    for role, granted in (("with", needs), ("all-but-one", needs[1:]), ("disabled", needs)):
        entries = [
            {"resource": resource, "actions": [actions.split("|")[0]], "decision": "Allow"}
            for resource, _, actions in (need.partition(" ") for need in granted if ":" in need)
        ]
        if entries:
            subject = f"User:account-{role}"
            edit(put_acl, subject, {"subject": subject, "policies": [{"policyType": "Custom", "entries": entries}]})
    return _guard(rows, UsersJudge(store), UsersVoice(), folder)


def _plain(folder: Path, rows: Mapping[int, Row], needs: tuple[str, ...]) -> Guard:
    lines = ["accounts:"]
    for role, granted in (("without", ()), ("inner", ()), ("with", needs), ("all-but-one", needs[1:])):
        perms: dict[str, list[str]] = {"Topic": [], "Group": []}
        for need in granted:
            resource, _, actions = need.partition(" ")
            type_, _, name = resource.partition(":")
            if type_ in perms:
                perms[type_].append(f"{name}={'SUB' if 'SUB' in actions else 'PUB'}")
        lines.append(
            f"- {{accessKey: account-{role}, secretKey: {_SECRET}, "
            f"topicPerms: [{', '.join(perms['Topic'])}], groupPerms: [{', '.join(perms['Group'])}]}}"
        )
    lines.append(f"- {{accessKey: account-admin, secretKey: {_SECRET}, admin: true}}")
    path = folder / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return _guard(rows, PlainJudge(PlainAclStore(str(folder), ManualClock())), PlainVoice(), folder)
