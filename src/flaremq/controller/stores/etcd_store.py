"""The state of several controllers in etcd: one of them leads, by a key that hangs on a lease.

Keys, below ``/flaremq/controller/GROUP/``:

    leader       who leads: made by a transaction that asks that there is none, gone with its lease
    peers/ID     a controller that is there, on its lease as well
    groups/NAME  one broker name, the JSON of ``ReplicaGroup``

*One writer.* Every save is a transaction that asks that the leader key is still the one this term made (by its create
revision) and that the group is as this term knows it (by its revision). A controller that was stopped, cut off or slow
can thus never write after another one has begun to lead, whatever it believes.

*No stale answers.* The lease is prolonged every quarter of its time. It counts from the moment the request was *sent*,
on a clock that goes on while the machine sleeps, and a fifth less than etcd grants: before etcd can give the lead away
this controller has stopped to answer as leader, even if it was frozen meanwhile.

*Unknown outcomes.* A save without an answer may have happened. The term ends then: the lease is revoked, and the next
term, here or elsewhere, reads what is there. What was under way in the old term fails by the comparison above.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Final

import orjson

from flaremq.controller.groups import ReplicaGroup
from flaremq.controller.stores.etcd_client import Entry, EtcdClient, created_at, modified_at, put_of
from flaremq.controller.stores.store import Follow, Lead, Peer
from flaremq.errors import CorruptionError, FlareMQError, UnavailableError

_log = logging.getLogger(__name__)

ROOT: Final = "/flaremq/controller"
_POLL_SECONDS: Final = 0.3  # between two tries to become leader
_RETRY_SECONDS: Final = 0.5  # after something failed
_TIMEOUT_SECONDS: Final = 2.0  # of one request, unless the lease ends before
_SHARE_TRUSTED: Final = 0.8  # of the lease, for clocks that run at different speeds
_LOG_SECONDS: Final = 30.0  # between two lines about the same trouble


class EtcdStore:
    """Keeps the groups in etcd and competes for the lead. One event loop."""

    def __init__(self, client: EtcdClient, group: str, lease_seconds: int) -> None:
        self._client = client
        self._prefix = f"{ROOT}/{group}/".encode()
        self._leader_key = self._prefix + b"leader"
        self._lease_seconds = lease_seconds
        self._me = Peer("", "")
        self._lead: Lead = lambda groups: None
        self._follow: Follow = lambda: None
        self._task: asyncio.Task[None] | None = None
        self._lease = 0
        self._old_leases: list[int] = []  # to be revoked when etcd answers again
        self._trusted_until = 0.0  # the lease holds until then, by our own clock
        self._term = 0  # create revision of our leader key; 0: this controller does not lead
        self._term_over = asyncio.Event()
        self._revisions: dict[str, int] = {}  # of the groups, as this term knows them
        self._seen: tuple[float, Peer | None, tuple[Peer, ...]] = (0.0, None, ())  # when, the leader, all
        self._complained = 0.0

    async def start(self, me: Peer, lead: Lead, follow: Follow) -> None:
        """Begin to compete; an etcd that is not there yet is waited for."""
        self._me, self._lead, self._follow = me, lead, follow
        self._task = asyncio.create_task(self._compete())

    @property
    def is_leading(self) -> bool:
        return self._term != 0 and _now() < self._trusted_until

    @property
    def leader(self) -> Peer | None:
        if self.is_leading:
            return self._me
        seen, leader, _ = self._seen
        return leader if _now() - seen < self._lease_seconds else None

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self._seen[2] or (self._me,)

    async def save(self, group: ReplicaGroup) -> None:
        """Write one group, if this controller still leads and nobody else has written it."""
        term, remaining = self._term, self._trusted_until - _now()
        if not term or remaining <= 0:
            self._end_term()
            raise UnavailableError("this controller does not lead")
        key = self._group_key(group.broker_name)
        conditions = [
            created_at(self._leader_key, term),
            modified_at(key, self._revisions.get(group.broker_name, 0)),
        ]
        value = put_of(key, orjson.dumps(group.to_value()))
        try:
            revision = await self._client.transact(conditions, value, min(_TIMEOUT_SECONDS, remaining))
        except FlareMQError:
            self._end_term()
            raise
        if revision is None or self._term != term:
            self._end_term()
            raise UnavailableError("another controller leads")
        self._revisions[group.broker_name] = revision

    async def stop(self) -> None:
        """Give up the lead, so that another controller has it at once."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._give_up()

    # The term

    async def _compete(self) -> None:
        while True:
            try:
                await self._serve_a_term()
            except FlareMQError as error:
                self._complain(error)
            except Exception:
                _log.exception("competing for the lead failed")
            finally:
                self._end_term()
            await self._give_up()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _serve_a_term(self) -> None:
        """From a new lease to its end."""
        sent = _now()
        self._lease = await self._client.grant_lease(self._lease_seconds, _TIMEOUT_SECONDS)
        self._trust_from(sent)
        peer = orjson.dumps({"id": self._me.peer_id, "address": self._me.address})
        await self._client.transact(
            [], put_of(self._prefix + b"peers/" + self._me.peer_id.encode(), peer, self._lease), _TIMEOUT_SECONDS
        )
        term = None
        while term is None:
            # Looked for first: a transaction goes through etcd's log, even if it fails.
            if await self._look_around(_TIMEOUT_SECONDS) is None:
                term = await self._client.transact(
                    [created_at(self._leader_key, 0)], put_of(self._leader_key, peer, self._lease), _TIMEOUT_SECONDS
                )
            else:
                await asyncio.sleep(_POLL_SECONDS)
                await self._prolong_if_due()
        groups = await self._load()
        self._term_over.clear()
        self._term = term
        self._lead(groups)
        await self._hold()

    async def _hold(self) -> None:
        """Prolong the lease until the term is over."""
        while not self._term_over.is_set():
            pause = min(self._lease_seconds / 4, max(0.0, self._trusted_until - _now()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._term_over.wait()
                    return
            try:
                await self._prolong()
                await self._look_around(min(1.0, self._lease_seconds / 8))  # prolonging must not wait for this
            except FlareMQError as error:
                if _now() >= self._trusted_until:
                    raise
                self._complain(error)
                await asyncio.sleep(min(0.2, self._lease_seconds / 20))

    async def _prolong_if_due(self) -> None:
        if self._trusted_until - _now() < self._lease_seconds / 2:
            await self._prolong()

    async def _prolong(self) -> None:
        sent = _now()
        remaining = self._trusted_until - sent
        if remaining <= 0:
            raise UnavailableError("the lease of this controller was not prolonged in time")
        # Not waited for longer than the lease holds: the term must end in time.
        if await self._client.keep_alive(self._lease, min(_TIMEOUT_SECONDS, remaining)) <= 0:
            self._trusted_until = 0.0
            raise UnavailableError("etcd has ended the lease of this controller")
        self._trust_from(sent)

    def _trust_from(self, sent: float) -> None:
        self._trusted_until = sent + self._lease_seconds * _SHARE_TRUSTED

    def _end_term(self) -> None:
        """This controller does not lead any more, from this moment on."""
        if self._term:
            self._term = 0
            self._revisions = {}
            self._term_over.set()
            self._follow()

    async def _give_up(self) -> None:
        """End our leases, so that nobody waits for them; those that etcd does not hear of end by themselves."""
        self._end_term()
        if self._lease:
            self._old_leases = [*self._old_leases[-7:], self._lease]
            self._lease = 0
        for lease in list(self._old_leases):
            try:
                await self._client.revoke_lease(lease, 1.0)
            except UnavailableError as error:
                if "not found" not in str(error):
                    break
            except FlareMQError:
                pass
            self._old_leases.remove(lease)

    # What is in etcd

    async def _load(self) -> list[ReplicaGroup]:
        prefix = self._prefix + b"groups/"
        entries = await self._client.get_prefix(prefix, _TIMEOUT_SECONDS)
        groups = []
        self._revisions = {}
        for entry in entries:
            group = _group_of(entry)
            if self._group_key(group.broker_name) != entry.key:
                raise CorruptionError(f"the etcd key {entry.key!r} holds another broker name")
            groups.append(group)
            self._revisions[group.broker_name] = entry.mod_revision
        return groups

    async def _look_around(self, timeout: float) -> Peer | None:
        """Who leads and who is there, for those who ask; returns who leads."""
        entry = await self._client.get(self._leader_key, timeout)
        peers = await self._client.get_prefix(self._prefix + b"peers/", timeout)
        leader = None if entry is None else _peer_of(entry)
        self._seen = (_now(), leader, tuple(map(_peer_of, peers)))
        return leader

    def _group_key(self, name: str) -> bytes:
        return self._prefix + b"groups/" + name.encode()

    def _complain(self, error: Exception) -> None:
        if _now() - self._complained > _LOG_SECONDS or not self._complained:
            self._complained = _now()
            _log.error("%s", error)


def _now() -> float:
    """Seconds of a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _group_of(entry: Entry) -> ReplicaGroup:
    try:
        return ReplicaGroup.from_value(orjson.loads(entry.value))
    except ValueError as error:
        raise CorruptionError(f"the etcd key {entry.key!r} holds no broker name: {error}") from error


def _peer_of(entry: Entry) -> Peer:
    try:
        value = orjson.loads(entry.value)
        return Peer(str(value["id"]), str(value["address"]))
    except (ValueError, KeyError, TypeError):
        return Peer(entry.key.rpartition(b"/")[2].decode(errors="replace"), "")
