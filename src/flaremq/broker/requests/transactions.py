"""END_TRANSACTION: a producer tells how its transaction ended. RESUME_CHECK_HALF_MESSAGE: ask once more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from flaremq.broker.transactions.service import TransactionService
from flaremq.message.sys_flag import TransactionType
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.admin import ResumeCheckHalfMessageRequestHeader
from flaremq.protocol.headers.consume import EndTransactionRequestHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)
_OUTCOMES: Final = {int(TransactionType.COMMIT): True, int(TransactionType.ROLLBACK): False}


class EndTransactionHandler:
    """Hands outcomes to the TransactionService."""

    def __init__(self, transactions: TransactionService) -> None:
        self._transactions = transactions

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.END_TRANSACTION, self.end, "end_transaction")
        table.register(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume)

    def end(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Clients do not wait for the reply, but for Go's, which sends no oneway requests at all."""
        header = EndTransactionRequestHeader.decode(request.ext)
        is_commit = _OUTCOMES.get(header.commit_or_rollback)
        if is_commit is None:
            # The producer does not know yet: it is asked later. RocketMQ sends no reply, and clients expect none.
            _log.debug("%s: the outcome of %s is open", header.producer_group, header.transaction_id or header.msg_id)
            return None
        return self._end(header, is_commit=is_commit)

    async def _end(self, header: EndTransactionRequestHeader, *, is_commit: bool) -> RemotingCommand:
        await self._transactions.end(
            producer_group=header.producer_group,
            queue_offset=header.tran_state_table_offset,
            physical_offset=header.commit_log_offset,
            is_commit=is_commit,
            is_answer=header.from_transaction_check,
        )
        return RemotingCommand.response()

    async def resume(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = ResumeCheckHalfMessageRequestHeader.decode(request.ext)
        await self._transactions.resume(header.msg_id or "")
        return RemotingCommand.response()
