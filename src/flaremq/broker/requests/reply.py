"""SEND_REPLY_MESSAGE: the answer to a request goes to the client that asked, and is stored as well.

The client is found by the id it registered with as a producer. It has to confirm that it got the answer; if it does
not, or is not there, the one who answers hears so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.broker.ingest.admission import SendAdmission, queue_of
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.clock import Clock
from flaremq.errors import FlareMQError
from flaremq.message import properties as names
from flaremq.message.hosts import format_host
from flaremq.message.properties import REPLY_TO_CLIENT, edit_properties, find_property
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.bodies.topic import PERM_WRITE, TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand, RequestError
from flaremq.protocol.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeader, decode_send_header

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)
_PUSH_SECONDS: Final = 10.0
_PUSHES_PER_CLIENT_MAX: Final = 64  # a client that confirms nothing must not use up the lane of all
_PUSH_TIME: Final = "PUSH_REPLY_TIME"


@dataclass(eq=False, repr=False)
class ReplyHandler:
    """Relays answers of request-reply."""

    _options: BrokerOptions
    _clock: Clock
    _store_loop: StoreAccess
    _admission: SendAdmission
    _producers: ProducerTable
    _store_host: bytes

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.SEND_REPLY_MESSAGE, self.send_reply, "reply")
        table.register(RequestCode.SEND_REPLY_MESSAGE_V2, self.send_reply, "reply")

    async def send_reply(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        ext: dict[str, ExtValue] = {
            "MSG_REGION": self._options.region_id,
            "TRACE_ON": "true" if self._options.trace_on else "false",
        }
        try:
            header = decode_send_header(request.code, request.ext)
            self._check_permission()
            config = await self._admission.check(header)
            form = self._form(connection, request, header, config)
            problem = await self._push(connection, header, form)
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=ext)
        ext |= {"msgId": "0", "queueId": form.queue_id, "queueOffset": 0}
        if self._options.store_reply_message_enable:
            ext |= await self._store(form)
        if problem is not None:
            return RemotingCommand.response(ResponseCode.SYSTEM_ERROR, problem, ext=ext)
        return RemotingCommand.response(ext=ext)

    def _check_permission(self) -> None:
        if not self._options.broker_permission & PERM_WRITE:
            raise RequestError(ResponseCode.NO_PERMISSION, "the broker takes no messages")

    def _form(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        config: TopicConfig,
    ) -> StoredForm:
        """The answer as it is pushed and stored. Its body may be empty: Go's client drops it."""
        changes: dict[str, str | None] = {
            names.REGION: self._options.region_id,
            names.TRACE_SWITCH: "true" if self._options.trace_on else "false",
            _PUSH_TIME: str(self._clock.now_ms()),
        }
        return StoredForm(
            topic=header.topic,
            queue_id=queue_of(header, config),
            body=request.body_bytes,
            properties=edit_properties((header.properties or "").encode("utf-8", "replace"), changes),
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            reconsume_times=header.reconsume_times,
        )

    async def _push(self, connection: Connection, header: SendMessageRequestHeader, form: StoredForm) -> str | None:
        """Hand the answer over; what went wrong, or None."""
        client_id = str(find_property(form.properties, REPLY_TO_CLIENT.encode()) or b"", "utf-8", "replace")
        if not client_id:
            return f"the reply has no property {REPLY_TO_CLIENT}"
        asker = self._producers.find_client(client_id)
        if asker is None:
            return f"push reply message fail, the client {client_id} is not connected to this broker"
        if asker.calls >= _PUSHES_PER_CLIENT_MAX:
            return f"push reply message fail, the client {client_id} has {asker.calls} of them to confirm"
        push = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=form.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=form.queue_id,
            sys_flag=form.sys_flag,
            born_timestamp=form.born_timestamp,
            flag=form.flag,
            properties=str(form.properties, "utf-8", "replace"),
            reconsume_times=form.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=connection.peer,
            store_host=format_host(self._store_host),
            store_timestamp=self._clock.now_ms(),
        )
        request = RemotingCommand.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push.encode(), form.body)
        try:
            answer = await asker.request(request, _PUSH_SECONDS)
        except FlareMQError as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail, it answered {answer.code}: {answer.remark}"
        return None

    async def _store(self, form: StoredForm) -> dict[str, ExtValue]:
        """Store the reply message for later queries; it has reached its client, so failing is no error."""
        try:
            result = await self._store_loop.put(form)
        except FlareMQError as error:
            _log.warning("a reply for %s was not stored: %s", form.topic, error)
            return {}
        if not result.status.stored:
            _log.warning("a reply for %s was not stored: %s", form.topic, result)
            return {}
        return {"msgId": result.message_id, "queueOffset": result.queue_offset}
