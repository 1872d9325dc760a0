"""CallGuard: before the handlers, the same guard as on the other ports.

    authorization: MQv2-HMAC-SHA1 Credential=<user>[/...], SignedHeaders=x-mq-date-time, Signature=<hex>

The signature is made over the text of ``x-mq-date-time`` alone, and that text is no time that could be held against a
clock: who has read one may send it for ever. So other machines are served over TLS only. The user comes from this
header and the address from the socket, never from other headers.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from flaremq.access import needs as access_needs
from flaremq.access.callers.caller_guard import Caller, CallerGuard
from flaremq.access.needs import Action, Need, ResourceType
from flaremq.grpc.call import Call
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import Method
from flaremq.grpc.server.serving import Place, Refusal

_HEADER_MAX: Final = 1024


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

    def _needs(self, method: Method, request: Any) -> Sequence[Need] | None:
        rule = _RULES.get(method.name)
        return None if rule is None else rule(self._callers, request)


async def _later(answer: Refusal, seconds: float) -> Refusal:
    await asyncio.sleep(seconds)
    return answer


# What each call needs: the words of ``access.rules``, with the path of the resource in the request; ``[]``: in each of
# several. A method without a row is for Super users.
NEEDS: Final[Mapping[str, str]] = {
    "QueryRoute": "T(topic):Pub|Sub",
    "Heartbeat": "G(group)?:Sub",
    "SendMessage": "T(messages[].topic):Pub",
    "QueryAssignment": "G(group):Sub + T(topic):Sub",
    "ReceiveMessage": "G(group):Sub + T(message_queue.topic):Sub",
    "AckMessage": "G(group):Sub + T(topic):Sub",
    "ForwardMessageToDeadLetterQueue": "G(group):Sub + T(topic):Sub",
    "PullMessage": "G(group):Sub + T(message_queue.topic):Sub",
    "UpdateOffset": "G(group):Sub + T(message_queue.topic):Sub",
    "GetOffset": "G(group):Sub + T(message_queue.topic):Sub",
    "QueryOffset": "T(message_queue.topic):Sub|Get",
    "EndTransaction": "T(topic):Pub",
    "Telemetry": "publishing or subscription",
    "NotifyClientTermination": "G(group)?:Sub",
    "ChangeInvisibleDuration": "G(group):Sub + T(topic):Sub",
    "RecallMessage": "T(topic):Pub",
    "SyncLiteSubscription": "G(group):Sub + T(topic):Sub",
}
# Of the settings that Telemetry tells, by their kind.
SETTINGS_NEEDS: Final[Mapping[str, str]] = {
    "publishing": "T(settings.publishing.topics[]):Pub",
    "subscription": "G(settings.subscription.group):Sub + T(settings.subscription.subscriptions[].topic):Sub",
}
_Rule = Callable[[CallerGuard, Any], Sequence[Need]]
_TERM: Final = re.compile(r"([TG])\(([a-z_.\[\]]+)\)(\?)?:([A-Za-z|]+)")


def _parse(words: str) -> _Rule:
    """The function of a row."""
    terms = []
    for term in words.split(" + "):
        match = _TERM.fullmatch(term)
        assert match is not None, f"unreadable rule {words!r}"
        kind, path, optional, actions = match.groups()
        wanted = tuple(Action[word.upper()] for word in actions.split("|"))
        terms.append((kind == "G", path.split(".")[0] if optional else "", _names(path), wanted))

    def rule(callers: CallerGuard, request: Any) -> Sequence[Need]:
        needs: list[Need] = []
        group = ""
        for is_group, optional, names, actions in terms:
            if optional and not request.HasField(optional):
                continue
            for name in names(request):
                if is_group:
                    group = name
                    needs.append(Need(ResourceType.GROUP, name, actions))
                else:
                    needs.append(callers.need_of_topic(name, actions, group=group))
        return needs

    return rule


def _names(path: str) -> Callable[[Any], Iterable[str]]:
    """What finds the names of the resources at a path; where a single one is missing, the empty name."""
    before, several, behind = path.partition("[]")
    if not several:
        one = attrgetter(f"{path}.name")
        return lambda request: (one(request),)
    many, name = attrgetter(before), attrgetter(f"{behind}.name".removeprefix("."))
    return lambda request: {name(each) for each in many(request)}


_SETTINGS_RULES: Final = {kind: _parse(words) for kind, words in SETTINGS_NEEDS.items()}


def _settings(callers: CallerGuard, command: Any) -> Sequence[Need]:
    """What a client says it is; its answers to questions need nothing."""
    if command.WhichOneof("command") != "settings":
        return ()
    return _SETTINGS_RULES[command.settings.WhichOneof("pub_sub") or "subscription"](callers, command)


_RULES: Final[Mapping[str, _Rule]] = {
    name: _settings if name == "Telemetry" else _parse(words) for name, words in NEEDS.items()
}
