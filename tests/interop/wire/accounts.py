"""Accounts for servers with access control, of either generation: those who may, and those who may not.

    with guarded("flaremq", ACL, folder) as servers: ...     # accounts in conf/plain_acl.yml
    with guarded("flaremq", AUTH, folder) as servers: ...    # users and policies
        make_users(servers)

``ADMIN`` may do everything. ``APP`` has what producers and consumers of the scenarios need, and no more: topics and
groups that begin with ``PREFIX``, the topics of traces and replies. ``READER`` may read and not write, ``NOBODY``
nothing at all. The servers' own account is in a file of its own, as all secrets of ours are.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flaremq.client.admin.access import AclEntry
from flaremq.client.credentials import Credentials
from flaremq.client.options import ClientOptions
from flaremq.errors import FlareMQError
from flaremq.sync import Admin
from tests.interop.wire import probe, programs, servers

ACL = "acl"
AUTH = "auth"
GENERATIONS = (ACL, AUTH)
PREFIX = "w"

ADMIN: probe.Signer = ("wire-admin", "admin-secret-1")
INNER: probe.Signer = ("wire-inner", "inner-secret-1")
APP: probe.Signer = ("wire-app", "app-secret-1")
READER: probe.Signer = ("wire-reader", "reader-secret-1")
NOBODY: probe.Signer = ("wire-nobody", "nobody-secret-1")
SECRETS = tuple(secret for _, secret in (ADMIN, INNER, APP, READER, NOBODY))

_REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
# 1.0 has no prefixes: who may use any topic of a name says so by a default.
PLAIN_ACL = f"""\
accounts:
- accessKey: {ADMIN[0]}
  secretKey: {ADMIN[1]}
  admin: true
- accessKey: {INNER[0]}
  secretKey: {INNER[1]}
- accessKey: {APP[0]}
  secretKey: {APP[1]}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: {READER[0]}
  secretKey: {READER[1]}
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
- accessKey: {NOBODY[0]}
  secretKey: {NOBODY[1]}
"""
POLICIES: Mapping[str, tuple[AclEntry, ...]] = {
    APP[0]: (
        AclEntry(resource=f"Topic:{PREFIX}*", actions=("Pub", "Sub"), decision="Allow"),
        AclEntry(resource=f"Group:{PREFIX}*", actions=("Sub",), decision="Allow"),
        AclEntry(resource=f"Topic:{_REPLY_TOPIC}", actions=("Pub",), decision="Allow"),
        AclEntry(resource=f"Topic:{_TRACE_TOPIC}", actions=("Pub", "Sub"), decision="Allow"),
    ),
    READER[0]: (
        AclEntry(resource="Topic:*", actions=("Sub",), decision="Allow"),
        AclEntry(resource="Group:*", actions=("Sub",), decision="Allow"),
    ),
}

_AUTH_SWITCHES = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
_ROOT_JSON = json.dumps({"username": ADMIN[0], "password": ADMIN[1]})
_INNER_JSON = json.dumps({"accessKey": INNER[0], "secretKey": INNER[1]})


def secret_file(path: Path, text: str) -> Path:
    """A file that nobody else may read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def credentials(signer: probe.Signer) -> Credentials:
    return Credentials(access_key=signer[0], secret_key=signer[1])


def java_properties(client: probe.Signer = APP, admin: probe.Signer = ADMIN) -> dict[str, str]:
    """Who the clients of ``java/Wire.java`` are."""
    properties = {"wire.accessKey": client[0], "wire.secretKey": client[1]}
    return properties | {"wire.adminKey": admin[0], "wire.adminSecret": admin[1]}


def go_command(target: servers.Servers, client: probe.Signer | None) -> list[str]:
    """The Go program; its admin client does not sign what makes topics, so it makes none."""
    command = [str(programs.go_program()), f"namesrv={target.name_server}", f"broker={target.broker}", "topics=made"]
    return command + _words(client)


def node_command(target: servers.Servers, client: probe.Signer | None) -> list[str]:
    """Node's program; it makes no topics."""
    program = programs.HERE / "node" / "wire.js"
    return ["node", str(program), f"namesrv={target.name_server}", *_words(client)]


def _words(client: probe.Signer | None) -> list[str]:
    return [] if client is None else [f"accessKey={client[0]}", f"secretKey={client[1]}"]


def options(generation: str, folder: Path) -> dict[str, str]:
    """What turns access control on in servers of ours; makes the files below ``folder`` that it needs."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {"innerClientAuthenticationCredentials": f"file:{secret_file(folder / 'inner.json', _INNER_JSON)}"}
    if generation == ACL:
        _write_accounts(folder)
        return chosen | {"aclEnable": "true", "aclHome": str(folder)}
    chosen["initAuthenticationUser"] = f"file:{secret_file(folder / 'root.json', _ROOT_JSON)}"
    return chosen | _AUTH_SWITCHES | {"authConfigPath": str(folder)}


def real_options(generation: str, home: Path) -> dict[str, str]:
    """The same for a real broker whose home folder this is; real name servers ask nobody."""
    if generation == ACL:
        _write_accounts(home)
        return {"aclEnable": "true"}
    providers = {
        f"{what}MetadataProvider": f"org.apache.rocketmq.auth.{what}.provider.Local{what.capitalize()}MetadataProvider"
        for what in ("authentication", "authorization")
    }
    secrets = {"initAuthenticationUser": _ROOT_JSON, "innerClientAuthenticationCredentials": _INNER_JSON}
    return _AUTH_SWITCHES | providers | secrets


def _write_accounts(home: Path) -> None:
    (home / "conf").mkdir(parents=True, exist_ok=True)
    secret_file(home / "conf" / "plain_acl.yml", PLAIN_ACL)


def make_users(target: servers.Servers, **how: Any) -> None:
    """The users of 2.0 besides the administrator, and their policies; ``how`` the administrator connects.

    A name server of ours looks every two seconds whether the users have changed: this waits until it has.
    """
    options = ClientOptions(access_key=ADMIN[0], secret_key=ADMIN[1], **how)
    with Admin(target.name_server, options=options) as admin:
        for name, password in (APP, READER, NOBODY):
            admin.create_user(target.broker, name, password)
            if name in POLICIES:
                entries = POLICIES[name]
                if target.broker_version != "flaremq":
                    entries = tuple(map(_with_get, entries))
                admin.create_acl(target.broker, f"User:{name}", entries)

    def is_known() -> bool:
        name, secret = NOBODY
        with Admin(target.name_server, options=replace(options, access_key=name, secret_key=secret)) as nobody:
            try:
                nobody.cluster_info()
            except FlareMQError:
                return False
        return True

    probe.wait("users at the name server", is_known, seconds=30)


def _with_get(entry: AclEntry) -> AclEntry:
    """RocketMQ's brokers tell the ends of a queue to who has Get; to who has Sub, ours do too."""
    if "Sub" not in entry.actions or not entry.resource.startswith("Topic:"):
        return entry
    return replace(entry, actions=(*entry.actions, "Get"))


@contextmanager
def guarded(
    target: str,
    generation: str,
    folder: Path,
    *,
    more: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[servers.Servers]:
    """Servers that ask everybody who they are; ``more`` options for both. Of real ones the broker alone asks."""
    name_server: Mapping[str, str] = {}
    if target.startswith("rocketmq-"):
        chosen = real_options(generation, folder / "home")
    else:
        chosen = name_server = {**options(generation, folder / "access"), **(more or {})}
    settings = {**servers.SMALL_OPTIONS, **chosen}
    with servers.started(
        target, folder, options=settings, name_server_options=name_server, signer=ADMIN, tls=tls
    ) as started:
        yield started
