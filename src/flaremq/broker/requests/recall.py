"""RECALL_MESSAGE: a producer takes a timed message back before it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.broker.catalog.names import check_sendable
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.message_rules import RecallHandle, TimerRules, delete_key, parse_recall_handle, prepare_timer
from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.broker.store_loop.put_status import code_of
from flaremq.clock import Clock
from flaremq.errors import InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.bodies.topic import PERM_WRITE
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.send import RecallMessageRequestHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable


class RecallHandler:
    """Puts a delete record into the timer topic; it is carried out when the time of the message comes."""

    def __init__(self, options: BrokerOptions, clock: Clock, store_loop: StoreAccess, topics: TopicTable) -> None:
        self._options = options
        self._clock = clock
        self._store_loop = store_loop
        self._topics = topics

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.RECALL_MESSAGE, self.recall, "send")

    async def recall(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        ext = {"MSG_REGION": self._options.region_id}
        try:
            message_id = await self._recall(connection, RecallMessageRequestHeader.decode(request.ext))
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=ext)
        return RemotingCommand.response(ext=ext | {"msgId": message_id})

    async def _recall(self, connection: Connection, header: RecallMessageRequestHeader) -> str:
        options = self._options
        if not options.recall_message_enable:
            raise RequestError(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if self._clock.now_ms() < options.start_accept_send_request_time_stamp:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker does not take messages yet")
        if not options.broker_permission & PERM_WRITE:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker takes no messages")
        check_sendable(header.topic)
        if self._topics.find(header.topic) is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
        handle = self._parse(header)
        form = self._delete_record(connection, handle)
        try:
            form = prepare_timer(form, now_ms=self._clock.now_ms(), rules=TimerRules.of(options))
        except RequestError as error:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {error.remark}") from None
        result = await self._store_loop.put(form)
        if not result.status.stored:
            raise RequestError(code_of(result.status), f"recall failed, {result.detail or result.status.name}")
        return handle.unique_key

    def _parse(self, header: RecallMessageRequestHeader) -> RecallHandle:
        try:
            handle = parse_recall_handle(header.recall_handle)
        except InvalidArgumentError as error:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if handle.topic != header.topic:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, f"the handle is of topic {handle.topic}")
        if handle.broker_name != self._options.broker_name:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, f"the handle is of broker {handle.broker_name}")
        return handle

    def _delete_record(self, connection: Connection, handle: RecallHandle) -> StoredForm:
        properties = {
            names.UNIQUE_KEY: handle.unique_key,
            names.TIMER_DELETE_KEY: delete_key(handle.topic, handle.unique_key),
            names.TIMER_DELIVER_MS: str(handle.due_ms),
        }
        return StoredForm(
            topic=handle.topic,
            queue_id=0,
            body=b"0",
            properties=encode_properties(properties),
            born_timestamp=self._clock.now_ms(),
            born_host=connection.peer_host,
        )
