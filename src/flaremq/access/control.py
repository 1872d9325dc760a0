"""AccessControl: everything of access control that one server has, made from its options.

It chooses the generation, opens its accounts, puts the guard before the handlers, looks for changed files and writes
the audit log, both in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.access.addresses import parse_networks
from flaremq.access.attempts import Attempts
from flaremq.access.audit import AuditLog
from flaremq.access.authority import Row
from flaremq.access.callers.caller_guard import CallerGuard
from flaremq.access.guard import Guard, GuardRules, ReadTopic
from flaremq.access.judge import Judge
from flaremq.access.options import AccessOptions
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.judge import PlainJudge
from flaremq.access.refusals import PlainVoice, UsersVoice, Voice
from flaremq.access.replay import ReplayGuard
from flaremq.access.rules import Surroundings
from flaremq.access.users.initial import create_missing, parse_initial_user, parse_inner_credentials
from flaremq.access.users.judge import UsersJudge
from flaremq.access.users.migration import migrate
from flaremq.access.users.user_store import UserStore
from flaremq.clock import Clock
from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where a server keeps what access control needs, unless its options say otherwise."""

    home: str  # of conf/plain_acl.yml
    users: str  # of users.json
    state: str  # of the audit log


class AccessControl:
    """Access control of one server. Event loop only."""

    def __init__(
        self,
        options: AccessOptions,
        places: Places,
        rows: Mapping[int, Row],
        around: Surroundings,
        clock: Clock,
        *,
        read_topic: ReadTopic | None = None,
    ) -> None:
        """Opens files: not on an event loop."""
        self.plain: PlainAclStore | None = None
        self.users: UserStore | None = None
        judge: Judge
        voice: Voice
        if options.acl_enable:
            self.plain = PlainAclStore(options.acl_home or places.home, clock)
            judge, voice = PlainJudge(self.plain), PlainVoice()
        else:
            self.users = UserStore(options.auth_config_path or places.users)
            judge, voice = UsersJudge(self.users), UsersVoice()
            _fill(self.users, options, places, clock)
        inner = options.inner_client_authentication_credentials
        path = options.audit_log_path or os.path.join(places.state, "flaremq.audit", "audit.log")
        self.audit = AuditLog(path, clock.now_ms)
        attempts = Attempts(clock.monotonic)
        authorizes = options.acl_enable or options.authorization_enabled
        self.guard = Guard(
            rows,
            judge,
            voice,
            around,
            replay=ReplayGuard(clock.now_ms, dated_only=options.access_signed_time_required),
            attempts=attempts,
            audit=self.audit,
            rules=GuardRules(
                admin_networks=parse_networks(options.admin_allowed_addresses),
                without_tls=options.access_without_tls_enable,
                unsigned_codes=_codes(options.authentication_whitelist),
                open_codes=_codes(options.authorization_whitelist),
                authorizes=authorizes,
                inner=parse_inner_credentials(inner).username if inner.strip() else "",
            ),
            read_topic=read_topic,
        )
        self.callers = CallerGuard(
            judge,
            voice,
            around,
            attempts=attempts,
            audit=self.audit,
            authorizes=authorizes,
            # A signature over a time that nobody looks at can be sent again by whoever has heard it.
            without_tls=options.access_without_tls_enable and not options.access_signed_time_required,
        )
        self._task: asyncio.Task[None] | None = None

    def install(self, *tables: HandlerTable) -> None:
        """Put the guard before the handlers of these tables."""
        for table in tables:
            self.guard.install(table)

    def start(self) -> None:
        """Look for changed files and write the audit log from now on."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self.audit.write)

    async def look(self) -> None:
        """Read files that have changed, and write the audit log; for tests that do not wait."""
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        store = self.plain or self.users
        assert store is not None
        store.poll()
        self.audit.write()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Exception:
                _log.exception("looking for changed accounts failed")


def _fill(store: UserStore, options: AccessOptions, places: Places, clock: Clock) -> None:
    """Make the users that the options name or that are to come over from the files of 1.0, if they do not exist."""
    wanted = []
    if options.init_authentication_user.strip():
        wanted.append(parse_initial_user(options.init_authentication_user))
    if options.inner_client_authentication_credentials.strip():
        wanted.append(parse_inner_credentials(options.inner_client_authentication_credentials))
    create_missing(store, wanted)
    if options.migrate_auth_from_v1_enabled:
        names = migrate(store, PlainAclStore(options.acl_home or places.home, clock).migrated())
        if names:
            _log.warning("%d accounts of ACL 1.0 became users: %s", len(names), ", ".join(names))


def _codes(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.replace(",", " ").split())
