"""Several controllers on one real etcd: one leads, writes are fenced, and what was saved is there for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import orjson
import pytest

from flaremq.controller.groups import Member, ReplicaGroup
from flaremq.controller.options import ControllerOptions
from flaremq.controller.stores import etcd_client
from flaremq.controller.stores.etcd_client import (
    EtcdAccount,
    EtcdClient,
    EtcdTimeoutError,
    created_at,
    modified_at,
    parse_endpoints,
    put_of,
)
from flaremq.controller.stores.etcd_store import ROOT, EtcdStore
from flaremq.controller.stores.opened import store_of
from flaremq.controller.stores.store import Peer
from flaremq.errors import InvalidArgumentError, UnavailableError
from tests.support.etcd_lab import Etcd, needs_etcd, running_etcd

pytestmark = [needs_etcd, pytest.mark.slow]
LEASE_SECONDS = 2
TLS = Path(__file__).parents[1] / "remoting"  # a certificate for tests only


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


def group(name: str = "broker-a", *, epoch: int = 0) -> ReplicaGroup:
    made = ReplicaGroup(cluster="c", broker_name=name, next_broker_id=2, members={1: Member(1, "127.0.0.1:1", "code")})
    for _ in range(epoch):
        made = made.with_master(1)
    return made


class Candidate:
    """A controller's store, and what it was told."""

    def __init__(self, url: str, name: str, folder: str) -> None:
        self.store = EtcdStore(EtcdClient(url), folder, LEASE_SECONDS)
        self.me = Peer(name, f"127.0.0.1:{name}")
        self.groups: dict[str, ReplicaGroup] | None = None
        self.terms = 0

    async def start(self) -> None:
        await self.store.start(self.me, self._lead, self._follow)

    def _lead(self, groups: Iterable[ReplicaGroup]) -> None:
        self.groups = {found.broker_name: found for found in groups}
        self.terms += 1

    def _follow(self) -> None:
        self.groups = None

    async def leads(self) -> dict[str, ReplicaGroup]:
        """Wait until it leads; what it then knows."""
        while self.groups is None or not self.store.is_leading:
            await asyncio.sleep(0.01)
        return self.groups


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


def test_lease_keys_and_transactions(etcd: Etcd) -> None:
    async def scenario() -> None:
        client = EtcdClient(etcd.url)
        lease = await client.grant_lease(5, 5.0)
        assert await client.keep_alive(lease, 5.0) == 5
        revision = await client.transact([created_at(b"/t/a", 0)], put_of(b"/t/a", b"\x00\xff", lease), 5.0)
        assert revision is not None
        assert await client.transact([created_at(b"/t/a", 0)], put_of(b"/t/a", b"x"), 5.0) is None
        assert await client.transact([modified_at(b"/t/a", revision + 1)], put_of(b"/t/a", b"x"), 5.0) is None
        found = await client.get(b"/t/a", 5.0)
        assert found is not None and (found.value, found.mod_revision) == (b"\x00\xff", revision)
        await client.revoke_lease(lease, 5.0)
        assert await client.get(b"/t/a", 5.0) is None
        assert await client.keep_alive(lease, 5.0) == 0

    run(scenario)


def test_more_keys_than_a_page_are_all_read(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_client, "_PAGE", 3)

    async def scenario() -> None:
        client = EtcdClient(etcd.url)
        for number in range(10):
            await client.transact([], put_of(b"/p/%d" % number, b"v%d" % number), 5.0)
        await client.transact([], put_of(b"/q", b"other"), 5.0)
        assert [entry.value for entry in await client.get_prefix(b"/p/", 5.0)] == [b"v%d" % n for n in range(10)]

    run(scenario)


def test_endpoint_that_is_down_is_passed_over(etcd: Etcd) -> None:
    async def scenario() -> None:
        client = EtcdClient(f"http://127.0.0.1:1,{etcd.url}")
        assert await client.transact([], put_of(b"/e", b"x"), 5.0)
        with pytest.raises(UnavailableError, match="cannot connect"):
            await EtcdClient("http://127.0.0.1:1").get(b"/e", 5.0)

    run(scenario)


@pytest.mark.parametrize("url", ["", "ftp://h:1", "http://", "http://u:p@h:1", "http://h:1/x", "http://h:99999"])
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_endpoints(url)


def test_mute_etcd_is_a_timeout_and_not_a_wait_for_ever() -> None:
    async def scenario() -> None:
        gone = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            gone.set()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(EtcdTimeoutError, match="does not answer"):
            await EtcdClient(url).transact([], put_of(b"/e", b"x"), 0.1)
        await gone.wait()
        server.close()

    run(scenario)


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"x" * 99999]
)
def test_answer_that_is_none_is_an_error(answer: bytes) -> None:
    async def scenario() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(EtcdTimeoutError):
            await EtcdClient(url).get(b"/e", 5.0)
        server.close()

    run(scenario)


def test_one_leads_and_the_other_takes_over_at_once_when_it_stops(etcd: Etcd) -> None:
    async def scenario() -> None:
        one, two = Candidate(etcd.url, "1", "stop"), Candidate(etcd.url, "2", "stop")
        await one.start()
        assert await one.leads() == {}
        await two.start()
        await one.store.save(group(epoch=1))
        await one.store.save(group("broker-b"))
        await one.store.save(group(epoch=2))
        while two.store.leader != one.me:
            await asyncio.sleep(0.01)
        assert not two.store.is_leading
        while set(one.store.peers) != {one.me, two.me}:
            await asyncio.sleep(0.01)
        with pytest.raises(UnavailableError):
            await two.store.save(group(epoch=9))
        await one.store.stop()
        assert await two.leads() == {"broker-a": group(epoch=2), "broker-b": group("broker-b")}
        await two.store.stop()

    run(scenario)


def test_write_of_a_term_that_is_over_does_not_happen(etcd: Etcd) -> None:
    """The leader key is taken away as if the lease had ended while the leader slept: it believes to lead, and fails."""

    async def scenario() -> None:
        one, two = Candidate(etcd.url, "1", "fence"), Candidate(etcd.url, "2", "fence")
        await one.start()
        await one.leads()
        await one.store.save(group(epoch=1))
        await two.start()
        key = f"{ROOT}/fence/leader".encode()
        client = EtcdClient(etcd.url)
        lease = await client.grant_lease(LEASE_SECONDS, 5.0)
        await client.transact([], put_of(key, b'{"id":"1","address":"a"}', lease), 5.0)  # it hangs on another lease
        await client.revoke_lease(lease, 5.0)
        await two.leads()
        assert one.store.is_leading, "it knows nothing yet"
        with pytest.raises(UnavailableError, match="another controller"):
            await one.store.save(group(epoch=9))
        assert not one.store.is_leading
        await two.store.save(group(epoch=2))
        await two.store.stop()
        assert (await one.leads())["broker-a"] == group(epoch=2)
        await one.store.stop()

    run(scenario)


def test_frozen_etcd_ends_the_term_before_the_lease_and_the_state_is_there_afterwards(etcd: Etcd) -> None:
    async def scenario() -> None:
        one = Candidate(etcd.url, "1", "frozen")
        await one.start()
        await one.leads()
        await one.store.save(group(epoch=1))
        etcd.send(signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            while one.store.is_leading:
                await asyncio.sleep(0.01)
            assert loop.time() - began < LEASE_SECONDS
            with pytest.raises(UnavailableError):
                await one.store.save(group(epoch=2))
        finally:
            etcd.send(signal.SIGCONT)
        assert (await one.leads())["broker-a"] == group(epoch=1)
        await one.store.stop()

    run(scenario)


def test_save_without_an_answer_ends_the_term_and_the_next_one_reads_what_is_there(etcd: Etcd) -> None:
    async def scenario() -> None:
        one = Candidate(etcd.url, "1", "unknown")
        await one.start()
        await one.leads()
        await one.store.save(group(epoch=1))
        etcd.pause()
        try:
            with pytest.raises(UnavailableError):
                await one.store.save(group(epoch=2))
        finally:
            etcd.send(signal.SIGCONT)
        # The request waited at etcd's port: it may still be carried out.
        assert (await one.leads())["broker-a"] in (group(epoch=1), group(epoch=2))
        await one.store.save(group(epoch=3))
        await one.store.stop()

    run(scenario)


def test_restarted_etcd_is_waited_for(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as etcd:

        async def scenario() -> None:
            one = Candidate(etcd.url, "1", "restart")
            await one.start()
            await one.leads()
            await one.store.save(group(epoch=1))
            etcd.stop()
            while one.store.is_leading:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(etcd.start)
            assert (await one.leads())["broker-a"] == group(epoch=1)
            await one.store.stop()

        run(scenario)


def test_damaged_group_in_etcd_is_not_led_upon(etcd: Etcd) -> None:
    async def scenario() -> None:
        client = EtcdClient(etcd.url)
        key = f"{ROOT}/damaged/groups/broker-a".encode()
        await client.transact([], put_of(key, b"{}"), 5.0)
        one = Candidate(etcd.url, "1", "damaged")
        await one.start()
        await asyncio.sleep(1.0)
        assert one.terms == 0
        await client.transact([], put_of(key, orjson.dumps(group(epoch=1).to_value())), 5.0)
        assert (await one.leads())["broker-a"] == group(epoch=1)
        await one.store.stop()

    run(scenario)


def test_etcd_behind_tls_is_checked_against_the_given_certificate(tmp_path: Path) -> None:
    certificate, key = (str(TLS / name) for name in ("test-server.pem", "test-server.key"))
    with running_etcd(tmp_path, (certificate, key)) as secured:

        async def scenario() -> None:
            trusting = ControllerOptions(
                etcd_endpoints=secured.url, etcd_trust_path=certificate, etcd_cert_path=certificate, etcd_key_path=key
            )
            store = store_of(trusting)
            led = asyncio.Event()
            await store.start(Peer("1", "127.0.0.1:1"), lambda groups: led.set(), lambda: None)
            await led.wait()
            await store.save(group(epoch=1))
            await store.stop()
            with pytest.raises(UnavailableError, match="certificate"):
                await EtcdClient(secured.url).get(b"/e", 5.0)

        run(scenario)
    with pytest.raises(InvalidArgumentError, match="certificates for etcd"):
        store_of(ControllerOptions(etcd_endpoints="https://127.0.0.1:1", etcd_trust_path=str(tmp_path / "none.pem")))


def _ask(url: str, path: str, question: dict[str, object]) -> None:
    request = urllib.request.Request(url + path, orjson.dumps(question), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def _close_the_door(url: str) -> None:
    """Users ``root`` and ``flare``, who may use our keys only; nobody else may do anything."""
    start, end = (b64encode(key.encode()).decode() for key in (ROOT + "/", ROOT + "0"))  # "0" follows "/"
    for name, password in (("root", "root-secret"), ("flare", "flare-secret")):
        _ask(url, "/v3/auth/user/add", {"name": name, "password": password})
        _ask(url, "/v3/auth/role/add", {"name": name})
        _ask(url, "/v3/auth/user/grant", {"user": name, "role": name})
    ours = {"permType": "READWRITE", "key": start, "range_end": end}
    _ask(url, "/v3/auth/role/grant", {"name": "flare", "perm": ours})
    _ask(url, "/v3/auth/enable", {})


def test_an_etcd_that_asks_who_is_there_is_told_and_told_anew_after_its_restart(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as guarded:
        _close_the_door(guarded.url)
        password = tmp_path / "password"
        password.write_text("flare-secret\n")
        password.chmod(0o600)
        account = {"etcd_user": "flare", "etcd_password": f"file:{password}"}

        async def scenario() -> None:
            store = store_of(ControllerOptions(etcd_endpoints=guarded.url, etcd_lease_seconds=LEASE_SECONDS, **account))
            led = asyncio.Event()
            await store.start(Peer("1", "127.0.0.1:1"), lambda groups: led.set(), led.clear)
            await led.wait()
            await store.save(group(epoch=1))
            guarded.stop()
            await asyncio.to_thread(guarded.start)  # it has forgotten all tokens
            saved = False
            while not saved:
                await led.wait()
                with contextlib.suppress(UnavailableError):
                    await store.save(group(epoch=2))
                    saved = True
                await asyncio.sleep(0.05)
            await store.stop()

        run(scenario)


def test_a_wrong_password_of_etcd_is_said_without_showing_it(tmp_path: Path) -> None:
    with running_etcd(tmp_path) as guarded:
        _close_the_door(guarded.url)

        async def scenario() -> None:
            with pytest.raises(UnavailableError, match="'flare' cannot sign in") as refused:
                await EtcdClient(guarded.url, None, EtcdAccount("flare", "not-that")).get(b"/e", 5.0)
            assert "not-that" not in str(refused.value) + repr(EtcdAccount("flare", "not-that"))
            with pytest.raises(UnavailableError, match="asks who is there"):
                await EtcdClient(guarded.url).get(ROOT.encode(), 5.0)
            foreign = EtcdClient(guarded.url, None, EtcdAccount("flare", "flare-secret"))
            with pytest.raises(UnavailableError, match="permission denied"):
                await foreign.get(b"/other", 5.0)

        run(scenario)


def test_user_and_password_of_etcd_need_each_other() -> None:
    with pytest.raises(InvalidArgumentError, match="need each other"):
        ControllerOptions(etcd_endpoints="http://127.0.0.1:1", etcd_user="flare")
