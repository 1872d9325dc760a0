"""Orders to controllers: who is master, who is in sync, and what to forget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flaremq.client.admin.base import properties_text
from flaremq.client.admin.dead_letters import DeadLetterAdmin
from flaremq.client.arguments import check_text
from flaremq.errors import UnavailableError
from flaremq.java_json import write_java_json
from flaremq.options import parse_properties
from flaremq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryCache,
    ReplicasInfo,
)
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.headers.controller import (
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
    ResetMasterFlushOffsetHeader,
)


class ControllerAdmin(DeadLetterAdmin):
    """Where a ``controller`` is asked for, the address of any of those that share a state will do."""

    async def controller_metadata(self, controller: str) -> GetMetaDataResponseHeader:
        """Who leads, and which controllers there are."""
        check_text(controller, "a controller")
        what = f"who leads the controllers at {controller}"
        reply = await self._call(controller, RequestCode.CONTROLLER_GET_METADATA_INFO, what=what)
        return GetMetaDataResponseHeader.decode(reply.ext)

    async def _leader_of(self, controller: str) -> str:
        leader = (await self.controller_metadata(controller)).controller_leader_address
        if not leader:
            raise UnavailableError(f"no controller leads at present, says {controller}")
        return leader

    async def sync_state(self, controller: str, broker_names: Iterable[str]) -> dict[str, ReplicasInfo]:
        """Master and SyncStateSet by broker name; names that the controller does not know are left out."""
        leader = await self._leader_of(controller)
        body = write_java_json(list(broker_names))
        code, what = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, "the SyncStateSets"
        reply = await self._call(leader, code, body=body, what=what)
        return BrokerReplicasInfo.from_json(reply.body_bytes).replicas_info_table

    async def elect_master(
        self, controller: str, cluster: str, broker_name: str, broker_id: int
    ) -> tuple[ElectMasterResponseHeader, ElectMasterResponseBody]:
        """Make this broker the master of its name; it must be alive and in the SyncStateSet."""
        leader = await self._leader_of(controller)
        header = ElectMasterRequestHeader(
            cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True
        )
        what = f"electing broker {broker_id} of {broker_name}"
        reply = await self._call(leader, RequestCode.CONTROLLER_ELECT_MASTER, header.encode(), what=what)
        return ElectMasterResponseHeader.decode(reply.ext), ElectMasterResponseBody.from_json(reply.body_bytes)

    async def clean_broker_metadata(
        self,
        controller: str,
        broker_name: str,
        *,
        cluster: str | None = None,
        broker_ids: Iterable[int] = (),
        living: bool = False,
    ) -> None:
        """Let the controller forget brokers of a name, or all of them; those that are alive only with ``living``."""
        header = CleanControllerBrokerDataRequestHeader(
            cluster_name=cluster,
            broker_name=broker_name,
            broker_controller_ids_to_clean=";".join(map(str, broker_ids)) or None,
            is_clean_living_broker=living,
        )
        leader = await self._leader_of(controller)
        what = f"forgetting brokers of {broker_name}"
        await self._call(leader, RequestCode.CLEAN_BROKER_DATA, header.encode(), what=what)

    async def controller_config(self, controller: str) -> dict[str, str]:
        """All options of one controller."""
        code, what = RequestCode.GET_CONTROLLER_CONFIG, f"the options of {controller}"
        reply = await self._call(controller, code, what=what)
        return dict(sorted(parse_properties(reply.body_bytes.decode()).items()))

    async def set_controller_config(self, values: Mapping[str, str], controllers: Iterable[str]) -> None:
        """Change options of controllers."""
        code, what = RequestCode.UPDATE_CONTROLLER_CONFIG, "changing options"
        await self._call_each(controllers, code, body=properties_text(values), what=what)

    async def broker_epochs(self, broker: str) -> EpochEntryCache:
        """Which parts of a broker's log were written under which master; by its name or address."""
        code, what = RequestCode.GET_BROKER_EPOCH_CACHE, f"the epochs of {broker}"
        return await self._ask(EpochEntryCache, broker, code, what=what)

    async def reset_master_flush_offset(self, broker: str, offset: int) -> None:
        """Let a slave forget how far its master had flushed."""
        header = ResetMasterFlushOffsetHeader(master_flush_offset=offset)
        address = await self._address_of(broker)
        what = f"resetting the flush offset of {broker}'s master"
        await self._call(address, RequestCode.RESET_MASTER_FLUSH_OFFSET, header.encode(), what=what)
