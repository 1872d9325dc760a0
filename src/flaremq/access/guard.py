"""Guard: the one function that every request of every port passes before a handler sees it.

Who is it, what does it want to do to which resource, may it. First the cheap questions: a request without a name, with
a wrong signature or from the wrong place is refused before its body is read. An unknown account, a disabled one and a
wrong signature take the same time and get the same answer; the audit log tells them apart.

A request whose need stands in a stored record (``authority``: ``record``) is decided when the record was read.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flaremq.access.addresses import Network, host_of, is_in, is_loopback
from flaremq.access.attempts import Attempts
from flaremq.access.audit import AuditLog
from flaremq.access.authority import INNER, OWN, SIGNED, SUPER, Row
from flaremq.access.described import describe
from flaremq.access.judge import Account, Judge
from flaremq.access.needs import Action, Need, Refusal, ResourceType
from flaremq.access.refusals import Voice, too_often
from flaremq.access.replay import Origin, ReplayGuard
from flaremq.access.rules import Surroundings, UnreadableError, need
from flaremq.errors import FlareMQError, InvalidArgumentError
from flaremq.message.message_id import decode_message_id
from flaremq.message.topics import WAITING_TOPICS
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import BINARY_HEADER, RemotingCommand, RequestError, parse_int
from flaremq.protocol.signing import ACCESS_KEY, MARK, PROOF, SIGNATURE, SigningKey, utf16_order
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import TAKEN, Handler, HandlerTable, Outcome, Taken

_MARK: Final = MARK.encode()
_same = hmac.compare_digest
_REPLAY: Final = "replay"
_WHITE_LISTED: Final = "@white list"
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)


class Visitor:
    """What is kept of one connection between its requests."""

    __slots__ = ("host", "is_admin_place", "is_cut", "is_safe", "origin", "proven", "user")

    def __init__(self, host: str, *, is_safe: bool, is_admin_place: bool) -> None:
        self.host = host
        self.is_safe = is_safe
        self.is_admin_place = is_admin_place
        self.is_cut = False  # nothing more is served
        self.origin = Origin(host)
        self.proven = ""  # who signed a request of it last
        self.user = ""  # whose request was let in last


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What options say about places and exceptions."""

    admin_networks: tuple[Network, ...] = ()
    without_tls: bool = False
    unsigned_codes: frozenset[int] = frozenset()
    open_codes: frozenset[int] = frozenset()
    authorizes: bool = True
    inner: str = ""  # name of the servers' own account


ReadTopic = Callable[[int], Awaitable[str | None]]


class Guard:
    """Decides about the requests of one server. Event loop only."""

    # Nine parameters on purpose: each is a part of the decision with tests of its own.
    def __init__(
        self,
        rows: Mapping[int, Row],
        judge: Judge,
        voice: Voice,
        around: Surroundings,
        *,
        replay: ReplayGuard,
        attempts: Attempts,
        audit: AuditLog,
        rules: GuardRules | None = None,
        read_topic: ReadTopic | None = None,
    ) -> None:
        self._rows = rows
        self._judge = judge
        self._voice = voice
        self._around = around
        self._replay = replay
        self._attempts = attempts
        self._audit = audit
        self._rules = rules or GuardRules()
        self._read_topic = read_topic
        self._nobody = Account("", secrets.token_bytes(20), is_enabled=False)

    def check(self, connection: Connection, request: RemotingCommand, *, is_served: bool = True) -> Outcome | Taken:
        """None: let it in. Else its answer, or what the answer will come from."""
        visitor = connection.visitor or self._meet(connection)
        if visitor.is_cut:
            return TAKEN
        ext = request.ext or {}
        key = ext.get(ACCESS_KEY)
        name = key if isinstance(key, str) else ""
        code = request.code
        row = self._rows.get(code)
        if self._judge.trusts(visitor.host, name or None):
            visitor.user = f"{name}{_WHITE_LISTED}"
            return None if row is not None or not is_served else self._no_row(visitor, request, visitor.user)
        if code in self._rules.unsigned_codes and row is not None and row.who in ("", SIGNED):
            visitor.user = ""
            if row.is_administration and not visitor.is_admin_place:
                return self._refuse(visitor, request, Refusal(self._voice.far_away(visitor.host), "place"), "")
            return None
        if not visitor.is_safe:
            refusal = Refusal(self._voice.plaintext(), "no TLS")
            return self._refuse(visitor, request, refusal, name, is_proven=False)
        if not name:
            return self._failed(connection, visitor, request, Refusal(self._voice.nameless(), "no name"), "")
        if visitor.proven != name and self._attempts.guesses_too_often(visitor.host, name):
            return self._failed(connection, visitor, request, too_often(visitor.host), name)
        account = self._judge.find(name)
        if (reason := self._identify(account or self._nobody, request)) is not None:
            reason = "unknown account" if account is None else reason
            self._attempts.guessed(visitor.host, name)
            return self._failed(connection, visitor, request, Refusal(self._voice.unproven(name), reason), name)
        assert account is not None
        visitor.proven = name
        replayed = self._replay.refusal(
            code, ext, str(ext[SIGNATURE]), visitor.origin, row=row, body_length=len(request.body_bytes)
        )
        if replayed is not None:
            return self._failed(connection, visitor, request, Refusal(replayed, _REPLAY), name)
        visitor.user = name
        if row is None:  # what nobody answers may be asked by who is somebody
            return self._no_row(visitor, request, name) if is_served and not account.is_super else None
        return self._authorize(visitor, account, row, request)

    def admits_sends(
        self, connection: Connection, name: str, topic: str, signatures: Sequence[bytes], contents: Sequence[memoryview]
    ) -> bool:
        """Whether all of these sends to a topic would be let in; if not, ``check`` is asked about each, and says why.

        For plain sends of one read, all signed by one account, none with a proof of our own clients.
        """
        visitor = connection.visitor or self._meet(connection)
        if not visitor.is_safe or visitor.is_cut or topic[:1] == "%" or topic in WAITING_TOPICS:
            return False
        if visitor.proven != name and self._attempts.guesses_too_often(visitor.host, name):
            return False
        account = self._judge.find(name) or self._nobody  # by whom as much is signed anew as by an account
        sign = SigningKey(account.secret).sign
        for signature, content in zip(signatures, contents, strict=True):
            if not _same(sign(content), signature):
                return False
        if not account.is_enabled:
            return False
        visitor.proven = name
        if not account.is_super and self._rules.authorizes and _SEND not in self._rules.open_codes:
            needs = (Need(ResourceType.TOPIC, topic, (Action.PUB,)),)
            if self._judge.decide(account, needs, visitor.host) is not None:
                return False
        visitor.user = name
        return self._replay.admits_sends(signatures, visitor.origin)

    def account_of(self, connection: Connection) -> str:
        """Whose request was let in last over a connection."""
        return str(connection.visitor.user) if connection.visitor is not None else ""

    def may_send(self, connection: Connection, topic: str) -> bool:
        """Whether who is at a connection may send to a topic: so it may be shown what was sent there and is not
        committed."""
        visitor = connection.visitor
        if visitor is None:
            return False
        name = visitor.user
        if name.endswith(_WHITE_LISTED) and name != visitor.proven:  # a name that was said, not proven
            return self._judge.trusts(visitor.host, name.removesuffix(_WHITE_LISTED) or None)
        if self._judge.trusts(visitor.host, name or None):
            return True
        if _SEND in self._rules.unsigned_codes:
            return True
        account = self._judge.find(name)
        if account is None or not account.is_enabled:
            return False
        if account.is_super or not self._rules.authorizes or _SEND in self._rules.open_codes:
            return True
        needs = (need(ResourceType.TOPIC, topic, (Action.PUB,), self._around),)
        return self._judge.decide(account, needs, visitor.host) is None

    def _identify(self, account: Account, request: RemotingCommand) -> str | None:
        """None if the request is signed by an account that may sign; the same work for everybody."""
        left_out = self._voice.leaves_out(request)
        is_signed = _is_signed(request, account.secret, left_out)
        if not is_signed and left_out is not None:
            # Clients of 4.9.4 to 4.9.7 sign over what their own brokers leave out, and are refused by those.
            is_signed = _is_signed(request, account.secret, None)
        if not is_signed:
            return "wrong signature"
        return None if account.is_enabled else "disabled account"

    def _authorize(self, visitor: Visitor, account: Account, row: Row, request: RemotingCommand) -> Outcome | Taken:
        name, code = account.name, request.code
        is_inner = account.is_super or (bool(self._rules.inner) and name == self._rules.inner)
        if row.is_administration and not visitor.is_admin_place and name != self._rules.inner:
            return self._refuse(visitor, request, Refusal(self._voice.far_away(visitor.host), "place"), name)
        if account.is_super or (is_inner and row.who == INNER):
            return None
        if row.who:
            if row.who == OWN and (request.ext or {}).get("subject") == f"User:{name}":
                return None
            if row.who in (SUPER, OWN, INNER):
                return self._refuse(visitor, request, Refusal(self._voice.not_super(name, code), row.who), name)
            return None
        if not self._rules.authorizes or code in self._rules.open_codes:
            return None
        assert row.rule is not None
        try:
            needs = row.rule(request, self._around)
        except (UnreadableError, FlareMQError, ValueError) as error:
            return self._refuse(visitor, request, Refusal(self._voice.unreadable(str(error)), "unreadable"), name)
        refusal = self._judge.decide(account, needs, visitor.host)
        if refusal is not None:
            return self._refuse(visitor, request, self._voice.decided(refusal, account.name, code), name, needs)
        if row.record is not None:
            return self._authorize_record(visitor, account, row, request)
        return None

    async def _authorize_record(
        self, visitor: Visitor, account: Account, row: Row, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Decide by the topic of the stored record; one that is not there is its handler's business."""
        assert row.record is not None
        assert self._read_topic is not None
        try:
            offset = _record_offset(request, row.record.field)
        except ValueError as error:
            return self._refuse(visitor, request, Refusal(self._voice.unreadable(str(error)), "unreadable"), "")
        topic = await self._read_topic(offset)
        visitor.user = account.name  # others may have been let in meanwhile
        if topic is None:
            return None
        needs = [need(ResourceType.TOPIC, topic, row.record.actions, self._around, consumer=_group(request))]
        refusal = self._judge.decide(account, needs, visitor.host)
        if refusal is None:
            return None
        return self._refuse(visitor, request, self._voice.decided(refusal, account.name, request.code), account.name)

    def _no_row(self, visitor: Visitor, request: RemotingCommand, name: str) -> RemotingCommand:
        return self._refuse(visitor, request, Refusal(self._voice.not_super(name, request.code), "no row"), name)

    def _meet(self, connection: Connection) -> Visitor:
        host = host_of(connection.peer)
        rules = self._rules
        has_certificate = connection.peer_certificate_name is not None
        visitor = Visitor(
            host,
            is_safe=rules.without_tls or connection.is_encrypted or is_loopback(host),
            is_admin_place=is_loopback(host) or has_certificate or is_in(host, rules.admin_networks),
        )
        connection.visitor = visitor
        connection.on_close.append(_leave)
        return visitor

    def _refuse(
        self,
        visitor: Visitor,
        request: RemotingCommand,
        refusal: Refusal,
        name: str,
        needs: Sequence[Need] = (),
        *,
        is_proven: bool = True,
    ) -> RemotingCommand:
        what = ", ".join(str(wanted) for wanted in needs[:4])
        self._audit.refused(
            user=name, address=visitor.host, code=request.code, what=what, rule=refusal.rule, is_proven=is_proven
        )
        if refusal.is_for_now:
            return RemotingCommand.response(ResponseCode.SYSTEM_BUSY, refusal.remark)
        return self._voice.reply(refusal.remark, request)

    def _failed(
        self, connection: Connection, visitor: Visitor, request: RemotingCommand, refusal: Refusal, name: str
    ) -> Outcome | Taken:
        """Who cannot prove who it is gets its answer later and later, and at last none."""
        reply = self._refuse(visitor, request, refusal, name, is_proven=refusal.rule == _REPLAY)
        wait = self._attempts.failed(visitor.host, f"{refusal.rule} ({name[:64]!r}, request {request.code})")
        if wait == 0:
            return reply
        if wait < 0:
            connection.reply(request, reply)
            visitor.is_cut = True
            connection.close()
            return TAKEN
        connection.begin(request)

        def answer() -> None:
            connection.finish(request)
            connection.reply(request, reply)

        asyncio.get_running_loop().call_later(wait, answer)
        return TAKEN

    @property
    def remembered(self) -> int:
        """Signatures that are kept to know them again."""
        return self._replay.size

    def install(self, table: HandlerTable) -> None:
        """Stand before every handler of a table, and note the outcome of administrative changes."""
        table.guard = self.check
        table.verify_sends = self.admits_sends
        for code, row in self._rows.items():
            if row.is_change and code in table.entries:
                handler, lane = table.entries[code]
                table.entries[code] = self._noted(handler), lane

    def _noted(self, handler: Handler) -> Handler:
        def handle(connection: Connection, request: RemotingCommand) -> Outcome:
            user = connection.visitor.user  # the next request of the connection may be another's
            try:
                outcome = handler(connection, request)
            except Exception:
                self._note_change(connection, request, user, None)
                raise
            if outcome is None or isinstance(outcome, RemotingCommand):
                self._note_change(connection, request, user, outcome)
                return outcome
            return finish(connection, request, user, outcome)

        async def finish(
            connection: Connection, request: RemotingCommand, user: str, work: Awaitable[RemotingCommand | None]
        ) -> RemotingCommand | None:
            reply = None
            try:
                reply = await work
            finally:
                self._note_change(connection, request, user, reply)
            return reply

        return handle

    def _note_change(
        self, connection: Connection, request: RemotingCommand, user: str, reply: RemotingCommand | None
    ) -> None:
        result = ResponseCode.SYSTEM_ERROR if reply is None else reply.code
        host = connection.visitor.host
        self._audit.change(user=user, address=host, code=request.code, what=describe(request), result=result)


def _leave(connection: Connection) -> None:
    connection.visitor.origin.is_open = False


def _is_signed(request: RemotingCommand, secret: bytes, left_out: str | None) -> bool:
    """Whether the signature is that of the fields as they came and the body.

    Java signs over a field without a value as the word "null"; in a binary header an empty text is one, and there
    honest clients sign over nothing.
    """
    ext: Mapping[str, Any] = request.ext or {}
    if request.null_fields:
        # Where a name came with a value too, that value is what handlers see.
        worded = {**dict.fromkeys(request.null_fields, "null"), **ext}
        if _matches(worded, request, secret, left_out):
            return True
        if request.serialize_type != BINARY_HEADER:
            return False
    return _matches(ext, request, secret, left_out)


def _matches(ext: Mapping[str, Any], request: RemotingCommand, secret: bytes, left_out: str | None) -> bool:
    names = sorted(ext) if all(map(str.isascii, ext)) else sorted(ext, key=utf16_order)
    text = "".join([ext[name] for name in names if name != SIGNATURE and name != left_out])
    content = text.encode("utf-8", "surrogatepass") + request.body_bytes
    if _MARK in content and PROOF not in ext:
        return False  # somebody gave the proof another name
    return _same(SigningKey(secret).sign(content), str(ext.get(SIGNATURE) or "").encode("utf-8", "replace"))


def _record_offset(request: RemotingCommand, field: str) -> int:
    text = str((request.ext or {}).get(field) or "")
    if field != "msgId":
        try:
            return parse_int(field, text)
        except RequestError as error:
            raise ValueError(error.remark) from None
    try:
        return decode_message_id(text)[1]
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from None


def _group(request: RemotingCommand) -> str:
    ext = request.ext or {}
    field = "group" if request.code == RequestCode.CONSUMER_SEND_MSG_BACK else "consumerGroup"
    return str(ext.get(field) or "")
