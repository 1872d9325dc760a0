"""Access control: what signed sends cost beside RocketMQ 4.9.7 with its ACL, and beside ours without any.

All brokers run at the same time and are idle while another one is measured; RocketMQ's Java client of 5.5.0 drives them
and signs where it is asked to, with JSON headers: 4.9.7 refuses its own signature of a binary header that has an empty
field. Then accounts with ten entries (ACL 1.0) or policies (users of RocketMQ 5) and with ten thousand; and the p99 of
one honest sender, quiet and beside a thousand connections that never finish a TLS handshake or a frame.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from pathlib import Path

from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from benchmarks.wire.client import WireClient
from flaremq.access.users.changes import create_user, put_acl
from flaremq.access.users.user_store import UserStore
from tests.interop.wire import servers
from tests.support.certificate import make_certificate

_VERSION = "4.9.7"
_REAL = f"rocketmq-{_VERSION}"
_JVM = ("-Xms3g", "-Xmx3g", "-XX:+UseG1GC")
_KEY, _SECRET = "benchmark-admin", "benchmark-secret"
_QUEUES = 16
_THREADS = 64
_SILENT = 1_000
_WANTED = 1.2
_WANTED_OF_OPEN = 0.7
_FEW, _MANY = 10, 10_000
_WANTED_OF_TEN = 0.9  # ten thousand entries cost at most a tenth more than ten
_WANTED_QUIET = 0.5  # p99 at most twice the quiet one
_OPTIONS: Mapping[str, str] = {"flushDiskType": "ASYNC_FLUSH"}


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return servers.why_not(_REAL)


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """Measure everything; one outcome a measurement, as ``rounds.run_all`` yields them."""
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        sides = {
            OURS: stack.enter_context(_ours(root / "ours", _acl(root / "ours", 0))),
            _VERSION: stack.enter_context(_theirs(root / "theirs")),
            "without access control": stack.enter_context(_ours(root / "open", {})),
        }
        for word, make in (("entries", _acl), ("policies", _auth)):
            for number in (_FEW, _MANY):
                place = root / f"{word}-{number}"
                sides[f"{number:,} {word}"] = stack.enter_context(_ours(place, make(place, number)))
        client = stack.enter_context(WireClient(root / "client", header="JSON"))
        load = _Load(settings, client, sides)
        rounds = settings.wire_rounds
        name = f"signed sends 1 KB, {_THREADS} threads, ASYNC"
        yield turns(name, _figures(name, _WANTED), rounds, (OURS, _VERSION), load.signed)
        name = "signed sends beside ours without access control"
        yield turns(name, _figures(name, _WANTED_OF_OPEN), rounds, (OURS, "without access control"), load.signed)
        for word in ("entries", "policies"):
            few, many = f"{_FEW:,} {word}", f"{_MANY:,} {word}"
            name = f"an account with {many} beside one with {few}"
            measure = partial(load.as_app, {OURS: many, few: few})
            yield turns(name, _figures(name, _WANTED_OF_TEN), rounds, (OURS, few), measure)
    yield from _silent(settings, folder)


def _silent(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        certificate, key = make_certificate(root)
        tls = {"tlsMode": "permissive", "tlsCertPath": str(certificate), "tlsKeyPath": str(key)}
        target = stack.enter_context(_ours(root / "ours", {**_acl(root / "ours", 0), **tls}))
        client = stack.enter_context(WireClient(root / "client", header="JSON"))
        load = _Load(settings, client, {OURS: target, "quiet": target})
        name = f"p99 beside {_SILENT:,} connections that never finish TLS or a frame, 1 sender"
        figure = Figure(
            label=name, unit="us", ours="p99_us", theirs="p99_us", less_is_better=True, wanted_ratio=_WANTED_QUIET
        )

        def measure(side: str) -> Row:
            with ExitStack() as silent:
                if side == OURS:
                    for number in range(_SILENT):
                        silent.enter_context(closing(_half_open(target.broker, is_tls=bool(number % 2))))
                return load.signed(side, threads=1)

        yield turns(name, (figure,), settings.wire_rounds, (OURS, "quiet"), measure)


def _half_open(address: str, *, is_tls: bool) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    if is_tls:
        context = ssl.create_default_context()
        hello = ssl.MemoryBIO()
        client = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            connection.sendall(hello.read())  # and nothing more
    else:
        connection.sendall(b"\x00\x00\x10\x00\x00\x00\x01\x00{")  # a frame of 4 KiB that does not come
    return connection


class _Load:
    """Sends to any of the servers, as the administrator or as an account with entries."""

    def __init__(self, settings: Settings, client: WireClient, sides: Mapping[str, servers.Servers]) -> None:
        self._settings = settings
        self._client = client
        self._sides = sides
        for target in dict.fromkeys(sides.values()):
            arguments = {"namesrv": target.name_server, "topic": "bench", "accessKey": _KEY, "secretKey": _SECRET}
            client.run("topic", target.pids, **arguments, queues=_QUEUES)
            warm = settings.wire_prepare_seconds
            client.run("send", target.pids, **arguments, threads=32, size=1024, warm=warm, seconds=1)

    def signed(self, side: str, threads: int = _THREADS) -> Row:
        is_open = side == "without access control"
        account = {} if is_open else {"accessKey": _KEY, "secretKey": _SECRET}
        return self._send(self._sides[side], account, threads)

    def as_app(self, names: Mapping[str, str], side: str) -> Row:
        account = {"accessKey": "benchmark-app", "secretKey": _SECRET}
        return self._send(self._sides[names[side]], account, _THREADS)

    def _send(self, target: servers.Servers, account: Mapping[str, str], threads: int) -> Row:
        return self._client.run(
            "send",
            [target.broker_pid],
            namesrv=target.name_server,
            topic="bench",
            threads=threads,
            size=1024,
            warm=self._settings.wire_warm_seconds,
            seconds=self._settings.wire_seconds,
            **account,
        )


def _figures(label: str, wanted: float) -> tuple[Figure, ...]:
    return (
        Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=wanted),
        Figure(label="  p99", unit="us", ours="p99_us", theirs="p99_us", less_is_better=True),
        Figure(
            label="  broker's CPU per send",
            unit="us",
            ours="server_us_per_message",
            theirs="server_us_per_message",
            less_is_better=True,
        ),
    )


def _acl(folder: Path, entries: int) -> dict[str, str]:
    """Options of ours that turn the ACL on, and the file with its accounts."""
    home = folder / "acl-home"
    _write_accounts(home / "conf" / "plain_acl.yml", entries)
    return {"aclEnable": "true", "aclHome": str(home)}


def _auth(folder: Path, entries: int) -> dict[str, str]:
    """Options of ours that ask for users of RocketMQ 5, and the file with them and their policies."""
    place = folder / "users"
    resources = ["Topic:bench", *(f"Topic:other-{number}" for number in range(entries - 1))]
    policy = [{"resource": resource, "actions": ["Pub"], "decision": "Allow"} for resource in resources]
    acl = {"subject": "User:benchmark-app", "policies": [{"policyType": "Custom", "entries": policy}]}
    store = UserStore(place)
    store.change(lambda tables: create_user(tables, _KEY, {"password": _SECRET, "userType": "Super"}))
    store.change(lambda tables: create_user(tables, "benchmark-app", {"password": _SECRET}))
    store.change(lambda tables: put_acl(tables, "User:benchmark-app", acl))
    own = place / "own.json"
    own.touch(mode=0o600)
    own.write_text(json.dumps({"accessKey": _KEY, "secretKey": _SECRET}))
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authConfigPath": str(place),
        "innerClientAuthenticationCredentials": f"file:{own}",
    }


def _write_accounts(path: Path, entries: int) -> None:
    lines = ["accounts:", f"- accessKey: {_KEY}", f"  secretKey: {_SECRET}", "  admin: true"]
    if entries:
        lines += ["- accessKey: benchmark-app", f"  secretKey: {_SECRET}", "  topicPerms:", "  - bench=PUB"]
        lines += [f"  - other-{number}=PUB" for number in range(entries - 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)


def _ours(folder: Path, access: Mapping[str, str]) -> AbstractContextManager[servers.Servers]:
    return servers.started("flaremq+flaremq", folder, options={**_OPTIONS, **access})


def _theirs(folder: Path) -> AbstractContextManager[servers.Servers]:
    _write_accounts(folder / "home" / "conf" / "plain_acl.yml", 0)
    return servers.started(_REAL, folder, options={**_OPTIONS, "aclEnable": "true"}, flags=_JVM)
