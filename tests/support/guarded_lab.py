"""A name server, a controller and a broker that ask who is there; all their secrets are planted ones."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives import serialization

from flaremq.access.control import AccessControl
from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.client.blocking import LoopThread
from flaremq.client.credentials import Credentials
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from tests.support import planted
from tests.support.certificate import make_certificate

ROOT = Credentials(access_key="root-of-all", secret_key=planted.INITIAL)
INNER = Credentials(access_key="inner-servers", secret_key=planted.INNER)
_SMALL = {"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "6000", "maxHashSlotNum": "1000"}
_SMALL |= {"maxIndexNum": "4000", "diskMaxUsedSpaceRatio": "95", "grpcServerPort": "-1"}
_ACCOUNTS = f"""accounts:
- {{accessKey: {ROOT.access_key}, secretKey: {planted.INITIAL}, admin: true}}
- {{accessKey: {INNER.access_key}, secretKey: {planted.INNER}, admin: true}}
- {{accessKey: some-account, secretKey: {planted.PLAIN}, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}}
"""


def write_private(path: Path, text: str) -> str:
    """A file for its owner's eyes only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    return str(path)


class GuardedLab:
    """On a thread of its own, inside of ``with``. ``plain`` takes accounts of ACL 1.0 instead of users; ``root`` may
    everything, and so may ``inner``, as which the servers sign."""

    def __init__(self, folder: Path, *, plain: bool = False, controller: bool = False, **options: str) -> None:
        self.folder = folder
        self.settings = _secrets(folder, plain=plain) | options
        self._wants_controller = controller
        self._thread: LoopThread | None = None
        self.controller: ControllerService | None = None
        self._started: list[NamesrvService | ControllerService | BrokerService] = []

    def __enter__(self) -> Self:
        self._thread = LoopThread("guarded-lab", asyncio.new_event_loop())
        try:
            self._call(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    async def _start(self) -> None:
        own = {"listenPort": "0", "kvConfigPath": str(self.folder / "names" / "kvConfig.json")}
        shared = {name: text for name, text in self.settings.items() if not name.startswith(("ha", "grpc"))}
        self.namesrv = NamesrvService(NamesrvOptions.from_properties(own | shared))
        await self._serve(self.namesrv)
        if self._wants_controller:
            own = {"listenPort": "0", "controllerStorePath": str(self.folder / "controller")}
            self.controller = ControllerService(ControllerOptions.from_properties(own | shared))
            await self._serve(self.controller)
        own = {"listenPort": "0", "namesrvAddr": self.namesrv.address, "brokerName": "broker-a", **_SMALL}
        self.broker = BrokerService(str(self.folder / "store"), *load_options(None, own | self.settings))
        await self._serve(self.broker)

    async def _serve(self, server: NamesrvService | ControllerService | BrokerService) -> None:
        await server.start()
        self._started.append(server)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        assert self._thread is not None
        try:
            while self._started:
                self._call(self._started.pop().stop())
        finally:
            self._thread.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._thread is not None
        self._thread.call(work, 60)

    @property
    def name_server(self) -> str:
        return self.namesrv.address

    def look(self) -> None:
        """Let every server read the files that others have changed, as it does every two seconds."""
        for server in (self.namesrv, self.broker):
            assert server.access is not None
            self._call(server.access.look())

    def audit(self) -> list[dict[str, Any]]:
        """The lines of the broker's audit log, all that was to be written in it."""
        self._call(self.access_of_broker().look())
        path = self.folder / "store" / "flaremq.audit" / "audit.log"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def access_of_broker(self) -> AccessControl:
        assert self.broker.access is not None
        return self.broker.access


def _secrets(folder: Path, *, plain: bool) -> dict[str, str]:
    """Options with every secret that a broker can be told."""
    certificate, key = make_certificate(folder / "tls", "guarded")
    pair = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(planted.TLS.encode())
    key.write_bytes(pair.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    inner = json.dumps({"accessKey": INNER.access_key, "secretKey": INNER.secret_key})
    settings = {
        "innerClientAuthenticationCredentials": inner,
        "haSecretFile": write_private(folder / "secrets" / "ha", planted.HA),
        "tlsCertPath": str(certificate),
        "tlsKeyPath": str(key),
        "tlsKeyPasswordFile": write_private(folder / "secrets" / "tls", planted.TLS),
        "tlsMode": "permissive",
        "tlsTrustPath": str(certificate),
    }
    if plain:
        write_private(folder / "home" / "conf" / "plain_acl.yml", _ACCOUNTS)
        return settings | {"aclEnable": "true", "aclHome": os.fspath(folder / "home")}
    initial = json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key})
    return settings | {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": initial,
        "authConfigPath": os.fspath(folder / "users"),
    }
