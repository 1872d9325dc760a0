"""Context: what the parts of the application share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from flaremq.client.credentials import Credentials
from flaremq.client.options import ClientOptions
from flaremq.clock import Clock
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.sampler import Sampler
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.questions.tables import Tables
from flaremq.dashboard.security.audit_lines import AuditLines
from flaremq.dashboard.security.hosts import HostCheck
from flaremq.dashboard.security.sessions import Session, Sessions
from flaremq.dashboard.security.token import TokenFile

QUESTIONS_AT_ONCE: Final = 16  # that brokers are asked for pages, beside the sampler


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Made once by the service. Event loop thread only."""

    options: DashboardOptions
    clock: Clock
    state: ClusterState
    sampler: Sampler
    reader: ClusterReader  # signs as the account the dashboard was started with, if any
    accounts: Accounts
    sessions: Sessions
    token: TokenFile | None
    hosts: HostCheck
    audit: AuditLines
    room: asyncio.Semaphore
    tables: Tables

    @property
    def must_sign_in(self) -> bool:
        """Whether pages are shown to those only who signed in: to other machines, and where the cluster asks who one
        is, for our own account may see more than whoever opens the page."""
        if self.options.is_insecure:
            return False
        asks = self.state.has_access_control
        return not self.hosts.is_local or (bool(self.options.client.access_key) if asks is None else asks)

    @property
    def login_kinds(self) -> list[str]:
        kinds = [] if self.token is None else ["token"]
        return [*kinds, "account"] if self.state.has_access_control else kinds

    async def reader_of(self, session: Session | None) -> ClusterReader:
        """Who asks for this session: its own account, or ours."""
        if session is None or session.credentials is None:
            return self.reader
        return await self.accounts.reader(session.credentials)


class Accounts:
    """Clients of those who signed in with an account of the cluster: one for each account."""

    def __init__(self, options: DashboardOptions) -> None:
        self._options = options
        self._readers: dict[Credentials, ClusterReader] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def reader(self, credentials: Credentials) -> ClusterReader:
        found = self._readers.get(credentials)
        if found is None:
            found = await self.make(credentials)
            if credentials in self._readers:  # somebody was faster
                await found.close()
                return self._readers[credentials]
            self._readers[credentials] = found
        return found

    async def make(self, credentials: Credentials | None) -> ClusterReader:
        """A client of its own; without credentials one that signs nothing."""
        reader = ClusterReader(self._options.name_servers, options=self._unsigned().signed_by(credentials))
        await reader.start()
        return reader

    def _unsigned(self) -> ClientOptions:
        return replace(self._options.client, access_key="", secret_key="", secret_key_file="", security_token="")

    def session_ended(self, session: Session) -> None:
        """Whoever still uses the account gets a new client."""
        if session.credentials is not None:
            task = asyncio.create_task(self.forget(session.credentials))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def forget(self, credentials: Credentials) -> None:
        reader = self._readers.pop(credentials, None)
        if reader is not None:
            await reader.close()

    async def close(self) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)
        for credentials in list(self._readers):
            await self.forget(credentials)
