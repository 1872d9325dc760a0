"""WriteGuard: what a broker that takes no messages answers to requests that would store or change something.

On a slave everything that writes is refused: its log is its master's, and its topics, groups and settings are copied
from there, so a change made here would be undone a few seconds later. Senders get the code after which RocketMQ's
clients (and ours) try another broker of the topic; the outcome of a transaction gets RocketMQ's own code; tools hear
whom to ask. Each refusal names the role, by which our own client tells it from others. The handlers of a master are put
into their place and back when the role changes, so nobody asks for the role while messages come in.
"""

from __future__ import annotations

from typing import Final

from flaremq.broker.role import Role
from flaremq.protocol.codes import ROLE_FIELD, RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import Handler, HandlerTable, Outcome

# Refused by whoever takes no messages, slave or not.
_STORING: Final = {
    **dict.fromkeys(
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.CONSUMER_SEND_MSG_BACK,
            RequestCode.SEND_REPLY_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE_V2,
            RequestCode.OPEN_WRITE_STREAM,
            RequestCode.POP_MESSAGE,
            RequestCode.ACK_MESSAGE,
            RequestCode.BATCH_ACK_MESSAGE,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        ),
        ResponseCode.SERVICE_NOT_AVAILABLE,
    ),
    RequestCode.END_TRANSACTION: ResponseCode.SLAVE_NOT_AVAILABLE,
    RequestCode.RECALL_MESSAGE: ResponseCode.SLAVE_NOT_AVAILABLE,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: ResponseCode.SYSTEM_ERROR,
}
# Refused by a slave: it copies the tables that these change.
_CHANGING: Final = dict.fromkeys(
    (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
    ),
    ResponseCode.SYSTEM_ERROR,
)


class WriteGuard:
    """Keeps writing requests away from the handlers of some tables while the role does not allow them."""

    def __init__(self, role: Role, *tables: HandlerTable) -> None:
        self._role = role
        self._tables = [(table, dict(table.entries)) for table in tables]
        role.on_change.append(self.apply)
        self.apply()

    def apply(self) -> None:
        """Let the tables answer as the role says now."""
        refused = dict(_STORING) if self._role.refusal is not None else {}
        if not self._role.is_master:
            refused |= _CHANGING
        for table, entries in self._tables:
            for code in _STORING.keys() | _CHANGING.keys():
                if code in entries:
                    handler, lane = entries[code]
                    table.entries[int(code)] = (self._refuser(refused[code]) if code in refused else handler, lane)

    def _refuser(self, code: ResponseCode) -> Handler:
        def refuse(connection: Connection, request: RemotingCommand) -> Outcome:
            ext: dict[str, ExtValue] = {ROLE_FIELD: "MASTER" if self._role.is_master else "SLAVE"}
            return RemotingCommand.response(code, self._role.refusal, ext=ext)

        return refuse
