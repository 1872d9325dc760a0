"""Administration of users and policies: RocketMQ's requests 3001 to 3010.

Who may ask them is decided before: a Super user, or a user about his own policies. Here the list of policies is cut
once more to those of the asker, for its filter is a part of a name and meets the names of others too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from flaremq.access.users.changes import (
    create_user,
    delete_acl,
    delete_user,
    find_acl,
    put_acl,
    update_user,
    username_of,
)
from flaremq.access.users.user_store import UserStore
from flaremq.errors import InvalidArgumentError
from flaremq.java_json import parse_java_json, write_java_json
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.signing import ACCESS_KEY
from flaremq.visible import visible

if TYPE_CHECKING:
    from flaremq.access.users.tables import Tables
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)
_REMARK: Final = "not set any response code"  # what RocketMQ says to a success


class UserHandler:
    """Create, change, delete and show users and what they may do. A change is durable before it is answered."""

    def __init__(self, store: UserStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()  # changes are made in the order they are asked for

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.AUTH_CREATE_USER, self.create_user)
        table.register(RequestCode.AUTH_UPDATE_USER, self.update_user)
        table.register(RequestCode.AUTH_DELETE_USER, self.delete_user)
        table.register(RequestCode.AUTH_GET_USER, self.get_user)
        table.register(RequestCode.AUTH_LIST_USER, self.list_users)
        table.register(RequestCode.AUTH_CREATE_ACL, self.put_acl)
        table.register(RequestCode.AUTH_UPDATE_ACL, self.put_acl)
        table.register(RequestCode.AUTH_DELETE_ACL, self.delete_acl)
        table.register(RequestCode.AUTH_GET_ACL, self.get_acl)
        table.register(RequestCode.AUTH_LIST_ACL, self.list_acls)

    # Users

    async def create_user(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        username, info = _field(request, "username"), _document(request, "user")
        await self._change(connection, request, lambda tables: create_user(tables, username, info))
        return _done()

    async def update_user(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        username, info = _field(request, "username"), _document(request, "user")
        await self._change(connection, request, lambda tables: update_user(tables, username, info))
        return _done()

    async def delete_user(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        username = _field(request, "username")
        await self._change(connection, request, lambda tables: delete_user(tables, username))
        return _done()

    def get_user(self, connection: Connection, request: RemotingCommand) -> Outcome:
        user = self._store.tables.users.get(_field(request, "username"))
        return _done(None if user is None else user.to_info())

    def list_users(self, connection: Connection, request: RemotingCommand) -> Outcome:
        part = request.optional_field("filter") or ""
        users = self._store.tables.users
        return _done([users[name].to_info() for name in _in_order(users) if part in name])

    # Policies

    async def put_acl(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Create and update are the same."""
        subject, info = _field(request, "subject"), _document(request, "acl")
        await self._change(connection, request, lambda tables: put_acl(tables, subject, info))
        return _done()

    async def delete_acl(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        subject = _field(request, "subject")
        policy_type, resource = request.optional_field("policyType"), request.optional_field("resource")
        await self._change(
            connection,
            request,
            lambda tables: delete_acl(tables, subject, policy_type=policy_type, resource=resource),
        )
        return _done()

    def get_acl(self, connection: Connection, request: RemotingCommand) -> Outcome:
        acl = find_acl(self._store.tables, username_of(_field(request, "subject")))
        return _done(None if acl is None else acl.to_info())

    def list_acls(self, connection: Connection, request: RemotingCommand) -> Outcome:
        subject_part = request.optional_field("subjectFilter") or ""
        resource_part = request.optional_field("resourceFilter") or ""
        tables = self._store.tables
        asker = request.optional_field(ACCESS_KEY) or ""
        account = tables.accounts.get(asker)
        names = _in_order(tables.acls) if account is not None and account.is_super else [asker]
        acls = [tables.acls[name] for name in names if name in tables.acls and subject_part in f"User:{name}"]
        found = [acl.filtered(resource_part) for acl in acls]
        return _done([acl.to_info() for acl in found if acl.policies])

    async def _change(self, connection: Connection, request: RemotingCommand, edit: Callable[[Tables], Tables]) -> None:
        who = visible(request.optional_field(ACCESS_KEY) or "nobody")
        whom = visible(request.optional_field("username") or request.optional_field("subject") or "")[:300]
        async with self._turn:
            await asyncio.to_thread(self._store.change, edit)
        _log.warning("%s (%s) changes access: request %d for %s", connection.peer, who, request.code, whom)


def _done(document: dict[str, Any] | list[dict[str, Any]] | None = None) -> RemotingCommand:
    """Nothing found is an empty body."""
    return RemotingCommand.response(remark=_REMARK, body=write_java_json(document) if document else b"")


def _in_order(names: Any) -> list[str]:
    """As RocketMQ's store has them: by their bytes."""
    return sorted(names, key=str.encode)


def _field(request: RemotingCommand, name: str) -> str:
    value = request.optional_field(name) or ""
    if not value.strip():
        raise RequestError(ResponseCode.INVALID_PARAMETER, f"The {name} is blank")
    return value


def _document(request: RemotingCommand, what: str) -> dict[str, Any]:
    """The body; no error quotes it, for it may hold a password."""
    if not request.body_bytes:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"The body of {what} is null")
    try:
        document = parse_java_json(request.body_bytes)
        if not isinstance(document, dict):
            raise InvalidArgumentError
    except (ValueError, InvalidArgumentError):
        raise RequestError(ResponseCode.INVALID_PARAMETER, f"The body of {what} is not a JSON object") from None
    return document
