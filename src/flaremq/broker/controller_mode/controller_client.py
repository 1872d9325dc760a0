"""ControllerClient: a membership's requests as remoting commands, and what the answers say.

Heartbeats have connections of their own: a controller takes the close of the connection that carries them as the end of
the broker, and nothing else shall ever be the reason for closing it.
"""

from __future__ import annotations

from flaremq.broker.options import BrokerOptions
from flaremq.clock import Clock
from flaremq.errors import RemoteProtocolError
from flaremq.protocol.bodies.controller import ElectMasterResponseBody, SyncStateSet
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.custom_header import CustomHeader
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions
from flaremq.replication.membership.requests import Ask, Code, GroupView, Kind, Reply


class ControllerClient:
    """The controllers of one broker. Event loop only."""

    def __init__(self, options: BrokerOptions, remoting: RemotingOptions, clock: Clock, *, timeout: float) -> None:
        self._options = options
        self._clock = clock
        self._timeout = timeout
        self._remoting = remoting
        self._requests = RemotingClient(remoting)
        self._heartbeats = RemotingClient(remoting)

    async def ask(self, ask: Ask) -> Reply:
        """Send a request and read its answer; FlareMQError if there is none that can be read."""
        command = RemotingCommand.request(RequestCode(int(ask.kind)), *self._content(ask))
        answer = await self._requests.request(ask.to, command, self._timeout)
        try:
            return _read(ask.kind, answer)
        except RequestError as error:
            raise RemoteProtocolError(f"the answer of controller {ask.to} to {ask.kind.name}: {error}") from error

    async def beat(self, to: str, broker_id: int, *, epoch: int, max_offset: int, confirm_offset: int) -> None:
        """A sign of life."""
        options = self._options
        header = BrokerHeartbeatRequestHeader(
            cluster_name=options.broker_cluster_name,
            broker_addr=options.address,
            broker_name=options.broker_name,
            broker_id=broker_id,
            epoch=epoch,
            max_offset=max_offset,
            confirm_offset=confirm_offset,
            heartbeat_timeout_millis=options.controller_heart_beat_timeout_mills,
            election_priority=options.broker_election_priority,
        )
        await self._heartbeats.oneway(to, RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, header.encode()))

    async def find_ha_address(self, master: str) -> str | None:
        """Where a master sends its log from; None if it is not the master (yet)."""
        answer = await self._requests.request(
            master, RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO), self._timeout
        )
        return answer.optional_field("masterHaAddress") if answer.code == Code.SUCCESS else None

    async def hang_up(self) -> None:
        """Close the connections of heartbeats: the controllers take it as our end. The next heartbeat opens others."""
        heartbeats, self._heartbeats = self._heartbeats, RemotingClient(self._remoting)
        await heartbeats.close()

    async def close(self) -> None:
        await self._heartbeats.close()
        await self._requests.close()

    def _content(self, ask: Ask) -> tuple[dict[str, str], bytes]:
        """Ext fields and body."""
        options = self._options
        cluster, name, now = options.broker_cluster_name, options.broker_name, self._clock.now_ms()
        header: CustomHeader
        body = b""
        if ask.kind is Kind.GET_METADATA:
            return {}, body
        if ask.kind is Kind.GET_NEXT_BROKER_ID:
            header = headers.GetNextBrokerIdRequestHeader(cluster_name=cluster, broker_name=name)
        elif ask.kind is Kind.APPLY_BROKER_ID:
            header = headers.ApplyBrokerIdRequestHeader(
                cluster_name=cluster,
                broker_name=name,
                applied_broker_id=ask.broker_id,
                register_check_code=ask.check_code,
            )
        elif ask.kind is Kind.REGISTER_BROKER:
            header = headers.RegisterBrokerToControllerRequestHeader(
                cluster_name=cluster,
                broker_name=name,
                broker_id=ask.broker_id,
                broker_address=options.address,
                invoke_time=now,
            )
        elif ask.kind is Kind.ELECT_MASTER:
            header = headers.ElectMasterRequestHeader(
                cluster_name=cluster, broker_name=name, broker_id=ask.broker_id, invoke_time=now
            )
        elif ask.kind is Kind.GET_REPLICA_INFO:
            header = headers.GetReplicaInfoRequestHeader(broker_name=name)
        else:
            header = headers.AlterSyncStateSetRequestHeader(
                broker_name=name, master_broker_id=ask.broker_id, master_epoch=ask.master_epoch, invoke_time=now
            )
            body = SyncStateSet(sync_state_set=ask.members, sync_state_set_epoch=ask.set_epoch).to_json()
        return header.encode(), body


def _read(kind: Kind, answer: RemotingCommand) -> Reply:
    """What of an answer matters; a code that says failure comes without anything else."""
    code, ext = answer.code, answer.ext
    if kind is Kind.ELECT_MASTER and code == Code.MASTER_STILL_EXIST:
        pass  # filled like a success
    elif code != Code.SUCCESS:
        return Reply(code)
    if kind is Kind.GET_METADATA:
        return Reply(code, leader=headers.GetMetaDataResponseHeader.decode(ext).controller_leader_address or "")
    if kind is Kind.GET_NEXT_BROKER_ID:
        return Reply(code, next_id=headers.GetNextBrokerIdResponseHeader.decode(ext).next_broker_id)
    if kind is Kind.APPLY_BROKER_ID:
        return Reply(code)
    body = answer.body_bytes
    if kind is Kind.ELECT_MASTER:
        elected = headers.ElectMasterResponseHeader.decode(ext)
        members = ElectMasterResponseBody.from_json(body).sync_state_set if body else frozenset()
        return Reply(code, group=_view(elected, members, elected.sync_state_set_epoch))
    in_sync = SyncStateSet.from_json(body) if body else SyncStateSet()
    if kind is Kind.ALTER_SYNC_STATE_SET:
        # Only the set is looked at: who is master was the question's business.
        return Reply(code, group=GroupView(None, "", 0, in_sync.sync_state_set, in_sync.sync_state_set_epoch))
    known = (
        headers.RegisterBrokerToControllerResponseHeader
        if kind is Kind.REGISTER_BROKER
        else headers.GetReplicaInfoResponseHeader
    ).decode(ext)
    return Reply(code, group=_view(known, in_sync.sync_state_set, in_sync.sync_state_set_epoch))


def _view(
    header: headers.ElectMasterResponseHeader
    | headers.RegisterBrokerToControllerResponseHeader
    | headers.GetReplicaInfoResponseHeader,
    members: frozenset[int],
    set_epoch: int | None,
) -> GroupView:
    has_master = header.master_broker_id is not None and bool(header.master_address)
    return GroupView(
        header.master_broker_id if has_master else None,
        header.master_address or "",
        header.master_epoch or 0,
        members,
        set_epoch or 0,
    )
