"""Who a client is: the id brokers know it by, and the unique keys of the messages it makes."""

from __future__ import annotations

import os
import secrets
import socket
import time

from flaremq.client.unique_keys import UniqueKeys
from flaremq.clock import Clock
from flaremq.message.message_id import UniqueKeyFactory
from flaremq.remoting.address import parse_address

_LOOPBACK = "127.0.0.1"


def local_address(towards: str) -> str:
    """The address of this machine as a server at ``towards`` sees it; nothing is sent to find out."""
    host, port = parse_address(towards)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port or 9))
            return str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK


def make_client_id(address: str, instance_name: str) -> str:
    """``address@instance``: two clients of one group must never share one, or they would share their queues too."""
    return f"{address}@{instance_name or f'{os.getpid()}#{time.time_ns()}'}"


def unique_keys(address: str, clock: Clock) -> UniqueKeys:
    """The maker of unique keys of one client, of which no other client makes any, not even one of the same process."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        packed = socket.inet_pton(family, address.partition("%")[0])
    except OSError:
        packed = socket.inet_pton(socket.AF_INET, _LOOPBACK)
    factory = UniqueKeyFactory(address=packed, process_id=os.getpid(), instance_hash=secrets.randbits(32))
    return UniqueKeys(factory, clock)
