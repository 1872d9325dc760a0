"""Clients of RocketMQ 5 that sign, and those that do not or do so wrongly, at a door with users and policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc import clients, doors
from tests.interop.wire import accounts, probe
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop
_ALLOWED = ("send", "push", "fifo", "transaction")


@pytest.fixture(scope="module")
def guarded_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[doors.Door]:
    folder = tmp_path_factory.mktemp("guarded")
    options = accounts.options(accounts.AUTH, folder / "access")
    with doors.opened(
        doors.OURS, folder, options=options, name_server_options=options, signer=accounts.ADMIN
    ) as opened:
        accounts.make_users(opened.behind)
        yield opened


def _signs(signer: probe.Signer) -> list[str]:
    return [f"ak={signer[0]}", f"sk={signer[1]}"]


@pytest.mark.parametrize("client", [clients.JAVA, clients.PYTHON])
def test_who_signs_and_has_the_rights_does_everything(client: str, guarded_door: doors.Door, tmp_path: Path) -> None:
    require(clients.why_not(client))
    results = clients.run(
        client, guarded_door, _ALLOWED, run=f"w{client}", scratch=tmp_path, settings=_signs(accounts.APP)
    )
    assert {name: result["error"] for name, result in results.items() if not result["ok"]} == {}
    assert set(results) == set(_ALLOWED)


@pytest.mark.parametrize(
    "signer",
    [
        pytest.param(None, id="unsigned"),
        pytest.param((accounts.APP[0], "another secret"), id="wrong-secret"),
        pytest.param(("nobody-knows", "some secret"), id="unknown"),
        pytest.param(accounts.READER, id="may-not-write"),
    ],
)
@pytest.mark.parametrize("client", [clients.JAVA, clients.PYTHON])
def test_others_are_refused_and_store_nothing(
    client: str, signer: probe.Signer | None, guarded_door: doors.Door, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    require(clients.why_not(client))
    run = f"w{request.node.callspec.id}"
    result = clients.run(
        client, guarded_door, ("send",), run=run, scratch=tmp_path, settings=[] if signer is None else _signs(signer)
    )["send"]
    assert not result["ok"]
    # Python's client says only that it has no route; the reason is in its log.
    heard = result["error"] + "".join(log.read_text(errors="replace") for log in tmp_path.rglob("*.log"))
    assert "40100" in heard or "UNAUTHORIZED" in heard, heard[-4000:]
    with guarded_door.admin() as admin:
        assert all(offsets.max_offset == 0 for offsets in admin.topic_status(f"{run}-send").values())
