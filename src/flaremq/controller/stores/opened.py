"""Which store the options of a controller ask for."""

from __future__ import annotations

import ssl

from flaremq.controller.options import ControllerOptions
from flaremq.controller.stores.etcd_client import EtcdAccount, EtcdClient
from flaremq.controller.stores.etcd_store import EtcdStore
from flaremq.controller.stores.file_store import FileStore
from flaremq.controller.stores.store import StateStore
from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import secret_value


def store_of(options: ControllerOptions) -> StateStore:
    """Where these options want the state to be kept; nothing is opened yet."""
    if not options.etcd_endpoints:
        return FileStore(options.store_folder)
    client = EtcdClient(options.etcd_endpoints, _tls_context(options), _account(options))
    return EtcdStore(client, options.controller_d_leger_group, options.etcd_lease_seconds)


def _account(options: ControllerOptions) -> EtcdAccount | None:
    if not options.etcd_user:
        return None
    return EtcdAccount(options.etcd_user, secret_value(options.etcd_password, "etcdPassword"))


def _tls_context(options: ControllerOptions) -> ssl.SSLContext | None:
    if not options.etcd_trust_path and not options.etcd_cert_path:
        return None
    try:
        context = ssl.create_default_context(cafile=options.etcd_trust_path or None)
        if options.etcd_cert_path:
            context.load_cert_chain(options.etcd_cert_path, options.etcd_key_path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"the certificates for etcd cannot be used: {error}") from error
    return context
