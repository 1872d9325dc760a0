"""Callers: the guard's questions where a caller proves who it is by other means than a signed remoting request.

The account, the right place, the wait of who guesses, the needs and the audit log are those of ``guard``; how the proof
is written and which needs a call has is the business of whoever speaks the other protocol.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.access.addresses import host_of, is_loopback
from flaremq.access.attempts import Attempts
from flaremq.access.audit import AuditLog
from flaremq.access.judge import Account, Judge
from flaremq.access.needs import Action, Need, Refusal, ResourceType
from flaremq.access.refusals import Voice, too_often
from flaremq.access.rules import Surroundings, need

WHITE_LISTED: Final = "@white list"


@dataclass(frozen=True, slots=True)
class Registered:
    """Who is registered without a connection of its own, as the guard of what is pushed sees visitors."""

    host: str
    user: str
    proven: str = ""  # no request of it was signed: what it may be shown is asked of its user

    @classmethod
    def at(cls, peer: str, account: str) -> Registered:
        return cls(host_of(peer), account)


class Caller:
    """What is kept of one connection between its calls."""

    __slots__ = ("host", "is_safe", "proven")

    def __init__(self, host: str, *, is_safe: bool) -> None:
        self.host = host
        self.is_safe = is_safe
        self.proven = ""  # who was let in last


class CallerGuard:
    """Decides about the calls of one server. Event loop only."""

    # Seven parameters on purpose: they are those of the guard of requests, which it stands beside.
    def __init__(
        self,
        judge: Judge,
        voice: Voice,
        around: Surroundings,
        *,
        attempts: Attempts,
        audit: AuditLog,
        authorizes: bool,
        without_tls: bool,
    ) -> None:
        self._judge = judge
        self._voice = voice
        self._around = around
        self._attempts = attempts
        self._audit = audit
        self._authorizes = authorizes
        self._without_tls = without_tls
        self._nobody = Account("", secrets.token_bytes(20), is_enabled=False)

    def meet(self, peer: str, *, is_encrypted: bool) -> Caller:
        """Somebody at ``host:port`` has connected."""
        host = host_of(peer)
        return Caller(host, is_safe=self._without_tls or is_encrypted or is_loopback(host))

    def identify(
        self, caller: Caller, name: str, proves: Callable[[bytes], bool], what: str
    ) -> tuple[str, Refusal | None]:
        """Under which name a call is served, or why it is not. ``proves``: whether the caller knows this secret."""
        if self._judge.trusts(caller.host, name or None):
            return f"{name}{WHITE_LISTED}", None
        if not caller.is_safe:
            return "", self._refuse(caller, what, Refusal(self._voice.plaintext(), "no TLS"), name, is_proven=False)
        if not name:
            return "", self._refuse(caller, what, Refusal(self._voice.nameless(), "no name"), "", is_proven=False)
        if caller.proven != name and self._attempts.guesses_too_often(caller.host, name):
            return "", self._refuse(caller, what, too_often(caller.host), name, is_proven=False)
        account = self._judge.find(name)
        if not proves((account or self._nobody).secret) or account is None or not account.is_enabled:
            self._attempts.guessed(caller.host, name)
            rule = "unknown account" if account is None else "wrong signature or disabled account"
            refusal = Refusal(self._voice.unproven(name), rule)
            return "", self._refuse(caller, what, refusal, name, is_proven=False)
        caller.proven = name
        return name, None

    def wait_of(self, caller: Caller, refusal: Refusal, name: str) -> float:
        """Seconds the answer to who could not prove who it is should wait; negative: its connection should end."""
        return self._attempts.failed(caller.host, f"{refusal.rule} ({name[:64]!r})")

    def allow(self, caller: Caller, name: str, needs: Sequence[Need] | None, what: str) -> Refusal | None:
        """Whether who was identified under that name may do this; asked anew for each request of a long call.

        ``needs`` None: nobody has said what this needs, so it is for Super users.
        """
        if name.endswith(WHITE_LISTED) and self._judge.trusts(caller.host, name.removesuffix(WHITE_LISTED) or None):
            return None
        account = self._judge.find(name)
        if account is None or not account.is_enabled:
            return self._refuse(caller, what, Refusal(self._voice.unproven(name), "account is gone"), name)
        if account.is_super:
            return None
        if needs is None:
            return self._refuse(caller, what, Refusal(self._voice.not_super(name, 0), "no row"), name)
        if not self._authorizes or not needs:
            return None
        refusal = self._judge.decide(account, needs, caller.host)
        if refusal is None:
            return None
        return self._refuse(caller, what, self._voice.decided(refusal, name, 0), name, needs=needs)

    def need_of_topic(self, topic: str, actions: tuple[Action, ...], *, group: str = "") -> Need:
        """What is needed for a topic, or for the group whose retries or dead letters it holds."""
        return need(ResourceType.TOPIC, topic, actions, self._around, consumer=group)

    def _refuse(
        self,
        caller: Caller,
        what: str,
        refusal: Refusal,
        name: str,
        *,
        needs: Sequence[Need] = (),
        is_proven: bool = True,
    ) -> Refusal:
        wanted = ", ".join([what, *map(str, needs[:4])])
        self._audit.refused(user=name, address=caller.host, code=0, what=wanted, rule=refusal.rule, is_proven=is_proven)
        return refusal
