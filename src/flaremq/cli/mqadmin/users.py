"""Users and their policies, and accounts of ACL 1.0, in RocketMQ's own spelling."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.credentials import secret_argument
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import java_text
from flaremq.cli.output import echo
from flaremq.client.admin.access import Acl, AclEntry, PlainAccount, User
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.options import MASK


async def create_user(admin: AdminTool, args: Arguments) -> None:
    password = _password(args)
    for address in await _replicas(admin, args):
        await admin.create_user(address, args.text("username"), password, user_type=args.maybe("userType") or "")
        echo(f"create user to {address} success.")


async def update_user(admin: AdminTool, args: Arguments) -> None:
    given = [name for name in ("password", "userType", "userStatus") if args.maybe(name)]
    if len(given) != 1:
        args.refuse("Give exactly one of -p password, -t userType and -s userStatus.")
    password = _password(args)
    for address in await _replicas(admin, args):
        await admin.update_user(
            address,
            args.text("username"),
            password=password,
            user_type=args.maybe("userType") or "",
            user_status=args.maybe("userStatus") or "",
        )
        echo(f"update user to {address} success.")


async def delete_user(admin: AdminTool, args: Arguments) -> None:
    for address in await _replicas(admin, args):
        await admin.delete_user(address, args.text("username"))
        echo(f"delete user to {address} success.")


async def get_user(admin: AdminTool, args: Arguments) -> None:
    for address in (await args.masters(admin)).values():
        found = await admin.get_user(address, args.text("username"))
        if found is not None:
            _show_users([found], args)


async def list_user(admin: AdminTool, args: Arguments) -> None:
    for address in (await args.masters(admin)).values():
        found = await admin.list_users(address, args.maybe("filter") or "")
        if found:
            _show_users(found, args)
            if args.maybe("clusterName"):
                echo(f"get user from {address} success.")
            break  # those of the others should be the same


def _show_users(users: Iterable[User], args: Arguments) -> None:
    row = "{:<16}  {:<22}  {:<22}  {:<22}"
    echo(row.format("#UserName", "#Password", "#UserType", "#UserStatus"))
    for user in users:
        password = user.password if args.truth("showSecrets") else MASK
        echo(row.format(user.username, password, user.user_type, user.user_status))


async def copy_user(admin: AdminTool, args: Arguments) -> None:
    source, target = args.text("fromBroker"), args.text("toBroker")
    for user in await _users_of(admin, source, _parts(args.maybe("usernames"))):
        if user.is_masked:
            raise InvalidArgumentError(
                f"the password of user {user.username!r} cannot be copied: {source} tells it to nobody. Create the "
                f"user on {target} with createUser instead"
            )
        if await admin.get_user(target, user.username) is None:
            await admin.create_user(target, user.username, user.password, user_type=user.user_type)
        else:
            await admin.update_user(
                target,
                user.username,
                password=user.password,
                user_type=user.user_type,
                user_status=user.user_status,
            )
        echo(f"copy user of {user.username} from {source} to {target} success.")


async def _users_of(admin: AdminTool, broker: str, names: list[str]) -> list[User]:
    if not names:
        return await admin.list_users(broker)
    users = []
    for name in names:
        user = await admin.get_user(broker, name)
        if user is None:
            raise NotFoundError(f"{broker} has no user {name!r}")
        users.append(user)
    return users


async def create_acl(admin: AdminTool, args: Arguments) -> None:
    entries = _entries(args)
    for address in await _replicas(admin, args):
        await admin.create_acl(address, args.text("subject"), entries)
        echo(f"create acl to {address} success.")


async def update_acl(admin: AdminTool, args: Arguments) -> None:
    entries = _entries(args)
    for address in await _replicas(admin, args):
        await admin.update_acl(address, args.text("subject"), entries)
        echo(f"update acl to {address} success.")


def _entries(args: Arguments) -> list[AclEntry]:
    """The same for each of the resources."""
    source_ips = _parts(args.maybe("sourceIp"))
    return [
        AclEntry(
            resource=resource,
            actions=tuple(_parts(args.text("actions"))),
            decision=args.text("decision"),
            source_ips=tuple(source_ips) if source_ips else None,
        )
        for resource in _parts(args.text("resources"))
    ]


async def delete_acl(admin: AdminTool, args: Arguments) -> None:
    for address in await _replicas(admin, args):
        await admin.delete_acl(address, args.text("subject"), args.maybe("resource") or "")
        echo(f"delete acl to {address} success.")


async def get_acl(admin: AdminTool, args: Arguments) -> None:
    for address in (await args.masters(admin)).values():
        found = await admin.get_acl(address, args.text("subject"))
        if found is not None:
            _show_acls([found])


async def list_acl(admin: AdminTool, args: Arguments) -> None:
    subject, resource = args.maybe("subject") or "", args.maybe("resource") or ""
    for address in (await args.masters(admin)).values():
        found = await admin.list_acls(address, subject_part=subject, resource_part=resource)
        if found:
            _show_acls(found)
            break


def _show_acls(acls: Iterable[Acl]) -> None:
    row = "{:<16}  {:<10}  {:<22}  {:<20}  {:<24}  {:<10}"
    echo(row.format("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision"))
    for acl in acls:
        for kind, entry in acl.entries:
            actions, ips = java_text(entry.actions), java_text(entry.source_ips)
            echo(row.format(acl.subject, kind, entry.resource, actions, ips, entry.decision))


async def copy_acl(admin: AdminTool, args: Arguments) -> None:
    source, target = args.text("fromBroker"), args.text("toBroker")
    subjects = _parts(args.maybe("subjects"))
    acls = [await admin.get_acl(source, subject) for subject in subjects] if subjects else await admin.list_acls(source)
    for number, acl in enumerate(acls):
        if acl is None:
            raise NotFoundError(f"{source} has no policy of {subjects[number]!r}")
        await admin.copy_acl(target, acl)
        echo(f"copy acl of {acl.subject} from {source} to {target} success.")


def _password(args: Arguments) -> str:
    given = args.maybe("password")
    return secret_argument(given, "password") if given else ""


async def _replicas(admin: AdminTool, args: Arguments) -> list[str]:
    """Masters and slaves: nothing copies users from one to the other."""
    return await admin.replicas(cluster=args.maybe("clusterName"), broker=args.maybe("brokerAddr"))


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


# Accounts of ACL 1.0: a YAML file on each broker


async def update_acl_config(admin: AdminTool, args: Arguments) -> None:
    account = PlainAccount(
        access_key=args.text("accessKey"),
        secret_key=secret_argument(args.text("secretKey"), "secret key"),
        white_remote_address=args.maybe("whiteRemoteAddress") or "",
        is_admin=args.truth("admin"),
        default_topic_perm=args.maybe("defaultTopicPerm") or "",
        default_group_perm=args.maybe("defaultGroupPerm") or "",
        topic_perms=tuple(_parts(args.maybe("topicPerms"))),
        group_perms=tuple(_parts(args.maybe("groupPerms"))),
    )
    for address in await _replicas(admin, args):
        await admin.update_acl_account(address, account)
        echo(f"create or update plain access config to {address} success.")
    _show_account(replace(account, secret_key=MASK))


async def delete_acl_config(admin: AdminTool, args: Arguments) -> None:
    access_key = args.text("accessKey")
    for address in await _replicas(admin, args):
        await admin.delete_acl_account(address, access_key)
        echo(f"delete plain access config account from {address} success.")
    echo(f"account's accesskey is:{access_key}")


async def update_global_white_addr(admin: AdminTool, args: Arguments) -> None:
    addresses, file = _parts(args.text("globalWhiteRemoteAddresses")), args.maybe("aclFileFullPath") or ""
    for address in await _replicas(admin, args):
        await admin.set_global_white_addresses(address, addresses, file=file)
        echo(f"update global white remote addresses to {address} success.")


async def cluster_acl_config_version(admin: AdminTool, args: Arguments) -> None:
    row = "{:<16}  {:<22}  {:<22}  {:<20}  {:<22}  {:<22}"
    titles = ("#Cluster Name", "#Broker Name", "#Broker Addr", "#AclFilePath", "#AclConfigVersionNum")
    echo(row.format(*titles, "#AclLastUpdateTime"))
    table = (await admin.cluster_info()).broker_addr_table
    for name, address in (await args.masters(admin)).items():
        cluster = table[name].cluster if name in table else ""
        for version in await admin.acl_file_versions(address):
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.timestamp_ms // 1000))
            echo(row.format(cluster, name, address, version.path, version.counter, when))
    echo("get cluster's plain access config version success.")


async def get_acl_config(admin: AdminTool, args: Arguments) -> None:
    for address in (await args.masters(admin)).values():
        white_list, accounts = await admin.acl_config(address)
        echo(f"\nglobalWhiteRemoteAddresses: {java_text(white_list)}\n\naccounts:")
        for number, account in enumerate(accounts):
            if number:
                echo()
            _show_account(account if args.truth("showSecrets") else replace(account, secret_key=MASK))


def _show_account(account: PlainAccount) -> None:
    fields = {
        "accessKey": account.access_key,
        "secretKey": account.secret_key,
        "whiteRemoteAddress": account.white_remote_address,
        "admin": java_text(account.is_admin),
        "defaultTopicPerm": account.default_topic_perm,
        "defaultGroupPerm": account.default_group_perm,
        "topicPerms": java_text(account.topic_perms) if account.topic_perms else "",
        "groupPerms": java_text(account.group_perms) if account.group_perms else "",
    }
    for name, value in fields.items():
        echo(f"  {name:<18}: {value}")
