"""Orders to name servers in RocketMQ's own spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool


async def wipe_write_perm(admin: AdminTool, given: Given) -> None:
    name = given.text("brokerName")
    for address, count in (await admin.change_write_permission(name, is_added=False)).items():
        say(f"wipe write perm of broker[{name}] in name server[{address}] OK, {count}")


async def add_write_perm(admin: AdminTool, given: Given) -> None:
    name = given.text("brokerName")
    for address, count in (await admin.change_write_permission(name, is_added=True)).items():
        say(f"add write perm of broker[{name}] in name server[{address}] OK, {count}")


async def get_namesrv_config(admin: AdminTool, given: Given) -> None:
    for address, values in (await admin.name_server_config()).items():
        say(f"============{address}============")
        for name, value in values.items():
            say(f"{name:<50}=  {value}")


async def update_namesrv_config(admin: AdminTool, given: Given) -> None:
    name, value = given.text("key"), given.text("value")
    await admin.set_name_server_config({name: value})
    say(f"update name server config success![{', '.join(admin.name_servers)}]")
    say(f"{name} : {value}")


async def update_kv_config(admin: AdminTool, given: Given) -> None:
    await admin.put_kv_config(given.text("namespace"), given.text("key"), given.text("value"))
    say("create or update kv config to namespace success.")


async def delete_kv_config(admin: AdminTool, given: Given) -> None:
    await admin.delete_kv_config(given.text("namespace"), given.text("key"))
    say("delete kv config from namespace success.")
