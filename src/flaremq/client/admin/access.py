"""Orders about access: users and their policies (2.0), accounts of a YAML file (1.0).

All of them are kept by one broker and copied by nobody, so each order names its broker; ``replicas`` finds those of a
cluster. Passwords and secret keys never show in a ``repr``. Brokers of ours do not tell them: they answer a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.client.admin.base import java_flag
from flaremq.client.admin.controllers import ControllerAdmin
from flaremq.client.arguments import check_text
from flaremq.errors import InvalidArgumentError, RemoteProtocolError
from flaremq.java_json import parse_java_json, write_java_json
from flaremq.options import MASK
from flaremq.protocol.codes import RequestCode

CUSTOM: Final = "Custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user of a broker. The password is its key for signatures."""

    username: str
    password: str = field(default="", repr=False)
    user_type: str = ""  # Super or Normal
    user_status: str = ""  # enable or disable

    @property
    def is_masked(self) -> bool:
        """Whether the broker kept the password to itself."""
        return self.password == MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class AclEntry:
    """What is allowed or denied for one resource, ``Topic:orders``, ``Group:g*`` or ``*``."""

    resource: str
    actions: tuple[str, ...]
    decision: str  # Allow or Deny
    source_ips: tuple[str, ...] | None = None  # None: from everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """All policies of a subject, ``User:name``: entries by the type of their policy, Custom or Default."""

    subject: str
    policies: tuple[tuple[str, tuple[AclEntry, ...]], ...]

    @property
    def entries(self) -> list[tuple[str, AclEntry]]:
        return [(kind, entry) for kind, entries in self.policies for entry in entries]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAccount:
    """An account of ACL 1.0. An empty text was not given, and changes nothing."""

    access_key: str
    secret_key: str = field(default="", repr=False)
    white_remote_address: str = ""
    is_admin: bool = False
    default_topic_perm: str = ""
    default_group_perm: str = ""
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFileVersion:
    """How often and when an ACL file of a broker was changed over the wire."""

    path: str
    counter: int
    timestamp_ms: int


class AccessAdmin(ControllerAdmin):
    """Where a ``broker`` is asked for, its name or its address will do."""

    async def replicas(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Addresses of masters and slaves: each keeps users of its own. An address stands for itself."""
        masters = await self.masters(cluster=cluster, broker=broker)
        if broker is not None and broker in masters.values():
            return [broker]
        table = (await self.cluster_info()).broker_addr_table
        return [address for name in masters for _, address in sorted(table[name].broker_addrs.items())]

    # Users

    async def create_user(self, broker: str, username: str, password: str, *, user_type: str = "") -> None:
        """A new user, Normal unless told otherwise."""
        await self._change_user(RequestCode.AUTH_CREATE_USER, broker, username, password, user_type, "")

    async def update_user(
        self, broker: str, username: str, *, password: str = "", user_type: str = "", user_status: str = ""
    ) -> None:
        """Change what is given of a user: password, type (Super, Normal) or status (enable, disable)."""
        if not (password or user_type or user_status):
            raise InvalidArgumentError(f"nothing to change of user {username!r}: give a password, a type or a status")
        await self._change_user(RequestCode.AUTH_UPDATE_USER, broker, username, password, user_type, user_status)

    async def _change_user(
        self, code: RequestCode, broker: str, username: str, password: str, user_type: str, user_status: str
    ) -> None:
        check_text(username, "a user name")
        fields = {"username": username, "password": password, "userType": user_type, "userStatus": user_status}
        body = write_java_json({name: text for name, text in sorted(fields.items()) if text})
        address, what = await self._address_of(broker), f"{code.name} of {username!r}"
        await self._call(address, code, {"username": username}, body, what=what)

    async def delete_user(self, broker: str, username: str) -> None:
        """Forget a user and its policies; one that does not exist is no error."""
        address, what = await self._address_of(broker), f"deleting user {username!r}"
        await self._call(address, RequestCode.AUTH_DELETE_USER, {"username": username}, what=what)

    async def get_user(self, broker: str, username: str) -> User | None:
        found = await self._ask_json(broker, RequestCode.AUTH_GET_USER, {"username": username}, f"user {username!r}")
        return None if found is None else _user(_object(found))

    async def list_users(self, broker: str, name_part: str = "") -> list[User]:
        """All users, or those whose name contains a text."""
        ext = {"filter": name_part} if name_part else None
        found = await self._ask_json(broker, RequestCode.AUTH_LIST_USER, ext, "the list of users")
        return [_user(_object(each)) for each in _list(found)]

    # Policies

    async def create_acl(self, broker: str, subject: str, entries: Iterable[AclEntry], kind: str = CUSTOM) -> None:
        """Add entries to a subject's policy; one of the same resource is replaced."""
        await self._change_acl(RequestCode.AUTH_CREATE_ACL, broker, subject, [(kind, tuple(entries))])

    async def update_acl(self, broker: str, subject: str, entries: Iterable[AclEntry], kind: str = CUSTOM) -> None:
        """The same for a subject that has a policy already."""
        await self._change_acl(RequestCode.AUTH_UPDATE_ACL, broker, subject, [(kind, tuple(entries))])

    async def copy_acl(self, broker: str, acl: Acl) -> None:
        """Give a subject of a broker all policies that it has elsewhere."""
        known = await self.get_acl(broker, acl.subject)
        code = RequestCode.AUTH_CREATE_ACL if known is None else RequestCode.AUTH_UPDATE_ACL
        await self._change_acl(code, broker, acl.subject, acl.policies)

    async def _change_acl(
        self, code: RequestCode, broker: str, subject: str, policies: Iterable[tuple[str, tuple[AclEntry, ...]]]
    ) -> None:
        check_text(subject, "a subject")
        written = [
            {"entries": [_written(entry) for entry in entries], "policyType": kind} for kind, entries in policies
        ]
        body = write_java_json({"policies": written, "subject": subject})
        address, what = await self._address_of(broker), f"{code.name} of {subject!r}"
        await self._call(address, code, {"subject": subject}, body, what=what)

    async def delete_acl(self, broker: str, subject: str, resource: str = "", kind: str = "") -> None:
        """Forget the entry of a resource, or all that a subject has."""
        ext = {"subject": subject, "resource": resource, "policyType": kind}
        address, what = await self._address_of(broker), f"deleting the policy of {subject!r}"
        given = {name: text for name, text in ext.items() if text}
        await self._call(address, RequestCode.AUTH_DELETE_ACL, given, what=what)

    async def get_acl(self, broker: str, subject: str) -> Acl | None:
        ext, what = {"subject": subject}, f"the policy of {subject!r}"
        found = await self._ask_json(broker, RequestCode.AUTH_GET_ACL, ext, what)
        return None if found is None else _acl(_object(found))

    async def list_acls(self, broker: str, *, subject_part: str = "", resource_part: str = "") -> list[Acl]:
        """All policies, or those whose subject and resources contain a text."""
        ext = {"subjectFilter": subject_part, "resourceFilter": resource_part}
        given = {name: text for name, text in ext.items() if text}
        found = await self._ask_json(broker, RequestCode.AUTH_LIST_ACL, given, "the list of policies")
        return [_acl(_object(each)) for each in _list(found)]

    # ACL 1.0

    async def update_acl_account(self, broker: str, account: PlainAccount) -> None:
        """Make an account or change what is given of it; ``is_admin`` always counts as given."""
        fields = {
            "accessKey": account.access_key,
            "secretKey": account.secret_key,
            "whiteRemoteAddress": account.white_remote_address,
            "defaultTopicPerm": account.default_topic_perm,
            "defaultGroupPerm": account.default_group_perm,
            "topicPerms": ",".join(account.topic_perms),
            "groupPerms": ",".join(account.group_perms),
        }
        ext = {name: text for name, text in fields.items() if text} | {"admin": java_flag(account.is_admin)}
        address, what = await self._address_of(broker), f"changing account {account.access_key!r}"
        await self._call(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, ext, what=what)

    async def delete_acl_account(self, broker: str, access_key: str) -> None:
        address, what = await self._address_of(broker), f"deleting account {access_key!r}"
        await self._call(address, RequestCode.DELETE_ACL_CONFIG, {"accessKey": access_key}, what=what)

    async def set_global_white_addresses(self, broker: str, addresses: Iterable[str], *, file: str = "") -> None:
        """Who needs no account at all, instead of those of before; ``file`` is one of the broker's ACL files."""
        ext = {"globalWhiteAddrs": ",".join(addresses)} | ({"aclFileFullPath": file} if file else {})
        address, what = await self._address_of(broker), "changing the white list"
        await self._call(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ext, what=what)

    async def acl_file_versions(self, broker: str) -> list[AclFileVersion]:
        """The ACL files of a broker."""
        address, what = await self._address_of(broker), f"the ACL files of {broker}"
        reply = await self._call(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO, what=what)
        versions = _object(_parsed((reply.ext or {}).get("allAclFileVersion") or "{}", what))
        return [
            AclFileVersion(
                path=path, counter=int(version.get("counter", 0)), timestamp_ms=int(version.get("timestamp", 0))
            )
            for path, version in ((path, _object(version)) for path, version in versions.items())
        ]

    async def acl_config(self, broker: str) -> tuple[list[str], list[PlainAccount]]:
        """The global white list and all accounts of a broker."""
        what = f"the accounts of {broker}"
        found = _object(await self._ask_json(broker, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, None, what) or {})
        accounts = [_account(_object(each)) for each in _list(found.get("plainAccessConfigs"))]
        return _texts(found.get("globalWhiteAddrs")), accounts

    async def _ask_json(self, broker: str, code: RequestCode, ext: Mapping[str, str] | None, what: str) -> Any:
        """The body of the reply of one broker; None if it is empty."""
        reply = await self._call(await self._address_of(broker), code, ext, what=what)
        return _parsed(reply.body_bytes.decode(errors="replace"), what) if reply.body else None


def _parsed(text: object, what: str) -> Any:
    try:
        return parse_java_json(str(text))
    except (ValueError, RecursionError):
        raise RemoteProtocolError(f"the reply to the question for {what} cannot be read") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RemoteProtocolError("a reply about access holds something else than an object")
    return value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RemoteProtocolError("a reply about access holds something else than a list")
    return value


def _texts(value: Any) -> list[str]:
    return [str(each) for each in _list(value)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _user(found: dict[str, Any]) -> User:
    return User(
        username=_text(found.get("username")),
        password=_text(found.get("password")),
        user_type=_text(found.get("userType")),
        user_status=_text(found.get("userStatus")),
    )


def _acl(found: dict[str, Any]) -> Acl:
    policies = tuple(
        (
            _text(policy.get("policyType")) or CUSTOM,
            tuple(_entry(_object(each)) for each in _list(policy.get("entries"))),
        )
        for policy in map(_object, _list(found.get("policies")))
    )
    return Acl(subject=_text(found.get("subject")), policies=policies)


def _entry(found: dict[str, Any]) -> AclEntry:
    source_ips = found.get("sourceIps")
    return AclEntry(
        resource=_text(found.get("resource")),
        actions=tuple(_texts(found.get("actions"))),
        decision=_text(found.get("decision")),
        source_ips=None if source_ips is None else tuple(_texts(source_ips)),
    )


def _written(entry: AclEntry) -> dict[str, Any]:
    written: dict[str, Any] = {"actions": list(entry.actions), "decision": entry.decision, "resource": entry.resource}
    return written if entry.source_ips is None else written | {"sourceIps": list(entry.source_ips)}


def _account(found: dict[str, Any]) -> PlainAccount:
    return PlainAccount(
        access_key=_text(found.get("accessKey")),
        secret_key=_text(found.get("secretKey")),
        white_remote_address=_text(found.get("whiteRemoteAddress")),
        is_admin=found.get("admin") is True,
        default_topic_perm=_text(found.get("defaultTopicPerm")),
        default_group_perm=_text(found.get("defaultGroupPerm")),
        topic_perms=tuple(_texts(found.get("topicPerms"))),
        group_perms=tuple(_texts(found.get("groupPerms"))),
    )
