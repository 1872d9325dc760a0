"""A home folder with ACL files, those of the recorded RocketMQ 4.9.7 if nothing else is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.judge import PlainJudge
from flaremq.clock import ManualClock

PLAIN = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: rocketmq-app
  secretKey: app-secret-1
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - both=PUB|SUB
  - pubOnly=PUB
  - subOnly=SUB
  - denied=DENY
  groupPerms:
  - goodGroup=SUB
  - badGroup=DENY
- accessKey: rocketmq-admin
  secretKey: admin-secret-1
  admin: true
- accessKey: rocketmq-adm2
  secretKey: adm2-secret-1
  admin: true
  topicPerms: [only=PUB]
- accessKey: rocketmq-dflt
  secretKey: dflt-secret-1
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: rocketmq-white
  secretKey: white-secret-1
  whiteRemoteAddress: 127.0.0.*
- accessKey: rocketmq-victim
  secretKey: victim-secret-1
  defaultTopicPerm: PUB
- accessKey: rocketmq-twice
  secretKey: twice-default-1
  defaultTopicPerm: PUB
"""
ONE = """\
accounts:
- {accessKey: rocketmq-dir1, secretKey: dir1-secret-1, defaultTopicPerm: PUB}
- {accessKey: rocketmq-twice, secretKey: twice-dir-1, defaultTopicPerm: PUB}
"""
TWO = "accounts:\n- {accessKey: rocketmq-dir2, secretKey: dir2-secret-1, defaultTopicPerm: PUB}\n"


class AclLab:
    """Files, the store that reads them, and its judge."""

    def __init__(self, home: Path, files: dict[str, str] | None = None) -> None:
        self.home = home
        for name, text in ({"plain_acl.yml": PLAIN} if files is None else files).items():
            self.write(name, text)
        self.clock = ManualClock()
        self.store = PlainAclStore(home, self.clock)
        self.judge = PlainJudge(self.store)

    @classmethod
    def recorded(cls, home: Path) -> AclLab:
        return cls(home, {"plain_acl.yml": PLAIN, "acl/one.yml": ONE, "acl/sub/two.yaml": TWO})

    def path(self, name: str) -> Path:
        return self.home / "conf" / name

    def write(self, name: str, text: str | bytes, *, mode: int = 0o600) -> Path:
        """Replace a file as an editor does; it is never the file it was."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.chmod(new, mode)
        os.replace(new, path)
        return path

    def reopen(self) -> AclLab:
        """What another server would read from the same files."""
        return AclLab(self.home, {})

    def secret(self, key: str) -> str | None:
        account = self.judge.find(key)
        return None if account is None else account.secret.decode()

    def verdict(self, key: str, *needs: Need) -> str:
        """Empty if allowed, else the remark."""
        account = self.judge.find(key)
        assert account is not None
        if account.is_super:
            return ""
        refusal = self.judge.decide(account, needs, "127.0.0.1")
        return "" if refusal is None else refusal.remark


def topic(name: str, *actions: Action) -> Need:
    return Need(ResourceType.TOPIC, name, actions)


def group(name: str, *actions: Action) -> Need:
    return Need(ResourceType.GROUP, name, actions)


def cluster(*actions: Action) -> Need:
    return Need(ResourceType.CLUSTER, "DefaultCluster", actions)
