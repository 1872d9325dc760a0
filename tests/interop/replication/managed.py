"""Real brokers in controller mode under a controller of ours, by their ids; and RocketMQ's own mqadmin to look at it.

with Managed(folder) as group:
    group.start()
    group.mqadmin("getSyncStateSet", "-a", group.controller, "-b", BROKER_NAME)
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.interop import jvm
from tests.interop.replication.controller_group import ControllerGroup
from tests.interop.replication.group import Member

VERSION = "5.5.0"
_COMMAND_S = 60.0


class Managed(ControllerGroup):
    """Two brokers of RocketMQ; the first one that is started has id 1 and is elected."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"rocketmq-{VERSION}+rocketmq-{VERSION}", folder, controller="flaremq")
        self._home = folder / "tool"

    def start_brokers(self) -> None:
        for broker_id, (member, relay) in enumerate(zip(self.members, self.relays, strict=True), 1):
            if not member.is_running:
                member.start(relay.address)
                self.wait(f"broker {broker_id}", lambda number=broker_id: number in self.alive())

    def broker(self, broker_id: int) -> Member:
        return self.members[broker_id - 1]

    @property
    def master_id(self) -> int:
        return int(self.state().get("masterBrokerId", -1))

    def in_sync(self) -> set[int]:
        return {int(row["brokerId"]) for row in self.state().get("inSyncReplicas", [])}

    def known(self) -> set[int]:
        return self.in_sync() | {int(row["brokerId"]) for row in self.state().get("notInSyncReplicas", [])}

    def alive(self) -> set[int]:
        found = self.state()
        rows = [*found.get("inSyncReplicas", []), *found.get("notInSyncReplicas", [])]
        return {int(row["brokerId"]) for row in rows if row["alive"]}

    def mqadmin(self, *words: str) -> str:
        """What RocketMQ's own tool prints."""
        self._home.mkdir(exist_ok=True)
        logback = self._home / "logback.xml"
        logback.write_text("<configuration/>")
        command = ["java", *jvm.SHORT_LIVED, *jvm.OPENED_INTERNALS, f"-Duser.home={self._home}"]
        command += [f"-Drmq.logback.configurationFile={logback}", "-cp", f"{jvm.jar_folder(f'{VERSION}-servers')}/*"]
        done = subprocess.run(
            [*command, "org.apache.rocketmq.tools.command.MQAdminStartup", *words],
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
            env={**os.environ, "ROCKETMQ_HOME": str(self._home), "NAMESRV_ADDR": self.name_server},
        )
        return done.stdout + done.stderr
