"""The guard of a server with one folder: of a name server or a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl
    from flaremq.access.options import AccessOptions
    from flaremq.clock import Clock


def access_control(access: AccessOptions, folder: str, clock: Clock, *, is_controller: bool) -> AccessControl | None:
    """None where the options ask for none. It reads files."""
    if not access.is_enabled:
        return None
    from flaremq.access.authority import CONTROLLER, NAME_SERVER  # what only guarded servers need
    from flaremq.access.control import AccessControl, Places
    from flaremq.access.rules import Surroundings

    rows = CONTROLLER if is_controller else NAME_SERVER
    places = Places(home=folder, users=folder, state=folder)
    return AccessControl(access, places, rows, Surroundings(access.access_cluster_name), clock)
