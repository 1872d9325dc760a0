"""PlainAccount: one account of an ACL file, checked, with its permissions in one table.

A group ``g`` is the key ``%RETRY%g`` of that table, as in RocketMQ: so ``topicPerms: ["%RETRY%g=SUB"]`` says the same
as ``groupPerms: ["g=SUB"]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.access.judge import Account
from flaremq.access.plain.acl_document import field_name
from flaremq.access.plain.address_patterns import AddressPattern, parse_pattern
from flaremq.access.plain.permissions import DENY, Permission, parse_permission, split_entry
from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import RETRY_PREFIX
from flaremq.visible import visible

KEY_LENGTH_MIN: Final = 7  # RocketMQ's, for access keys and secrets alike
KEY_LENGTH_MAX: Final = 1024
MASK: Final = "******"  # stands for a secret wherever one would be shown
ACCOUNT_FIELDS: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
_TRUE: Final = frozenset(("true", "yes", "on"))
_FALSE: Final = frozenset(("false", "no", "off"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAccount:
    """An account as the judge uses it, and its fields as they stand in the file."""

    account: Account
    is_admin: bool
    white: AddressPattern
    topic_default: Permission
    group_default: Permission
    permissions: Mapping[str, Permission]
    fields: Mapping[str, Any] = field(repr=False)  # with the secret
    warnings: tuple[str, ...] = ()


def parse_account(fields: object) -> PlainAccount:
    """Check one entry of ``accounts``. InvalidArgumentError names the account and the field, never the secret."""
    if not isinstance(fields, dict):
        raise InvalidArgumentError("an account must be a map of fields")
    unknown = [field_name(name) for name in fields if name not in ACCOUNT_FIELDS]
    if unknown:
        raise InvalidArgumentError(
            f"an account has the unknown field {unknown[0]}; those known are {', '.join(ACCOUNT_FIELDS)}"
        )
    key, secret = _text(fields, "accessKey") or "", _text(fields, "secretKey") or ""
    check_keys(key, secret)
    try:
        return _parsed(fields, key, secret)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"account {visible(key)!r}: {error}") from None


def check_keys(access_key: str, secret_key: str) -> None:
    """Refuse keys that RocketMQ does not take, in its words, and those that cannot be written down."""
    if len(access_key) < KEY_LENGTH_MIN or len(secret_key) < KEY_LENGTH_MIN:
        key = visible(access_key[:64])
        raise InvalidArgumentError(
            f"The accessKey={key} and secretKey={MASK} cannot be null and length should longer than 6"
        )
    if len(access_key) > KEY_LENGTH_MAX or len(secret_key) > KEY_LENGTH_MAX:
        raise InvalidArgumentError(f"an accessKey or secretKey is longer than {KEY_LENGTH_MAX} characters")
    if not access_key.isprintable() or not secret_key.isprintable():  # lone surrogates are not printable either
        raise InvalidArgumentError("accessKey and secretKey must consist of printable characters")


def _parsed(fields: Mapping[str, Any], key: str, secret: str) -> PlainAccount:
    warnings: list[str] = []

    def permission(text: str | None, what: str) -> Permission:
        found = parse_permission(text)
        if found is None:  # as in RocketMQ, and closed
            warnings.append(f"account {visible(key)!r}: {what} is not a permission and denies")
            return DENY
        return found

    permissions: dict[str, Permission] = {}
    # Groups first: where both lists name a retry topic, RocketMQ lets that of the topics win.
    for name, prefix in (("groupPerms", RETRY_PREFIX), ("topicPerms", "")):
        for entry in text_list(fields, name):
            resource, text = split_entry(entry)
            permissions[prefix + resource] = permission(text, f"{name} entry {visible(entry[:255])!r}")
    is_admin = _flag(fields, "admin")
    defaults = {name: _text(fields, name) for name in ("defaultTopicPerm", "defaultGroupPerm")}
    return PlainAccount(
        account=Account(key, secret.encode(), is_super=is_admin and not permissions),
        is_admin=is_admin,
        white=parse_pattern(_text(fields, "whiteRemoteAddress") or ""),
        topic_default=permission(defaults["defaultTopicPerm"], "defaultTopicPerm"),
        group_default=permission(defaults["defaultGroupPerm"], "defaultGroupPerm"),
        permissions=permissions,
        fields=fields,
        warnings=tuple(warnings),
    )


def text_list(fields: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; a field without a value is an empty one."""
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidArgumentError(f"{name} must be a list of texts")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a text")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    text = (_text(fields, name) or "false").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise InvalidArgumentError(f"{name} must be true or false")
