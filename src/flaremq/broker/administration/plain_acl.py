"""Administration of the accounts of ACL 1.0: RocketMQ's requests 50 to 54.

Who may ask them is decided before: administrators. A change is durable and in effect when it is answered. Secrets are
never answered: where RocketMQ 4.9 shows them, there is a mask.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.address_patterns import split_patterns
from flaremq.access.plain.changes import AccountChange
from flaremq.broker.options import BrokerOptions
from flaremq.errors import FlareMQError, NotFoundError
from flaremq.java_json import write_java_json
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.signing import ACCESS_KEY
from flaremq.visible import visible

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)

# Of RocketMQ 4.9; in 5 these numbers mean something else.
_UPDATE_FAILED: Final = 209
_DELETE_FAILED: Final = 210
_WHITE_LIST_FAILED: Final = 211


class PlainAclHandler:
    """Create, change, delete and show accounts; set white lists."""

    def __init__(self, store: PlainAclStore, options: BrokerOptions) -> None:
        self._store = store
        self._options = options

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, self.put_account)
        table.register(RequestCode.DELETE_ACL_CONFIG, self.delete_account)
        table.register(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, self.versions)
        table.register(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, self.set_white_list)
        table.register(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, self.accounts)

    async def put_account(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        change = AccountChange(
            access_key=request.field("accessKey"),
            secret_key=request.field("secretKey"),
            is_admin=(request.optional_field("admin") or "").lower() == "true",
            white_remote_address=(request.optional_field("whiteRemoteAddress") or "").strip(),
            default_topic_perm=(request.optional_field("defaultTopicPerm") or "").strip(),
            default_group_perm=(request.optional_field("defaultGroupPerm") or "").strip(),
            topic_perms=_entries(request, "topicPerms"),
            group_perms=_entries(request, "groupPerms"),
        )
        try:
            await asyncio.to_thread(self._store.put_account, change)
        except FlareMQError as error:
            raise RequestError(_UPDATE_FAILED, str(error)) from error
        _note(connection, request, f"account {change.access_key!r} is changed")
        return RemotingCommand.response()

    async def delete_account(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        key = request.field("accessKey")
        try:
            await asyncio.to_thread(self._store.delete_account, key)
        except FlareMQError as error:
            remark = f"The accesskey[{key[:255]}] corresponding to accessConfig has been deleted failed."
            raise RequestError(_DELETE_FAILED, _explained(remark, error)) from error
        _note(connection, request, f"account {key!r} is deleted")
        return RemotingCommand.response()

    async def set_white_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        text = request.field("globalWhiteAddrs")
        path = request.optional_field("aclFileFullPath")
        try:
            await asyncio.to_thread(self._store.set_white_list, split_patterns(text), path)
        except FlareMQError as error:
            remark = f"The globalWhiteAddresses[{text[:255]}] has been updated failed."
            raise RequestError(_WHITE_LIST_FAILED, _explained(remark, error)) from error
        _note(connection, request, f"the white list is now {text[:255]!r}")
        return RemotingCommand.response()

    def versions(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """How often each file was changed by requests."""
        every = {path: version.to_value() for path, version in self._store.versions().items()}
        options = self._options
        return RemotingCommand.response(
            ext={
                "allAclFileVersion": _json(every),
                "version": _json(self._store.version().to_value()),
                "brokerName": options.broker_name,
                "brokerAddr": options.address,
                "clusterName": options.broker_cluster_name,
            }
        )

    def accounts(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """All accounts and white lists, without secrets."""
        return RemotingCommand.response(ext={}, body=write_java_json(self._store.to_config()))


def _entries(request: RemotingCommand, name: str) -> tuple[str, ...]:
    parts = (part.strip() for part in (request.optional_field(name) or "").split(","))
    return tuple(part for part in parts if part)


def _explained(remark: str, error: FlareMQError) -> str:
    """What is not there RocketMQ's sentence says well enough; of anything else somebody must do something about it."""
    return remark if isinstance(error, NotFoundError) else f"{remark} {error}"


def _note(connection: Connection, request: RemotingCommand, what: str) -> None:
    who = visible(request.optional_field(ACCESS_KEY) or "nobody")[:64]
    _log.warning("%s (%s) changes access: %s", connection.peer, who, visible(what))


def _json(value: Any) -> str:
    return write_java_json(value).decode()
