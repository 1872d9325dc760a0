"""``python -m tests.support.audited_broker ROOT``: a broker and a name server at work under ``sys.addaudithook``.

Friendly and hostile requests alike must not start a process, run code that is no module being imported, touch a file
outside of the store's root, or listen or connect anywhere but on the loopback. What did happen is printed, a line each.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import site
import sys
import sysconfig
from typing import Any

_PROCESS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn", "os.startfile")
_CODE = ("exec", "compile", "pickle.find_class", "marshal.loads", "code.__new__", "function.__new__")
_CHANGES = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.chmod",
    "shutil.",
)
_READ_ONLY = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Audit:
    """Collects what must not happen."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        python = [sys.prefix, sys.base_prefix, *site.getsitepackages(), *sysconfig.get_paths().values(), *sys.path]
        self._readable = tuple(os.path.realpath(path) + os.sep for path in python if path)
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}
        self.active = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        self.counts[event] = self.counts.get(event, 0) + 1
        if event.startswith(_PROCESS):
            self._note(event, arguments)
        elif event in _CODE:
            if not _importing():
                self._note(event, arguments)
        elif event == "open":
            self._check_open(*arguments)
        elif event.startswith(_CHANGES):
            for path in arguments[:2]:
                if not isinstance(path, str | bytes | os.PathLike) or "__pycache__" in os.fsdecode(path):
                    continue
                if not self._inside(path):
                    self._note(event, arguments)
        elif event in ("socket.bind", "socket.connect"):
            host = arguments[1][0] if isinstance(arguments[1], tuple) else ""
            if not (host and ipaddress.ip_address(host).is_loopback):
                self._note(event, arguments[1:])

    def _check_open(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int) or self._inside(path):
            return
        writes = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or (
            isinstance(flags, int) and flags & _READ_ONLY
        )
        real = os.path.realpath(os.fsdecode(path))
        if f"{os.sep}__pycache__" in real and real.startswith(self._readable):
            return  # what Python keeps beside the sources
        system = real.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/usr/"))
        if writes or not (system or real.startswith(self._readable)):
            self._note("open", (path, mode, flags))

    def _inside(self, path: Any) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        return real == self.root or real.startswith(self.root + os.sep)

    def _note(self, event: str, arguments: object) -> None:
        self.violations.append(f"{event} {str(arguments)[:300]}")


def _importing() -> bool:
    """Whether a module is being imported further down the stack."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


async def work(path: str, audit: Audit) -> None:
    """A little of everything."""
    from flaremq.clock import SystemClock
    from flaremq.protocol.codes import RequestCode
    from tests.support.broker_lab import UNIQUE, BrokerLab, pull_fields
    from tests.support.hostile_names import NAMES, requests_with_names

    async with BrokerLab(path=path, clock=SystemClock(), enablePropertyFilter=True) as lab:
        for number in range(50):
            await lab.send("orders", bytes(30_000), queue_id=number % 4, properties=f"KEYS\x01k\x02{UNIQUE}")
        await lab.send("orders", properties=f"DELAY\x011\x02{UNIQUE}")
        await lab.pull("orders")
        await lab.pull("orders", subscription="a > 1", expressionType="SQL92")
        await lab.ask(
            RequestCode.QUERY_MESSAGE,
            {"topic": "orders", "key": "k", "maxNum": 4, "beginTimestamp": 0, "endTimestamp": 2**62},
        )
        await lab.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "g", "topic": "orders", "queueId": 0, "commitOffset": 1},
        )
        for code in (21, 25, 26, 28, 43, 201, 306, 316, 329):
            await lab.ask(code, {}, b"storePathRootDir=/evil\n" if code == 25 else b"")
        for which, request in requests_with_names(NAMES[:8]):
            address = lab.address if which == "broker" else lab.ephemeral.name_server
            try:
                await lab.client.request(address, request, 0.5)
            except Exception:
                continue  # closed, or waiting: what it did counts
        await lab.ask(RequestCode.PULL_MESSAGE, pull_fields("orders", 0, group="g", queue_id=0))
        await lab.send("orders")


def main() -> None:
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    audit = Audit(root)
    sys.addaudithook(audit)
    audit.active = True
    asyncio.run(work(os.path.join(root, "store"), audit))
    audit.active = False
    for violation in audit.violations:
        print(violation)
    print(f"audited {sum(audit.counts.values())} events, {audit.counts.get('open', 0)} opens")


if __name__ == "__main__":
    main()
