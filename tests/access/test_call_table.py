"""Every cell of the table of calls: call of gRPC × who asks, for both generations, with the exact answer.

As ``test_authority_table`` for the requests of the other ports; what each call needs is written down here once more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.text_format import Parse

from flaremq.access.authority import BROKER
from flaremq.access.guard import Guard
from flaremq.grpc.guard import NEEDS, SETTINGS_NEEDS
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS
from tests.access.expected_needs import Sample
from tests.access.grpc_caller import Place, call_of, guard_of_calls
from tests.access.test_authority_table import ROLES, _expected, _plain, _users

pytestmark = pytest.mark.xdist_group("calls")  # the last test looks at what the others have done
_SECRET = b"secret-of-all-1"
_G, _T, _Q = 'group { name: "gg" } ', 'topic { name: "tt" } ', 'message_queue { topic { name: "tt" } } '
_BOTH = ("Group:gg SUB", "Topic:tt SUB")
_SUBSCRIPTIONS = 'subscriptions { topic { name: "tt" } } subscriptions { topic { name: "%RETRY%hh" } }'
# A request in the text form of protobuf, and all that it needs; the name of the call may have a word behind it.
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "QueryRoute": (_T, ("Topic:tt PUB|SUB",)),
    "Heartbeat": (_G, ("Group:gg SUB",)),
    "Heartbeat of a producer": ("client_type: PRODUCER", ()),
    "SendMessage": (f"messages {{ {_T} }} messages {{ {_T} }}", ("Topic:tt PUB",)),
    "SendMessage to retries": ('messages { topic { name: "%RETRY%gg" } }', ("Group:gg SUB",)),
    "QueryAssignment": (_G + _T, _BOTH),
    "ReceiveMessage": (_G + _Q, _BOTH),
    "AckMessage": (_G + _T, _BOTH),
    "ForwardMessageToDeadLetterQueue": (_G + _T, _BOTH),
    "PullMessage": (_G + _Q, _BOTH),
    "UpdateOffset": (_G + _Q, _BOTH),
    "GetOffset": (_G + _Q, _BOTH),
    "QueryOffset": (_Q, ("Topic:tt SUB|GET",)),
    "EndTransaction": (_T, ("Topic:tt PUB",)),
    "Telemetry of a producer": ("settings { publishing { topics { name: 'tt' } } }", ("Topic:tt PUB",)),
    "Telemetry of a consumer": (
        f"settings {{ subscription {{ {_G} {_SUBSCRIPTIONS} }} }}",
        ("Group:gg SUB", "Topic:tt SUB", "Group:hh SUB"),
    ),
    "Telemetry with an answer": ("verify_message_result { nonce: 'n' }", ()),
    "NotifyClientTermination": (_G, ("Group:gg SUB",)),
    "ChangeInvisibleDuration": (_G + _T, _BOTH),
    "RecallMessage": (_T, ("Topic:tt PUB",)),
    "SyncLiteSubscription": (_G + _T, _BOTH),
}
_CELLS = [(generation, call) for generation in ("acl 1.0", "auth 2.0") for call in CALLS]
_asserted: set[tuple[str, str, str]] = set()


def test_each_call_that_is_served_has_a_row_and_is_expected() -> None:
    assert sorted({call.partition(" ")[0] for call in CALLS}) == sorted(NEEDS) == sorted(METHODS)
    assert sorted(SETTINGS_NEEDS) == ["publishing", "subscription"]


@pytest.mark.parametrize(("generation", "name"), _CELLS)
def test_cells(generation: str, name: str, tmp_path: Path) -> None:
    text, needs = CALLS[name]
    is_old = generation == "acl 1.0"
    own = (_plain if is_old else _users)(tmp_path, BROKER, needs)
    for role in ROLES:
        if (role == "disabled" and is_old) or (role == "all but one" and not needs):
            continue
        found = _answer(own, role, name.partition(" ")[0], text)
        sample = Sample({}, b"", needs or ("signed",))
        assert found == _expected(generation, role, 0, sample), role
        _asserted.add((generation, name, role))


def test_all_cells_were_asserted(capsys: pytest.CaptureFixture[str]) -> None:
    """Last of the file: the others have run, unless only some were chosen."""
    wanted = {
        (generation, call, role)
        for generation, call in _CELLS
        for role in ROLES
        if (generation, role) != ("acl 1.0", "disabled") and (role != "all but one" or CALLS[call][1])
    }
    with capsys.disabled():
        print(f"\ntable of calls: {len(_asserted)} of {len(wanted)} cells asserted")
    assert _asserted == wanted or len(_asserted) == 0


def _answer(own: Guard, role: str, method: str, text: str) -> tuple[int, str] | None:
    name = {"none": "", "wrong secret": "account-with", "unknown key": "account-unknown"}.get(
        role, f"account-{role}".replace(" ", "-")
    )
    call = call_of(method, name, b"another-secret" if role == "wrong secret" else _SECRET)
    guard, place = guard_of_calls(own), Place()
    refusal: Any = guard.identify(call, place)
    if refusal is None:
        request = Parse(text, METHODS[method].request())
        refusal = guard.allow(METHODS[method], request, call, place)
    if refusal is None:
        return None
    code, remark = refusal
    assert code == Code.UNAUTHORIZED
    return 16, remark
