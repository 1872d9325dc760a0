"""``flaremq.broker``: the name of the broker that served this store last, for those who find the directory alone.

Records do not carry it, and a table over several stores needs it to tell queues apart. JSON, replaced as a whole;
RocketMQ ignores it.
"""

from __future__ import annotations

import json
import logging
import os

from flaremq.errors import FlareMQError
from flaremq.storage.files import layout
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem, write_atomically

_log = logging.getLogger(__name__)
_SIZE_MAX = 4096


def write_broker_note(root: str, broker_name: str, filesystem: FileSystem | None = None) -> None:
    """Note the name; a store that cannot be written to stays without, which only costs convenience."""
    filesystem = filesystem or LocalFileSystem()
    try:
        if read_broker_note(root, filesystem) != broker_name:
            data = json.dumps({"brokerName": broker_name}).encode()
            write_atomically(filesystem, os.path.join(root, layout.BROKER_NOTE), data)
    except FlareMQError as error:
        _log.warning("the broker's name could not be noted in the store: %s", error)


def read_broker_note(root: str, filesystem: FileSystem | None = None) -> str | None:
    """The name, or None if there is no (readable) note."""
    try:
        path = os.path.join(root, layout.BROKER_NOTE)
        data = read_small_file(filesystem or LocalFileSystem(), path, limit=_SIZE_MAX)
        name = json.loads(data)["brokerName"] if data else None
    except (FlareMQError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and name else None
