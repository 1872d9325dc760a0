"""Voices: what a refusal says, in the words and codes of the generation of RocketMQ whose accounts are in use."""

from __future__ import annotations

from typing import Final, Protocol

from flaremq.access.needs import Refusal
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand

_VERSION_5: Final = 413
_NAME_MAX: Final = 64
_PLAINTEXT: Final = "requests of other machines are served over TLS only (tlsMode, or accessWithoutTlsEnable=true)"


def too_often(host: str) -> Refusal:
    """To whoever guesses, and to who shares the address: it says nothing about the account."""
    remark = f"too many wrong signatures of this account came from {host}: none is looked at for some seconds"
    return Refusal(remark, "too many guesses", is_for_now=True)


class Voice(Protocol):
    """The sentences of one generation, and the code they come with."""

    def nameless(self) -> str: ...
    def unproven(self, name: str) -> str: ...
    def not_super(self, name: str, code: int) -> str: ...
    def unreadable(self, reason: str) -> str: ...
    def plaintext(self) -> str: ...
    def far_away(self, host: str) -> str: ...
    def decided(self, refusal: Refusal, name: str, code: int) -> Refusal: ...
    def reply(self, remark: str, request: RemotingCommand) -> RemotingCommand: ...
    def leaves_out(self, request: RemotingCommand) -> str | None: ...


class PlainVoice:
    """ACL 1.0: code 1 and the name of Java's exception, for clients of 5.x code 16 and the sentence alone."""

    def nameless(self) -> str:
        return "No accessKey is configured"

    def unproven(self, name: str) -> str:
        return f"Check signature failed for accessKey={name[:_NAME_MAX]}"

    def not_super(self, name: str, code: int) -> str:
        return f"Need admin permission for request code={code}, but accessKey={name[:_NAME_MAX]} is not"

    def unreadable(self, reason: str) -> str:
        return f"parse authorization context error: {reason}"

    def plaintext(self) -> str:
        return _PLAINTEXT

    def far_away(self, host: str) -> str:
        return f"administration is not answered to {host} (adminAllowedAddresses)"

    def decided(self, refusal: Refusal, name: str, code: int) -> Refusal:
        if refusal.remark.startswith("Need admin permission"):
            return Refusal(self.not_super(name, code), refusal.rule)
        return refusal

    def reply(self, remark: str, request: RemotingCommand) -> RemotingCommand:
        if request.version >= _VERSION_5:
            return RemotingCommand.response(ResponseCode.NO_PERMISSION, remark)
        return RemotingCommand.response(
            ResponseCode.SYSTEM_ERROR, f"org.apache.rocketmq.acl.common.AclException: {remark}"
        )

    def leaves_out(self, request: RemotingCommand) -> str | None:
        return "_UNIQUE_KEY_QUERY" if request.code == RequestCode.QUERY_MESSAGE else None


class UsersVoice:
    """Auth 2.0: code 16."""

    def nameless(self) -> str:
        return "username cannot be null."

    def unproven(self, name: str) -> str:
        return "check signature failed."

    def not_super(self, name: str, code: int) -> str:
        return f"User:{name[:_NAME_MAX]} has no permission for request code={code}, it needs a super user."

    def unreadable(self, reason: str) -> str:
        return "parse authorization context error."

    def plaintext(self) -> str:
        return _PLAINTEXT

    def far_away(self, host: str) -> str:
        return f"administration is not answered to {host} (adminAllowedAddresses)"

    def decided(self, refusal: Refusal, name: str, code: int) -> Refusal:
        return refusal

    def reply(self, remark: str, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(ResponseCode.NO_PERMISSION, remark)

    def leaves_out(self, request: RemotingCommand) -> str | None:
        return "_UNIQUE_KEY_QUERY" if request.code == RequestCode.QUERY_MESSAGE and request.version <= 399 else None
