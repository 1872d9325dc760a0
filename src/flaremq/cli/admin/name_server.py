"""One question to a name server over a plain socket, for the commands that should answer at once.

The client proper costs a quarter of a second to import: an event loop, typed bodies, consumers. A command that asks
a name server one or two things needs none of that: connect, write a frame, read a frame.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from flaremq.client.credentials import Credentials
from flaremq.client.errors import reply_error
from flaremq.errors import RemoteProtocolError, UnavailableError
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.signing import signed
from flaremq.remoting.address import parse_address, parse_addresses

_CONNECT_SECONDS = 3.0
_REPLY_SECONDS = 5.0
HINT = "name another one with -n, or start one with `flaremq up`"


class NameServer:
    """A connection to the first of some name servers that takes one. Blocking; use it inside ``with``."""

    def __init__(self, addresses: str, credentials: Credentials | None = None) -> None:
        self._credentials = credentials
        failures = []
        for address in parse_addresses(addresses):
            try:
                self._socket = socket.create_connection(parse_address(address), timeout=_CONNECT_SECONDS)
            except OSError as error:
                failures.append(f"{address} ({error.strerror or error})")
                continue
            self._socket.settimeout(_REPLY_SECONDS)
            self.address = address
            self._decoder = FrameDecoder()
            return
        raise UnavailableError(f"no name server can be reached at {', '.join(failures)}: {HINT}")

    def ask(self, code: RequestCode, ext: Mapping[str, str] | None = None, *, what: str) -> bytes:
        """The body of the reply; a refusal is raised."""
        credentials = self._credentials
        if credentials is not None:
            ext = signed(
                ext,
                b"",
                access_key=credentials.access_key,
                secret_key=credentials.secret_key,
                security_token=credentials.security_token,
                code=code,
            )
        request = RemotingCommand.request(code, ext)
        try:
            self._socket.sendall(encode_frame(request))
            reply = self._read(request.opaque)
        except OSError as error:
            raise UnavailableError(f"name server {self.address} does not answer: {error}") from error
        if reply.code != 0:
            raise reply_error(reply, what, self.address)
        return reply.body_bytes

    def _read(self, opaque: int) -> RemotingCommand:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise RemoteProtocolError(f"name server {self.address} closed the connection instead of answering")
            for command in self._decoder.receive(data):
                if command.is_response and command.opaque == opaque:
                    return command
            if self._decoder.failure is not None:
                raise self._decoder.failure

    def __enter__(self) -> NameServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
