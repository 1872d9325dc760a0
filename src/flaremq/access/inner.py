"""Inner: how a server signs its own requests, to name servers, controllers and other brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flaremq.access.options import AccessOptions
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.signing import signed
from flaremq.remoting.options import RemotingOptions


def signing(remoting: RemotingOptions, access: AccessOptions) -> RemotingOptions:
    """The options of connections by which requests are signed, if the server has an account to sign with."""
    sign = _signer(access)
    return remoting if sign is None else replace(remoting, sign=sign)


def own_account(access: AccessOptions) -> tuple[str, str] | None:
    """The name and the secret this server signs with."""
    credentials = access.inner_client_authentication_credentials
    if not credentials.strip():
        return None
    from flaremq.access.users.initial import parse_inner_credentials  # what servers without accounts never load

    account = parse_inner_credentials(credentials)
    return account.username, account.password


def _signer(access: AccessOptions) -> Callable[[RemotingCommand], None] | None:
    account = own_account(access)
    if account is None:
        return None
    access_key, secret_key = account

    def sign(command: RemotingCommand) -> None:
        command.ext = signed(
            command.ext,
            command.body_bytes,
            access_key=access_key,
            secret_key=secret_key,
            code=command.code,
        )

    return sign
