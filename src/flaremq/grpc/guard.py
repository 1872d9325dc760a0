"""CallGuard: before the handlers, the same guard as on the other ports.

    authorization: MQv2-HMAC-SHA1 Credential=<user>[/...], SignedHeaders=x-mq-date-time, Signature=<hex>

The signature is made over the text of ``x-mq-date-time`` alone, and that text is no time that could be held against a
clock: who has read one may send it for ever. So other machines are served over TLS only. The user comes from this
header and the address from the socket, never from other headers.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from flaremq.access import needs as access_needs
from flaremq.access.callers.caller_guard import Caller, CallerGuard
from flaremq.access.needs import Action, Need, ResourceType
from flaremq.grpc.call import Call
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import Method
from flaremq.grpc.server.serving import Place, Refusal

_HEADER_MAX: Final = 1024
_PUB: Final = (Action.PUB,)
_SUB: Final = (Action.SUB,)
_ROUTE: Final = (Action.PUB, Action.SUB)
_READ: Final = (Action.SUB, Action.GET)


def parse_authorization(text: str) -> tuple[str, str]:
    """The user and the signature that a header names; empty texts for what it does not have."""
    _, _, rest = text[:_HEADER_MAX].strip().partition(" ")
    fields = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        fields[name] = value
    return fields.get("Credential", "").partition("/")[0], fields.get("Signature", "")


class CallGuard:
    """Stands before the calls of one door. Event loop only."""

    def __init__(self, callers: CallerGuard) -> None:
        self._callers = callers

    def identify(self, call: Call, place: Place) -> Refusal | Awaitable[Refusal] | None:
        caller = place.visitor
        if caller is None:
            caller = place.visitor = self._callers.meet(call.peer, is_encrypted=call.is_encrypted)
        metadata = call.metadata
        user, signature = parse_authorization(metadata.get("authorization", ""))
        text = metadata.get("x-mq-date-time", "")

        def proves(secret: bytes) -> bool:
            if not text:
                return False
            expected = hmac.digest(secret, text.encode("utf-8", "replace"), "sha1").hex()
            return hmac.compare_digest(expected.encode(), signature.lower().encode("utf-8", "replace"))

        name, refusal = self._callers.identify(caller, user, proves, call.method)
        if refusal is None:
            call.account = name
            return None
        return self._answer(caller, refusal, user, place)

    def _answer(
        self, caller: Caller, refusal: access_needs.Refusal, user: str, place: Place
    ) -> Refusal | Awaitable[Refusal]:
        answer = Code.UNAUTHORIZED, refusal.remark
        wait = self._callers.wait_of(caller, refusal, user)
        if wait > 0:
            return _later(answer, wait)
        if wait < 0:
            asyncio.get_running_loop().call_soon(place.close)  # when the answer is written
        return answer

    def allow(self, method: Method, request: Any, call: Call, place: Place) -> Refusal | None:
        refusal = self._callers.allow(place.visitor, call.account, self._needs(method, request), method.name)
        return None if refusal is None else (Code.UNAUTHORIZED, refusal.remark)

    def _needs(self, method: Method, request: Any) -> Sequence[Need]:
        rule = NEEDS.get(method.name)
        return () if rule is None else rule(self._callers, request)


async def _later(answer: Refusal, seconds: float) -> Refusal:
    await asyncio.sleep(seconds)
    return answer


# What each call needs

_Rule = Callable[[CallerGuard, Any], Sequence[Need]]


def _group(name: str) -> Need:
    return Need(ResourceType.GROUP, name, _SUB)


def _sends(callers: CallerGuard, request: Any) -> Sequence[Need]:
    topics = {message.topic.name for message in request.messages}
    return [callers.need_of_topic(topic, _PUB) for topic in topics]


def _topic(actions: tuple[Action, ...]) -> _Rule:
    return lambda callers, request: (callers.need_of_topic(request.topic.name, actions),)


def _group_and_topic(callers: CallerGuard, request: Any) -> Sequence[Need]:
    group = request.group.name
    return _group(group), callers.need_of_topic(request.topic.name, _SUB, group=group)


def _group_and_queue(callers: CallerGuard, request: Any) -> Sequence[Need]:
    group = request.group.name
    return _group(group), callers.need_of_topic(request.message_queue.topic.name, _SUB, group=group)


def _group_if_named(callers: CallerGuard, request: Any) -> Sequence[Need]:
    return (_group(request.group.name),) if request.HasField("group") else ()


def _settings(callers: CallerGuard, command: Any) -> Sequence[Need]:
    if command.WhichOneof("command") != "settings":
        return ()
    settings = command.settings
    if settings.WhichOneof("pub_sub") == "publishing":
        return [callers.need_of_topic(name, _PUB) for name in {topic.name for topic in settings.publishing.topics}]
    group = settings.subscription.group.name
    topics = {entry.topic.name for entry in settings.subscription.subscriptions}
    return [_group(group), *(callers.need_of_topic(topic, _SUB, group=group) for topic in topics)]


# A method without a row needs a proven account and nothing else.
NEEDS: Final[dict[str, _Rule]] = {
    "QueryRoute": _topic(_ROUTE),
    "Heartbeat": _group_if_named,
    "SendMessage": _sends,
    "QueryAssignment": _group_and_topic,
    "ReceiveMessage": _group_and_queue,
    "AckMessage": _group_and_topic,
    "ForwardMessageToDeadLetterQueue": _group_and_topic,
    "PullMessage": _group_and_queue,
    "UpdateOffset": _group_and_queue,
    "GetOffset": _group_and_queue,
    "QueryOffset": lambda callers, request: (callers.need_of_topic(request.message_queue.topic.name, _READ),),
    "EndTransaction": _topic(_PUB),
    "Telemetry": _settings,
    "NotifyClientTermination": _group_if_named,
    "ChangeInvisibleDuration": _group_and_topic,
    "RecallMessage": _topic(_PUB),
    "SyncLiteSubscription": _group_and_topic,
}
