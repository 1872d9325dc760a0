"""Requests to servers: signed if need be, refusals turned into errors, name servers tried one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from flaremq.client.arguments import check_text
from flaremq.client.errors import is_access_refusal, reply_error
from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import Body, ExtValue, RemotingCommand
from flaremq.protocol.signing import signed
from flaremq.remoting.address import parse_address, parse_addresses
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.tls import TlsContext, TlsSettings

Ext = Mapping[str, ExtValue]

# RocketMQ's two systems of access control disagree whether the signature covers this field of a query, so a signed one
# goes without: it only makes brokers look for as many messages as they look for anyhow.
_NOT_SIGNED_ALIKE: Final = "_UNIQUE_KEY_QUERY"


class Transport:
    """The wire of one client. Event loop thread only.

    ``versions`` holds, by address, the release number a server gave in its last reply to :meth:`call`.
    """

    def __init__(self, name_servers: str | Sequence[str], options: ClientOptions, table: HandlerTable) -> None:
        self.name_servers = _checked(name_servers)
        self.versions: dict[str, int] = {}
        self._current = 0  # the name server that answered last
        self._timeout = options.timeout
        self._credentials = options.credentials()
        self._remoting = RemotingClient(table=table, tls=tls_context(options), on_close=self._lost)
        self.on_close: list[Callable[[str], None]] = []  # called with the address of a lost connection

    def command(self, code: int, ext: Ext | None = None, body: Body = b"", *, oneway: bool = False) -> RemotingCommand:
        """A request, signed if this client has an account. Good for one sending: the second would be a replay."""
        credentials = self._credentials
        if credentials is not None:
            if ext and _NOT_SIGNED_ALIKE in ext:
                ext = {name: value for name, value in ext.items() if name != _NOT_SIGNED_ALIKE}
            ext = signed(
                ext,
                body,
                access_key=credentials.access_key,
                secret_key=credentials.secret_key,
                security_token=credentials.security_token,
                code=code,
            )
        return RemotingCommand.request(code, ext, body, oneway=oneway)

    async def connect(self, address: str) -> Connection:
        """The connection to a server; UnavailableError if it cannot be reached."""
        return self._remoting.connected(address) or await self._remoting.connect(address)

    def connected(self, address: str) -> Connection | None:
        return self._remoting.connected(address)

    async def call(
        self,
        address: str,
        code: RequestCode,
        ext: Ext | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        accept: Collection[int] = (),
        what: str = "",
    ) -> RemotingCommand:
        """The reply to a request. A code that is neither success nor in ``accept`` is raised, and so is any refusal
        because of who asks."""
        command = self.command(code, ext, body)
        reply = await self._remoting.request(address, command, self._timeout if timeout is None else timeout)
        self.versions[address] = reply.version
        if reply.code != 0 and (reply.code not in accept or is_access_refusal(reply)):
            raise reply_error(reply, what or code.name, address)
        return reply

    async def oneway(self, address: str, code: RequestCode, ext: Ext | None = None, body: bytes = b"") -> None:
        """Send a request nobody answers."""
        await self._remoting.oneway(address, self.command(code, ext, body, oneway=True))

    async def ask_name_server(
        self,
        code: RequestCode,
        ext: Ext | None = None,
        body: bytes = b"",
        *,
        accept: Collection[int] = (),
        what: str = "",
    ) -> RemotingCommand:
        """The reply of the first name server that can be reached, beginning with the one that answered last."""
        failures = []
        for step in range(len(self.name_servers)):
            index = (self._current + step) % len(self.name_servers)
            address = self.name_servers[index]
            try:
                reply = await self.call(address, code, ext, body, accept=accept, what=what)
            except UnavailableError as error:
                failures.append(f"{address}: {error}")
                continue
            self._current = index
            return reply
        raise UnavailableError("no name server can be reached: " + "; ".join(failures))

    def _lost(self, address: str) -> None:
        for callback in self.on_close:
            callback(address)

    async def close(self) -> None:
        await self._remoting.close()


def tls_context(options: ClientOptions) -> TlsContext | None:
    """The context of all connections of a client; None if they are plain."""
    if not options.use_tls:
        return None
    return TlsContext.of(
        TlsSettings(
            is_server=False,
            proof="require" if options.tls_check_server else "none",
            trust_path=options.tls_trust_path,
            cert_path=options.tls_cert_path,
            key_path=options.tls_key_path,
            key_password_path=options.tls_key_password_file,
        )
    )


def _checked(name_servers: str | Sequence[str]) -> list[str]:
    if isinstance(name_servers, str):
        return parse_addresses(name_servers)
    given: object = name_servers
    if isinstance(given, bytes) or not isinstance(given, Sequence):
        raise InvalidArgumentError(f"name servers are addresses like 127.0.0.1:9876, not {given!r}")
    addresses = list(name_servers)
    for address in addresses:
        check_text(address, "the address of a name server")
        parse_address(address)
    if not addresses:
        raise InvalidArgumentError("at least one name server address like 127.0.0.1:9876 is needed")
    return addresses
