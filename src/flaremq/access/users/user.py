"""User: a name that signs requests, and the key it signs with.

The password is the key of an HMAC, so the server must be able to read it: a hash of it could not check a signature.
What protects it is that it never leaves: not by a reply, a log line, an error or a ``repr``, and that its file is
readable by its owner alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from flaremq.errors import InvalidArgumentError

MASK: Final = "******"  # stands in replies where a password would
NAME_LENGTH_MAX: Final = 255
PASSWORD_LENGTH_MAX: Final = 1024

_Named = TypeVar("_Named", bound=Enum)


class UserType(Enum):
    """Whether policies are asked at all."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    """Whether the user is believed."""

    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class User:
    """One user. Made by :func:`checked_user` wherever the texts come from outside."""

    username: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def is_enabled_super(self) -> bool:
        return self.type is UserType.SUPER and self.status is UserStatus.ENABLE

    def to_info(self) -> dict[str, str]:
        """What replies tell: RocketMQ's UserInfo without the secret."""
        return {
            "password": MASK,
            "userStatus": self.status.value,
            "userType": self.type.value,
            "username": self.username,
        }

    def __repr__(self) -> str:
        return f"<user {self.username!r} {self.type.value} {self.status.value}>"  # never the password


def checked_user(
    username: str, password: str, *, type: UserType = UserType.NORMAL, status: UserStatus = UserStatus.ENABLE
) -> User:
    """A user whose name can be logged and whose password can sign. The error never quotes the password."""
    check_username(username)
    check_password(password)
    return User(username, password, type, status)


def check_username(username: str) -> None:
    if not username.strip():
        raise InvalidArgumentError("username can not be blank")
    if len(username) > NAME_LENGTH_MAX or not username.isprintable():
        raise InvalidArgumentError(f"a username has up to {NAME_LENGTH_MAX} characters, all of them printable")


def check_password(password: str) -> None:
    if not password.strip():
        raise InvalidArgumentError("password can not be blank")
    if password == MASK:
        raise InvalidArgumentError(f"{MASK} stands for a password in replies, it is none itself")
    if len(password) > PASSWORD_LENGTH_MAX:
        raise InvalidArgumentError(f"a password has up to {PASSWORD_LENGTH_MAX} characters")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the password is not a text that UTF-8 can write") from None


def find_name(names: type[_Named], text: str) -> _Named | None:
    """The member that is spelled so, in upper or lower case."""
    folded = text.casefold()
    return next((member for member in names if str(member.value).casefold() == folded), None)


def text_of(document: Mapping[str, Any], key: str) -> str | None:
    """A text of a JSON object that may be missing; anything but a text is refused, without quoting it."""
    value = document.get(key)
    if value is None or isinstance(value, str):
        return value
    raise InvalidArgumentError(f"{key} is not a text")
