"""Questions of brokers to a client, and through them of operators: put to it over its Telemetry stream."""

from __future__ import annotations

import logging
from typing import Any, Final

from flaremq.grpc.calls.sessions import Session
from flaremq.grpc.calls.transactions import Transactions
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.delivered import delivered, message_id_of, records
from flaremq.grpc.rules.limits import CallLimits
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.consume import CheckTransactionStateRequestHeader

_log = logging.getLogger(__name__)
_RESULTS: Final = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class Questions:
    """Answers brokers on behalf of clients."""

    def __init__(self, transactions: Transactions, limits: CallLimits) -> None:
        self._transactions = transactions
        self._seconds = limits.client_answer_ms / 1000

    async def answer(self, session: Session, broker: str, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check_transaction(session, broker, request)
            return None
        try:
            if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
                return await self._running_info(session, request)
            if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
                return await self._consume_directly(session, request)
        except TimeoutError:
            return RemotingCommand.response(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"client {session.client_id} did not answer in time"
            )
        if request.is_oneway:
            return None  # to share queues out anew, and the like: nobody owns queues here
        return RemotingCommand.response(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"clients of gRPC do not answer request {request.code}"
        )

    def _check_transaction(self, session: Session, broker: str, request: RemotingCommand) -> None:
        header = CheckTransactionStateRequestHeader.decode(request.ext)
        record = _record(request)
        if record.topic not in session.topics:
            # Its group was called so, and the broker cannot know who is behind a proxy. Somebody else will be asked.
            _log.info("client %s is not asked about a transaction of %s", session.client_id, record.topic)
            return
        transaction_id = header.transaction_id or record.uniq_key or message_id_of(record)
        self._transactions.note(
            record.topic,
            transaction_id,
            broker=header.broker_name or broker,
            queue_offset=header.tran_state_table_offset,
            physical_offset=header.commit_log_offset,
        )
        command = classes.RecoverOrphanedTransactionCommand(
            message=delivered(record, topic=record.topic), transaction_id=transaction_id
        )
        session.push(classes.TelemetryCommand(recover_orphaned_transaction_command=command))

    async def _running_info(self, session: Session, request: RemotingCommand) -> RemotingCommand:
        stack = None
        if str((request.ext or {}).get("jstackEnable", "")).lower() == "true":
            answer = await session.ask(_ask_stack, self._seconds)
            stack = answer.thread_stack_trace.thread_stack_trace
        info = ConsumerRunningInfo(
            properties={
                "PROP_CLIENT_VERSION": session.version,
                "PROP_CONSUME_TYPE": session.heartbeat().consumer_data_set[0].consume_type if session.group else "",
                "PROP_CONSUMEORDERLY": str(bool(session.settings and session.settings.subscription.fifo)).lower(),
            },
            subscription_set=session.subscriptions,
            jstack=stack,
        )
        return RemotingCommand.response(body=info.to_json())

    async def _consume_directly(self, session: Session, request: RemotingCommand) -> RemotingCommand:
        record = _record(request)

        def ask(nonce: str) -> Any:
            command = classes.VerifyMessageCommand(nonce=nonce, message=delivered(record, topic=record.topic))
            return classes.TelemetryCommand(verify_message_command=command)

        answer = await session.ask(ask, self._seconds)
        result = ConsumeMessageDirectlyResult(
            consume_result=_RESULTS.get(answer.status.code, "CR_THROW_EXCEPTION"),
            remark=answer.status.message or None,
        )
        return RemotingCommand.response(body=result.to_json())


def _ask_stack(nonce: str) -> Any:
    return classes.TelemetryCommand(print_thread_stack_trace_command=classes.PrintThreadStackTraceCommand(nonce=nonce))


def _record(request: RemotingCommand) -> MessageExt:
    return next(iter(records(request.body_bytes)))
