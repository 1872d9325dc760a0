"""PullMessage, UpdateOffset, GetOffset and QueryOffset: consuming by offsets.

No published client calls these and the original answers them with UNIMPLEMENTED; they are what pull consumers of the
protocol would use, on a queue that names its broker and its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.call import Call, Send
from flaremq.grpc.calls.routes import find_topic
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, FilterType, QueryOffsetPolicy
from flaremq.grpc.rules.delivered import delivered, records
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import group_of, topic_of
from flaremq.grpc.rules.status import OK, Refused, of_remoting, of_reply
from flaremq.grpc.rules.times import to_ms
from flaremq.message.tags import SQL92, TAG
from flaremq.protocol.codes import PULL_HAS_SUBSCRIPTION, PULL_MAY_SUSPEND, RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand

_OFFSET_MAX: Final = 2**63 - 1
_SPARE_SECONDS: Final = 5.0


class Offsets:
    """Consuming by offsets."""

    def __init__(self, backend: Backend, limits: CallLimits) -> None:
        self._backend = backend
        self._limits = limits
        self._seconds = limits.request_timeout_ms / 1000

    async def pull_message(self, request: Any, call: Call, send: Send) -> None:
        group = await self._group(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        poll_ms = max(0, min(to_ms(request.long_polling_timeout), self._limits.max_long_polling_ms))
        left = call.remaining()
        if left is not None:
            poll_ms = max(0, min(poll_ms, int(left * 1000) - 200))
        expression = request.filter_expression
        ext: dict[str, ExtValue] = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(_offset(request.offset)),
            "maxMsgNums": str(max(1, min(request.batch_size, self._limits.receive_batch_size))),
            "sysFlag": str(PULL_HAS_SUBSCRIPTION | (PULL_MAY_SUSPEND if poll_ms else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(poll_ms),
            "subscription": expression.expression or "*",
            "expressionType": SQL92 if expression.type == FilterType.SQL else TAG,
            "subVersion": "0",
            "bname": broker,
        }
        reply = await self._backend.ask(
            broker,
            RemotingCommand.request(RequestCode.PULL_MESSAGE, ext),
            call,
            seconds=poll_ms / 1000 + _SPARE_SECONDS,
        )
        if reply.code != ResponseCode.SUCCESS:
            refused = of_reply(reply)
            if of_remoting(reply.code) is Code.MESSAGE_NOT_FOUND:
                refused = Refused(Code.MESSAGE_NOT_FOUND, "no message came in time")
            await send(classes.PullMessageResponse(status=refused.status))
        else:
            await send(classes.PullMessageResponse(status=OK))
            for record in records(reply.body):
                await send(classes.PullMessageResponse(message=delivered(record, topic=topic)))
        following = (reply.ext or {}).get("nextBeginOffset")
        await send(classes.PullMessageResponse(next_offset=int(following) if following else request.offset))

    async def update_offset(self, request: Any, call: Call) -> Any:
        group = await self._group(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        fields = {"consumerGroup": group, "commitOffset": str(_offset(request.offset))}
        await self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, broker, topic, queue_id, fields, call)
        return classes.UpdateOffsetResponse(status=OK)

    async def get_offset(self, request: Any, call: Call) -> Any:
        group = group_of(request.group)
        topic, broker, queue_id = await self._queue(request.message_queue)
        reply = await self._ask(
            RequestCode.QUERY_CONSUMER_OFFSET, broker, topic, queue_id, {"consumerGroup": group}, call
        )
        return classes.GetOffsetResponse(status=OK, offset=reply.int_field("offset"))

    async def query_offset(self, request: Any, call: Call) -> Any:
        topic, broker, queue_id = await self._queue(request.message_queue)
        policy, fields = request.query_offset_policy, {}
        code = RequestCode.GET_MIN_OFFSET if policy == QueryOffsetPolicy.BEGINNING else RequestCode.GET_MAX_OFFSET
        if policy == QueryOffsetPolicy.TIMESTAMP:
            if not request.HasField("timestamp"):
                raise Refused(Code.BAD_REQUEST, "a query by time tells the time")
            code, fields = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(to_ms(request.timestamp))}
        reply = await self._ask(code, broker, topic, queue_id, fields, call)
        return classes.QueryOffsetResponse(status=OK, offset=reply.int_field("offset"))

    async def _group(self, resource: Any) -> str:
        """A group that exists, from now on if need be."""
        name = group_of(resource)
        if await self._backend.find_group(name) is None:
            raise Refused(Code.CONSUMER_GROUP_NOT_FOUND, f"consumer group {name} does not exist")
        return name

    async def _queue(self, queue: Any) -> tuple[str, str, int]:
        """Topic, broker and number of a queue that exists."""
        name = topic_of(queue.topic)
        topic = await find_topic(self._backend, name)
        for queues in topic.brokers:
            if queues.broker == queue.broker.name or (not queue.broker.name and len(topic.brokers) == 1):
                if not 0 <= queue.id < max(queues.read, queues.write):
                    raise Refused(Code.BAD_REQUEST, f"topic {name} has no queue {queue.id} on {queues.broker}")
                return name, queues.broker, queue.id
        raise Refused(Code.BAD_REQUEST, f"topic {name} has no queues on a broker {queue.broker.name[:128]!r}")

    async def _ask(
        self, code: RequestCode, broker: str, topic: str, queue_id: int, fields: Mapping[str, str], call: Call
    ) -> RemotingCommand:
        ext = {"topic": topic, "queueId": str(queue_id), "bname": broker, **fields}
        request = RemotingCommand.request(code, ext)
        reply = await self._backend.ask(broker, request, call, seconds=self._seconds)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            raise Refused(Code.OFFSET_NOT_FOUND, reply.remark or "the group has no offset there")
        if reply.code:
            raise of_reply(reply)
        return reply


def _offset(offset: int) -> int:
    if not 0 <= offset <= _OFFSET_MAX:
        raise Refused(Code.ILLEGAL_OFFSET, f"{offset} is no offset")
    return offset
