"""What can be set about access control: :class:`AccessOptions`, read from the same file as a server's other options.

Two generations, of which a server has one at a time or none: ``aclEnable`` (RocketMQ 4, accounts in YAML files) and
``authenticationEnabled`` with ``authorizationEnabled`` (RocketMQ 5, users and policies). A switch that would not do
what it says stops the start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.access.addresses import is_loopback, parse_networks
from flaremq.errors import InvalidArgumentError
from flaremq.options import PATH, SECURITY, check_values, load_properties, option, rows, rows_by_key
from flaremq.secret_place import check_private, names_a_secret

_STOCK: Final = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationMetadataProvider": (
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "authenticationStrategy": "org.apache.rocketmq.auth.authentication.strategy.StatelessAuthenticationStrategy",
    "authorizationStrategy": "org.apache.rocketmq.auth.authorization.strategy.StatelessAuthorizationStrategy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Options of one server's access control. Nothing of it changes over the wire."""

    # fmt: off
    acl_enable: bool = option(
        False, rocketmq="aclEnable", affects="behaviour", fixed=SECURITY,
        doc="Serve only accounts of `conf/plain_acl.yml` and `conf/acl/*.yml` (RocketMQ 4).")
    acl_home: str = option(
        "", flaremq="aclHome", affects="behaviour", fixed=PATH,
        doc="Folder in which `conf/plain_acl.yml` and `conf/acl` lie; empty means the folder of the store, for a name "
            "server or controller that of its state.")
    authentication_enabled: bool = option(
        False, rocketmq="authenticationEnabled", affects="behaviour", fixed=SECURITY,
        doc="Serve only users who sign their requests (RocketMQ 5).")
    authorization_enabled: bool = option(
        False, rocketmq="authorizationEnabled", affects="behaviour", fixed=SECURITY,
        doc="Let users do only what policies allow (RocketMQ 5); needs `authenticationEnabled`.")
    auth_config_path: str = option(
        "", rocketmq="authConfigPath", affects="behaviour", fixed=PATH,
        doc="Folder of `users.json`, which holds users and policies; empty means `config` in the folder of the store, "
            "for a name server or controller the folder of its state.")
    init_authentication_user: str = option(
        "", rocketmq="initAuthenticationUser", affects="behaviour", fixed=SECURITY, secret=True,
        doc="`{\"username\":…,\"password\":…}`: a Super user who is made at the start if there is none of that name. "
            "`env:NAME` or `file:PATH` says where this is found.")
    inner_client_authentication_credentials: str = option(
        "", rocketmq="innerClientAuthenticationCredentials", affects="behaviour", fixed=SECURITY, secret=True,
        doc="`{\"accessKey\":…,\"secretKey\":…}`: how this server signs its requests to name servers, controllers and "
            "other brokers. With `authenticationEnabled` also made as a Super user if there is none of that name. "
            "`env:NAME` or `file:PATH` says where this is found.")
    authentication_whitelist: str = option(
        "", rocketmq="authenticationWhitelist", affects="behaviour", fixed=SECURITY, pattern=r"[0-9, ]*",
        form="request codes joined by commas",
        doc="Request codes that need no signature. What only Super users or servers may do is never open.")
    authorization_whitelist: str = option(
        "", rocketmq="authorizationWhitelist", affects="behaviour", fixed=SECURITY, pattern=r"[0-9, ]*",
        form="request codes joined by commas",
        doc="Request codes that any user may send. What only Super users or servers may do is never open.")
    migrate_auth_from_v1_enabled: bool = option(
        False, rocketmq="migrateAuthFromV1Enabled", affects="behaviour", fixed=SECURITY,
        doc="At the start make users and policies of the accounts in the files of `aclEnable`, as far as there are "
            "none of their names.")
    authentication_provider: str = option(
        "", rocketmq="authenticationProvider", affects="behaviour", fixed=SECURITY,
        doc="A class of RocketMQ; only the stock one is accepted, and nothing is loaded by its name.")
    authorization_provider: str = option(
        "", rocketmq="authorizationProvider", affects="behaviour", fixed=SECURITY, doc="Likewise.")
    authentication_metadata_provider: str = option(
        "", rocketmq="authenticationMetadataProvider", affects="behaviour", fixed=SECURITY, doc="Likewise.")
    authorization_metadata_provider: str = option(
        "", rocketmq="authorizationMetadataProvider", affects="behaviour", fixed=SECURITY, doc="Likewise.")
    authentication_strategy: str = option(
        "", rocketmq="authenticationStrategy", affects="behaviour", fixed=SECURITY,
        doc="Only the stateless one is accepted: the other does not look at signatures for a minute.")
    authorization_strategy: str = option(
        "", rocketmq="authorizationStrategy", affects="behaviour", fixed=SECURITY, doc="Likewise.")
    admin_allowed_addresses: str = option(
        "", flaremq="adminAllowedAddresses", affects="behaviour", fixed=SECURITY,
        form="addresses or networks joined by ;",
        doc="From where administration is answered besides this machine; a verified client certificate counts too.")
    access_without_tls_enable: bool = option(
        False, flaremq="accessWithoutTlsEnable", affects="behaviour", fixed=SECURITY,
        doc="Serve signed requests of other machines that come without TLS, although who listens can send them again.")
    access_signed_time_required: bool = option(
        False, flaremq="accessSignedTimeRequired", affects="behaviour", fixed=SECURITY,
        doc="Serve only requests that carry a signed time, code and number, as FlareMQ's clients send them.")
    access_cluster_name: str = option(
        "DefaultCluster", flaremq="accessClusterName", affects="behaviour", fixed=SECURITY,
        doc="The cluster that policies mean at a name server or controller; a broker has `brokerClusterName`.")
    audit_log_path: str = option(
        "", flaremq="auditLogPath", affects="behaviour", fixed=PATH,
        doc="File of the audit log; empty means `flaremq.audit/audit.log` in the folder of the store, for a name "
            "server or controller in the folder of its state.")
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)
        if self.acl_enable and self.authentication_enabled:
            raise InvalidArgumentError("aclEnable and authenticationEnabled are two systems: a server has one of them")
        if self.authorization_enabled and not self.authentication_enabled:
            raise InvalidArgumentError(
                "authorizationEnabled=true without authenticationEnabled=true would believe whatever name a request "
                "gives itself"
            )
        for key, stock in _STOCK.items():
            name = str(getattr(self, rows_by_key(AccessOptions)[key].field_name))
            if name and name != stock:
                raise InvalidArgumentError(f"option {key}={name!r} is not allowed: only {stock}")
        try:
            parse_networks(self.admin_allowed_addresses)
        except ValueError:
            raise rows_by_key(AccessOptions)["adminAllowedAddresses"].refusal(self.admin_allowed_addresses) from None

    @property
    def is_enabled(self) -> bool:
        """Whether anybody is asked who they are."""
        return self.acl_enable or self.authentication_enabled


def load_private(path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """Names and texts of a server's file, if one is given, with ``overrides`` on top; none with a secret that others
    than its owner may read."""
    of_file = load_properties(path) if path is not None else {}
    if path is not None:
        _check_private_file(path, of_file)
    return {**of_file, **(overrides or {})}


def _check_private_file(path: str | os.PathLike[str], properties: Mapping[str, str]) -> None:
    """Refuse a configuration with a secret in it that others than its owner may read."""
    for row in rows(AccessOptions):
        text = properties.get(row.key, "").strip()
        if row.secret and text and not names_a_secret(text):
            check_private(os.stat(path).st_mode, os.fspath(path), f"option {row.key}")


def check_bind(bind_address: str, access: AccessOptions, *, insecure: bool) -> None:
    """Refuse to let other machines in where nobody is asked who they are, unless told so."""
    if not is_loopback(bind_address) and not access.is_enabled and not insecure:
        raise InvalidArgumentError(
            f"option bindAddress={bind_address!r} lets other machines in, and nobody is asked who they are: turn "
            "access control on (authenticationEnabled and authorizationEnabled, or aclEnable), or set "
            "insecureBindEnable=true if everybody who reaches that address may do everything"
        )
