"""Every port of every server: nobody is answered without a name, and nobody changes by a request what decides that."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.access.authority import Row
from flaremq.access.guard import Guard
from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions, load_options
from flaremq.broker.service import BrokerService
from flaremq.controller.options import ControllerOptions
from flaremq.controller.service import ControllerService
from flaremq.errors import InvalidArgumentError
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.service import NamesrvService
from flaremq.options import rows
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.frame import encode_frame
from flaremq.proxy.options import ProxyOptions
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.options import StoreOptions
from tests.access.attack_lab import Lab, Raw, asked, lab, secret_of
from tests.support.guarded_lab import GuardedLab

_CODES = sorted({*map(int, RequestCode), *range(0, 1100), *range(3000, 3020), *range(200050, 200160)})
_ACCESS = AccessOptions(
    authentication_enabled=True,
    authorization_enabled=True,
    init_authentication_user=f'{{"username":"root","password":"{secret_of("root")}"}}',
)


@asynccontextmanager
async def _ports(folder: Path) -> AsyncIterator[tuple[Lab, dict[str, int]]]:
    namesrv = NamesrvService(
        NamesrvOptions(listen_port=0, kv_config_path=str(folder / "names" / "kvConfig.json"), access=_ACCESS)
    )
    controller = ControllerService(
        ControllerOptions(listen_port=0, controller_store_path=str(folder / "controller"), access=_ACCESS)
    )
    async with lab(folder) as found:
        await namesrv.start()
        await controller.start()
        try:
            ports = {"broker": found.broker.port, "VIP": found.broker.port - 2}
            yield found, ports | {"name server": namesrv.port, "controller": controller.port}
        finally:
            found.close()
            await controller.stop()
            await namesrv.stop()


async def _answers(raw: Raw, user: str | None) -> dict[int, int]:
    """The code of the answer to each request without fields."""
    found: dict[int, int] = {}
    for at in range(0, len(_CODES), 100):
        for number, code in enumerate(_CODES[at : at + 100]):
            command = asked(user, code)
            command.opaque = at + number
            raw.writer.write(encode_frame(command))
        count = len(_CODES[at : at + 100])
        found |= {_CODES[opaque]: reply.code for opaque, reply in (await raw.replies(count)).items()}
    return found


def test_no_code_of_any_server_is_answered_without_a_signature(tmp_path: Path) -> None:
    async def run() -> None:
        async with _ports(tmp_path) as (found, ports):
            for name, port in ports.items():
                raw = await found.connect(port)
                assert set((await _answers(raw, None)).values()) == {16}, name
                raw = await found.connect(port)
                assert set((await _answers(raw, "nobody")).values()) == {16}, name

    asyncio.run(run())


@pytest.mark.parametrize("plain", [False, True], ids=["users", "accounts of 1.0"])
def test_every_code_that_a_server_answers_has_a_row(
    plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers in a group of a controller included; a code without a row would be for Super users alone."""
    seen: list[tuple[Mapping[int, Row], HandlerTable]] = []
    install = Guard.install

    def noting(guard: Guard, table: HandlerTable) -> None:
        install(guard, table)
        seen.append((guard._rows, table))

    monkeypatch.setattr(Guard, "install", noting)
    with GuardedLab(tmp_path, plain=plain, controller=True) as guarded:
        assert guarded.controller is not None
        group = {"enableControllerMode": "true", "controllerAddr": guarded.controller.address, "listenPort": "0"}

        async def controlled() -> None:
            broker = BrokerService(tmp_path / "member", *load_options(None, guarded.settings | group))
            await broker.start()
            await broker.stop()

        asyncio.run(controlled())
    assert [len(table.entries) > 10 for _, table in seen] == [True] * 4
    assert [sorted(table.entries.keys() - rows.keys()) for rows, table in seen] == [[]] * 4


_OPTION_CODES = {"broker": 25, "VIP": 25, "name server": 318, "controller": 1009}
_LAYERS: dict[str, tuple[type, ...]] = {
    "broker": (BrokerOptions, StoreOptions, RemotingOptions, AccessOptions),
    "VIP": (BrokerOptions, AccessOptions),
    "name server": (NamesrvOptions, RemotingOptions, AccessOptions),
    "controller": (ControllerOptions, RemotingOptions, AccessOptions),
}


def _other(value: Any, current: str | None) -> str:
    """Another value than the present one."""
    if isinstance(value, bool):
        return "false" if current == "true" else "true"
    return str(value + 1 if isinstance(value, int) else "/tmp/x")


def test_no_option_that_is_fixed_is_changed_over_the_wire_not_even_by_root(tmp_path: Path) -> None:
    """One by one, and together with one that may be changed, which then is not either."""

    async def run() -> None:
        async with _ports(tmp_path) as (found, ports):
            for name, code in _OPTION_CODES.items():
                raw = await found.connect(ports[name])
                before = (await raw.ask(asked("root", code + 1))).body_bytes
                current = dict(line.split("=", 1) for line in before.decode().splitlines())
                every = [row for layer in _LAYERS[name] for row in rows(layer)]
                free = next(row for row in every if row.live and isinstance(row.default, bool))
                for row in every:
                    if row.live:
                        continue
                    text = f"{free.key}={_other(free.default, current.get(free.key))}\n"
                    text += f"{row.key}={_other(row.default, current.get(row.key))}\n"
                    reply = await raw.ask(asked("root", code, {"n": row.key}, text.encode()))
                    assert reply.code == 16, (name, row.key, reply.code, reply.remark)
                if name != "broker":  # what a broker tells has its clock in it
                    assert (await raw.ask(asked("root", code + 1))).body_bytes == before, name

    asyncio.run(run())


_DANGEROUS = {"path", "addr", "address", "addresses", "class", "home", "secret", "password", "tls", "auth", "bind"}
_DANGEROUS |= {"acl", "authentication", "authorization", "port", "command", "user", "credentials", "insecure", "ip1"}


@pytest.mark.parametrize("layer", sorted({layer for layers in _LAYERS.values() for layer in layers}, key=str))
def test_what_may_be_changed_is_no_path_no_address_no_credential_and_no_switch_of_security(layer: type) -> None:
    for row in rows(layer):
        if row.live and row.key != "connectionsPerAddressMax":
            words = {word.lower() for word in re.findall(r"[A-Za-z][a-z0-9]*", row.key)}
            assert not words & _DANGEROUS, row.key
            assert not row.secret, row.key
            assert row.choices or row.pattern or not isinstance(row.default, str) or row.key == "deleteWhen", row.key


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "10.0.0.1", "localhost", "::ffff:10.0.0.1", "127.0.0.1.evil"])
def test_no_server_lets_other_machines_in_by_an_oversight(address: str, tmp_path: Path) -> None:
    for make in (
        lambda: BrokerOptions(bind_address=address),
        lambda: NamesrvOptions(bind_address=address),
        lambda: ControllerOptions(bind_address=address, controller_store_path=str(tmp_path)),
        lambda: ProxyOptions(bind_address=address),
    ):
        with pytest.raises(InvalidArgumentError, match="bindAddress"):
            make()


def test_no_proxy_lends_its_account_to_everybody_by_an_oversight() -> None:
    """Its brokers ask who is there and hear of the proxy only."""
    own = AccessOptions(inner_client_authentication_credentials='{"accessKey":"inner","secretKey":"a-secret-of-it"}')
    with pytest.raises(InvalidArgumentError, match="innerClientAuthenticationCredentials") as caught:
        ProxyOptions(access=own)
    assert "a-secret" not in str(caught.value)
    ProxyOptions(access=own, insecure_bind_enable=True)
    ProxyOptions(access=replace(own, authentication_enabled=True))
