"""Inner: how a server signs its own requests, to name servers, controllers and other brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flaremq.access.options import AccessOptions
from flaremq.access.users.initial import parse_inner_credentials
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.signing import signed
from flaremq.remoting.options import RemotingOptions


def signing(remoting: RemotingOptions, access: AccessOptions) -> RemotingOptions:
    """The options of connections by which requests are signed, if the server has an account to sign with."""
    sign = _signer(access.inner_client_authentication_credentials)
    return remoting if sign is None else replace(remoting, sign=sign)


def _signer(credentials: str) -> Callable[[RemotingCommand], None] | None:
    if not credentials.strip():
        return None
    account = parse_inner_credentials(credentials)

    def sign(command: RemotingCommand) -> None:
        command.ext = signed(
            command.ext,
            command.body_bytes,
            access_key=account.username,
            secret_key=account.password,
            code=command.code,
        )

    return sign
