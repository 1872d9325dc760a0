"""Imports point down: the picture of the layers, kept true by reading the source.

Every import counts, inside functions too: a lazy import is still a dependency. Only the rule about heavy
packages looks at what runs when a module is imported.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.source_tree import Module, modules, target

pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads all sources, once

BASE = {"core", "interpreted"} | {
    "errors",
    "atomic_file",
    "options",
    "options_file",
    "clock",
    "digits",
    "java_json",
    "times",
    "visible",
    "log_lines",
    "secret_place",
}
STORE_SIDE = {"storage", "message"} | BASE
WIRE_SIDE = {"remoting", "protocol"} | BASE
SERVERS = {"access", "grpc", "proxy", "broker", "namesrv", "controller", "client", "pipeline"}

# What each part may import; a part may always import itself.
MAY_IMPORT = {
    "core": set(),
    "interpreted": set(),
    "errors": set(),
    "clock": set(),
    "digits": set(),
    "options": {"errors"},
    "options_file": {"errors", "atomic_file", "options"},
    "java_json": set(),
    "times": set(),
    "atomic_file": set(),
    "visible": set(),
    "secret_place": {"errors"},
    "log_lines": {"visible"},
    "look": {"visible"},
    "metrics": {"errors", "interpreted", "options"},
    "message": BASE,
    "storage": STORE_SIDE,
    "replication": BASE | {"message"},
    "protocol": BASE,
    "remoting": WIRE_SIDE,
    "access": WIRE_SIDE | {"message"},
    "server": WIRE_SIDE | {"access", "metrics"},
    "namesrv": WIRE_SIDE | {"access", "metrics", "server"},
    "controller": WIRE_SIDE | STORE_SIDE | {"access", "metrics", "server"},  # of storage: the file seam only
    "client": WIRE_SIDE | {"message"},
    "grpc": WIRE_SIDE | {"message", "access", "metrics"},
    "broker": WIRE_SIDE | STORE_SIDE | {"access", "metrics", "server", "replication", "grpc"},
    "proxy": WIRE_SIDE | {"message", "access", "grpc"},
    "pipeline": STORE_SIDE | {"client", "look"},
    "sync": WIRE_SIDE | {"message", "client"},
    "testing": WIRE_SIDE | STORE_SIDE | {"broker", "namesrv", "client"},
    "dashboard": WIRE_SIDE | STORE_SIDE | SERVERS | {"look", "metrics"},
    "cli": WIRE_SIDE | STORE_SIDE | SERVERS | {"sync", "testing", "dashboard"},
}

# Who may use the names of `flaremq` itself, as a user's program does. Below, that would be a circle.
FRONT_DOOR_USERS = {"cli", "dashboard"}

HEAVY = {"numpy", "pyarrow", "pyspark"}
# What is heavy on purpose: rooms of compiled code and Arrow, and single modules that need either for all they do.
# Everybody else imports them, and what they import, inside functions, when a call is large enough to pay for it.
HEAVY_ROOMS = ("flaremq.pipeline", "flaremq.storage.arrow", "flaremq.storage.rebuild")
HEAVY_MODULES = {
    "flaremq.core.arrays",
    "flaremq.storage.at_rest.gaps",
    "flaremq.storage.at_rest.record_table",
    "flaremq.storage.at_rest.tail",
    "flaremq.storage.at_rest.unit_arrays",
    "flaremq.storage.verify.chain",
    "flaremq.storage.verify.doubts",
    "flaremq.storage.verify.index_entries",
    "flaremq.storage.verify.index_soundness",
    "flaremq.storage.verify.piece",
}
# In a heavy room, but asked without loading anything.
LIGHT_MODULES = {"flaremq.storage.arrow.bodies"}
# PySpark is an extra: scanning without Spark must not ask for it.
SPARK_ROOMS = ("flaremq.pipeline.spark", "flaremq.pipeline.jobs")


def _is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def _is_heavy(module: Module) -> bool:
    if module.is_package or module.name in LIGHT_MODULES:
        return False
    return module.name in HEAVY_MODULES or _is_in(module.name, HEAVY_ROOMS)


def test_imports_point_down() -> None:
    wrong = []
    for module in modules().values():
        if module.layer in ("__init__", "__main__"):
            continue  # the front door may name anything; what it costs is tested below
        assert module.layer in MAY_IMPORT, f"{module.layer} is new: give it a place in the layers"
        for name in module.imports:
            imported = target(name)
            if imported is None or imported.layer in MAY_IMPORT[module.layer] | {module.layer}:
                continue
            if imported.name != "flaremq" or module.layer not in FRONT_DOOR_USERS:
                wrong.append(f"{module.file_name} must not import {name}")
    assert wrong == []


def test_heavy_packages_wait_until_they_are_needed() -> None:
    wrong = []
    for module in modules().values():
        if _is_heavy(module) or _is_in(module.name, SPARK_ROOMS):
            continue
        for name in module.imports_when_imported():
            imported = target(name)
            if name.split(".")[0] in HEAVY or (imported is not None and _is_heavy(imported)):
                wrong.append(f"{module.file_name} must import {name} inside the functions that need it")
    assert wrong == []


def test_each_world_keeps_to_itself() -> None:
    wrong = []
    for module in modules().values():
        roots = {name.split(".")[0] for name in module.imports}
        strange = set() if _is_in(module.name, SPARK_ROOMS) else {"pyspark"}
        if module.layer in ("storage", "message"):
            strange |= {"asyncio"}
        if module.layer in ("protocol", "replication"):
            strange |= {"asyncio", "socket", "threading"}
        wrong += [f"{module.file_name} must not import {name}" for name in sorted(roots & strange)]
    assert wrong == []


LIGHT = ("flaremq", "flaremq.message.message", "flaremq.storage.message_store", "flaremq.cli.main")


@pytest.mark.parametrize("module", LIGHT)
def test_importing_stays_light(module: str) -> None:
    code = (
        f"import importlib, sys\nimportlib.import_module({module!r})\nprint(*sorted({HEAVY!r} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_server_starts_without_what_only_some_servers_need() -> None:
    """Each of them is megabytes of an idle server: figures nobody fetches, accounts, roles, the client of a slave."""
    later = {"bz2", "h11", "importlib.metadata", "google.protobuf", "shutil", "tempfile"}
    later |= {
        "flaremq.access.users",
        "flaremq.broker.controller_mode",
        "flaremq.metrics.endpoint",
        "flaremq.grpc.calls",
    }
    code = "import sys, flaremq.cli.servers.up, flaremq.cli.servers.replicas, flaremq.cli.servers.user_options\n"
    code += "import flaremq.broker.service, flaremq.namesrv.service\n"
    code += f"print(*sorted({later!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
