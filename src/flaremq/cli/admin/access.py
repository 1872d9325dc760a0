"""``flaremq user`` and ``flaremq acl``: who brokers know, and what those may do (RocketMQ 5's users and policies)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, answer, name_server_option
from flaremq.cli.admin.credentials import secret_argument
from flaremq.cli.parameters import output_option

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_USER_COLUMNS = out.headings("user, type, status, brokers")
_ACL_COLUMNS = out.headings("subject, resource, actions, decision, sourceIps=from, policyType=policy, brokers")
_SUBJECT: Final = re.compile(r"user:.+", re.IGNORECASE)
_RESOURCE: Final = re.compile(r"\*|(?:topic|group|cluster|namespace|any):.+", re.IGNORECASE)
_ACTIONS: Final = ("All", "Any", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
_user_argument = click.argument("name", metavar="USER")
_subject_argument = click.argument("subject", metavar="SUBJECT")
_cluster_option = click.option("--cluster", metavar="NAME", help="Only the brokers of this cluster.")
_password_option = click.option(
    "--password",
    default="-",
    metavar="WHERE",
    help="Where the password is: env:NAME, file:PATH, or - to be asked.  [default: -]",
)


@click.group()
def user() -> None:
    """Users of brokers: list, create, update, delete. Every broker, master or slave, keeps its own."""


@user.command(name="list")
@_cluster_option
@name_server_option
@output_option("jsonl", "json", "table")
def list_users(cluster: str | None, name_servers: str, output: str | None) -> None:
    """The users that brokers know. Passwords are never shown."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        for address in await admin.replicas(cluster=cluster):
            for found in await admin.list_users(address):
                key = (found.username, found.user_type, found.user_status)
                row: dict[str, Any] = {"user": key[0], "type": key[1], "status": key[2], "brokers": []}
                rows.setdefault(key, row)["brokers"].append(address)
        return [rows[key] for key in sorted(rows)]

    out.print_rows(administer(name_servers, work), output, columns=_USER_COLUMNS, title="users")


@user.command(name="create")
@_user_argument
@_password_option
@click.option("--super", "is_super", is_flag=True, help="May do everything.")
@_cluster_option
@name_server_option
@output_option("json", "jsonl", "table")
def create_user(
    name: str, password: str, is_super: bool, cluster: str | None, name_servers: str, output: str | None
) -> None:
    """Make a user at every broker. What it may do says `flaremq acl set`."""
    secret = _password(password)
    kind = "Super" if is_super else "Normal"

    async def work(admin: AdminTool) -> dict[str, Any]:
        brokers = await admin.replicas(cluster=cluster)
        for address in brokers:
            await admin.create_user(address, name, secret, user_type=kind)
        return {"user": name, "type": kind, "brokers": brokers}

    record = administer(name_servers, work)
    answer(f"user {name} is created on {_brokers(record)}", record, output)


@user.command(name="update")
@_user_argument
@click.option("--password", metavar="WHERE", help="A new one: env:NAME, file:PATH, or - to be asked.")
@click.option("--type", "kind", type=click.Choice(["Super", "Normal"]), help="A new type.")
@click.option("--enable/--disable", "is_enabled", default=None, help="Whether the user is believed.")
@_cluster_option
@name_server_option
@output_option("json", "jsonl", "table")
def update_user(
    name: str,
    password: str | None,
    kind: str | None,
    is_enabled: bool | None,
    cluster: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """Change the password, type or status of a user at every broker."""
    secret = _password(password) if password is not None else ""
    status = "" if is_enabled is None else "enable" if is_enabled else "disable"

    async def work(admin: AdminTool) -> dict[str, Any]:
        brokers = await admin.replicas(cluster=cluster)
        for address in brokers:
            await admin.update_user(address, name, password=secret, user_type=kind or "", user_status=status)
        return {"user": name, "brokers": brokers}

    record = administer(name_servers, work)
    answer(f"user {name} is changed on {_brokers(record)}", record, output)


@user.command(name="delete")
@_user_argument
@_cluster_option
@name_server_option
@output_option("json", "jsonl", "table")
def delete_user(name: str, cluster: str | None, name_servers: str, output: str | None) -> None:
    """Forget a user and its policies at every broker."""

    async def work(admin: AdminTool) -> dict[str, Any]:
        brokers = await admin.replicas(cluster=cluster)
        for address in brokers:
            await admin.delete_user(address, name)
        return {"user": name, "brokers": brokers}

    record = administer(name_servers, work)
    answer(f"user {name} is deleted on {_brokers(record)}", record, output)


@click.group()
def acl() -> None:
    """What users may do: list, set, delete."""


@acl.command(name="list")
@click.option("--subject", default="", metavar="TEXT", help="Only subjects that contain this, as in User:app.")
@click.option("--resource", default="", metavar="TEXT", help="Only resources that contain this.")
@_cluster_option
@name_server_option
@output_option("jsonl", "json", "table")
def list_acls(subject: str, resource: str, cluster: str | None, name_servers: str, output: str | None) -> None:
    """The policies of all users."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for address in await admin.replicas(cluster=cluster):
            for found in await admin.list_acls(address, subject_part=subject, resource_part=resource):
                for kind, entry in found.entries:
                    row = {
                        "subject": found.subject,
                        "resource": entry.resource,
                        "actions": list(entry.actions),
                        "decision": entry.decision,
                        "sourceIps": None if entry.source_ips is None else list(entry.source_ips),
                        "policyType": kind,
                    }
                    rows.setdefault(str(row), row | {"brokers": []})["brokers"].append(address)
        return list(rows.values())

    out.print_rows(administer(name_servers, work), output, columns=_ACL_COLUMNS, title="policies")


@acl.command(name="set")
@_subject_argument
@click.argument("resource", metavar="RESOURCE")
@click.argument("actions", metavar="ACTIONS")
@click.option("--deny", "is_denied", is_flag=True, help="Deny instead of allow.")
@click.option("--from", "addresses", multiple=True, metavar="ADDR", help="Only from this address or network; repeat.")
@_cluster_option
@name_server_option
@output_option("json", "jsonl", "table")
def set_acl(
    subject: str,
    resource: str,
    actions: str,
    is_denied: bool,
    addresses: tuple[str, ...],
    cluster: str | None,
    name_servers: str,
    output: str | None,
) -> None:
    """Allow SUBJECT (User:app) ACTIONS (Pub,Sub) on RESOURCE (Topic:orders, Group:g*, *) at every broker."""
    _check_subject(subject)
    _check_resource(resource)
    wanted = _named_actions(actions)

    async def work(admin: AdminTool) -> dict[str, Any]:
        from flaremq.client.admin.access import AclEntry

        entry = AclEntry(
            resource=resource,
            actions=wanted,
            decision="Deny" if is_denied else "Allow",
            source_ips=addresses or None,
        )
        brokers = await admin.replicas(cluster=cluster)
        for address in brokers:
            await admin.create_acl(address, subject, [entry])
        return {"subject": subject, "resource": resource, "actions": list(entry.actions), "brokers": brokers}

    record = administer(name_servers, work)
    answer(f"policy of {subject} for {resource} is set on {_brokers(record)}", record, output)


@acl.command(name="delete")
@_subject_argument
@click.argument("resource", metavar="[RESOURCE]", required=False)
@_cluster_option
@name_server_option
@output_option("json", "jsonl", "table")
def delete_acl(subject: str, resource: str | None, cluster: str | None, name_servers: str, output: str | None) -> None:
    """Forget what is allowed or denied to SUBJECT, for one RESOURCE or all of them."""
    _check_subject(subject)

    async def work(admin: AdminTool) -> dict[str, Any]:
        brokers = await admin.replicas(cluster=cluster)
        for address in brokers:
            await admin.delete_acl(address, subject, resource or "")
        return {"subject": subject, "resource": resource, "brokers": brokers}

    record = administer(name_servers, work)
    answer(f"policy of {subject} is deleted on {_brokers(record)}", record, output)


# Brokers answer such mistakes with "An system error occurred" and "The actions is empty.", RocketMQ's sentences.
def _check_subject(subject: str) -> None:
    if not _SUBJECT.fullmatch(subject):
        raise click.UsageError(f"{subject!r} is no subject: write User:{'NAME' if ':' in subject else subject}")


def _check_resource(resource: str) -> None:
    if not _RESOURCE.fullmatch(resource):
        raise click.UsageError(f"{resource!r} is no resource: write Topic:NAME, Group:NAME, Cluster:NAME or *")


def _named_actions(text: str) -> tuple[str, ...]:
    actions = tuple(part.strip() for part in text.split(",") if part.strip())
    for action in actions:
        if action.capitalize() not in _ACTIONS:
            raise click.UsageError(f"{action!r} is no action: there are {', '.join(_ACTIONS)}")
    if not actions:
        raise click.UsageError(f"ACTIONS names no action: there are {', '.join(_ACTIONS)}")
    return actions


def _brokers(record: dict[str, Any]) -> str:
    return ", ".join(record["brokers"])


def _password(place: str) -> str:
    from flaremq.secret_place import names_a_secret

    if place != "-" and not names_a_secret(place):
        raise click.UsageError(
            "--password takes no password, because everybody could read it in the list of processes: write env:NAME, "
            "file:PATH, or - to be asked."
        )
    return secret_argument(place, "password")
