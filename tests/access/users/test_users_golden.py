"""Users and policies made by the recorded requests, and the verdicts the real 5.5.0 gave to their sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.users.changes import create_user, put_acl
from flaremq.access.users.judge import UsersJudge
from flaremq.access.users.tables import Tables
from flaremq.access.users.user_store import UserStore
from flaremq.errors import RequestError
from flaremq.java_json import parse_java_json
from flaremq.protocol.codes import RequestCode
from tests.access.users.recorded import Recorded, recorded

SENDS = [
    case
    for case in recorded("raw")
    if case.request.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
]


def as_recorded(tables: Tables) -> Tables:
    """After all requests that create."""
    for case in recorded("raw"):
        request = case.request
        try:
            if request.code == RequestCode.AUTH_CREATE_USER:
                tables = create_user(tables, request.field("username"), parse_java_json(request.body_bytes))
            elif request.code == RequestCode.AUTH_CREATE_ACL and request.body:
                tables = put_acl(tables, request.field("subject"), parse_java_json(request.body_bytes))
        except RequestError:
            assert case.reply.code != 0, case.case
    return tables


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> UsersJudge:
    store = UserStore(tmp_path_factory.mktemp("users"))
    store.change(as_recorded)
    return UsersJudge(UserStore(Path(store.path).parent))  # what the file says


def test_the_recording_has_the_sends_it_should() -> None:
    assert len(SENDS) == 15


@pytest.mark.parametrize("case", SENDS, ids=lambda case: case.case)
def test_verdicts_are_those_of_the_real_broker(judge: UsersJudge, case: Recorded) -> None:
    request, reply = case.request, case.reply
    account = judge.find(request.field("AccessKey"))
    assert account is not None
    refusal = judge.decide(account, [Need(ResourceType.TOPIC, request.field("b"), (Action.PUB,))], case.address)
    assert (None if refusal is None else refusal.remark) == (reply.remark if reply.code else None)
