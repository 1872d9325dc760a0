"""How many connections the descriptors of the process allow.

A connection has one, and so has every file that is open. Whoever uses up all of them stops the sends: no log file can
be made, no table saved. So connections get half of what the process may have (the other half is the queue files'), less
some for logs, tables, sockets of our own and connections that are accepted only to be refused. The count is the
process's: name server, broker and VIP port may be in one.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

RESERVE: Final = 128
_BACKLOG_MAX: Final = 1024
_LEAST: Final = 16
_FEW: Final = 4096
DEFAULT_MAX: Final = 16384

_log = logging.getLogger(__name__)
_in_use = 0
_told: tuple[int, int] | None = None


def connections_allowed() -> int:
    """Connections the process may have, by its present limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else max(_LEAST, soft // 2 - RESERVE)


def tell_limit(connections_max: int) -> None:
    """Say it in the log where descriptors allow fewer connections than an option; once for all ports of a process."""
    global _told
    allowed = connections_allowed()
    if allowed < connections_max and _told != (allowed, connections_max):
        _told = (allowed, connections_max)
        # The default is larger than needed: a cut is worth a log line only where it leaves little.
        is_news = allowed < _FEW or connections_max != DEFAULT_MAX
        _log.log(
            logging.WARNING if is_news else logging.INFO,
            "at most %d connections are taken, not connectionsMax=%d: the process may not have more descriptors "
            "(ulimit -n)",
            allowed,
            connections_max,
        )


def backlog() -> int:
    """Connections that may wait at a port. An event loop takes all of them before it looks at the first."""
    return min(_BACKLOG_MAX, max(_LEAST, connections_allowed() // 4))


def has_room() -> bool:
    """Whether one more connection leaves enough descriptors for everything else."""
    return _in_use < connections_allowed()


def take() -> None:
    """A connection was accepted."""
    global _in_use
    _in_use += 1


def give_back() -> None:
    """It is closed."""
    global _in_use
    _in_use -= 1
