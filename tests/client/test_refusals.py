"""Which error a client makes of what servers say when they do not let somebody."""

from __future__ import annotations

import pytest

from flaremq.access.refusals import PlainVoice, UsersVoice
from flaremq.client.errors import is_believed, reply_error
from flaremq.errors import AccessDeniedError
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand


@pytest.mark.parametrize("voice", [PlainVoice(), UsersVoice()])
def test_who_is_no_administrator_is_denied_access(voice: PlainVoice | UsersVoice) -> None:
    request = RemotingCommand.request(RequestCode.AUTH_LIST_USER)
    for remark, is_known in (
        (voice.nameless(), False),
        (voice.unproven("app"), False),
        (voice.not_super("app", request.code), True),
    ):
        error = reply_error(voice.reply(remark, request), "the list of users", "127.0.0.1:10911")
        assert isinstance(error, AccessDeniedError), remark
        assert is_believed(error) == is_known, remark
