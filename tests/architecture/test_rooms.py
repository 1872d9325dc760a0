"""Rooms: the packages inside the layers. They stand in an order, have doors, and keep their privates.

A room is a package below a layer; a module right in the layer's folder is a room of one. A room imports only rooms that
stand before it in ``ORDER``. The modules that a package's ``__all__`` names are its door: nobody outside imports the
others, and each of them is used outside.
"""

from __future__ import annotations

import ast
import functools

import pytest

from tests.support.source_tree import PACKAGE, Module, modules, target

pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads all sources, once

# From the bottom up.
ORDER = {
    "message": """properties topics sys_flag java_hash tags delay hosts record compression message_id message
        message_ext batch stored_form transaction write_stream""",
    "metrics": """histogram bounded_table turns family labels samples exposition loop_delay options endpoint
        monitor server_monitor""",
    "replication": "frames epochs record_gate source follower sync_rules sync_state replicas membership",
    "protocol": "codes command header_json header_binary frame signing bodies queue_allocation headers",
    "storage": """files runtime config option_names options status log queue index dispatch get put at_rest
        arrow engine verify message_store rebuild rescue""",
    "broker": """pace options role scheduler filter store_loop replication catalog statistics members long_polling
        delay ingest pop transactions streams live_config requests administration registration parts metadata_copy
        ha_service controller_mode registry guarding metrics grpc_door
        service""",
    "access": """files needs addresses options judge bodies rules authority once replay attempts described audit
        refusals guard callers users plain inner control""",
    "controller": "figures groups liveness election outcomes state options stores office requests service",
    "grpc": "call options receipt_key listener framing messages http2 server guard rules plain backends calls door",
    "proxy": "options name_servers members cluster_backend service",
    "server": "options live_options option_requests guarding",
    "namesrv": "figures options kv_config topic_queues broker_table route_info requests service",
    "client": """arguments credentials options errors blocking unique_keys client_id transport routes heartbeats
        instance producer consumer admin scan streams""",
    "pipeline": """model bodies bodies.encoding options planning archive sources sink tables.model tables.iceberg
        tables.delta tables scan spark jobs jobs.archive jobs.replay jobs.rebuild jobs.table jobs.verify
        jobs.report jobs.sql""",
    "dashboard": """texts markup security options data views questions actions live app service""",
    "cli": """failure groups output confirmation parameters progress servers admin dashboard mqadmin store pipeline
        bench demo completion main""",
}
PLACE = {layer: {room: at for at, room in enumerate(rooms.split())} for layer, rooms in ORDER.items()}
MODULES_MAX = 16  # in a folder; about 5 to 15 can be taken in at a look
# Public names of named tuples, and PySpark's way to the JVM: it has no other one.
PUBLIC_BY_CUSTOM = {"_replace", "_make", "_fields", "_asdict", "_jvm", "_jdf", "_gateway"}

PACKAGES = [module for module in modules().values() if module.is_package]


def _room(module: Module) -> str:
    """Its room within the layer; the layer's own ``__init__`` has none."""
    inside = module.name.split(".")[2:]
    if len(inside) > 1 and not module.is_package:
        inside = inside[:-1]
    return ".".join(inside)


def test_rooms_import_only_what_stands_below_them() -> None:
    wrong = []
    for module in modules().values():
        order = PLACE.get(module.layer)
        if order is None or not _room(module):
            continue
        assert _room(module) in order, f"{_room(module)} is new: give it a place among the rooms of {module.layer}"
        for name in module.imports:
            imported = target(name)
            if imported is None or imported.layer != module.layer or _room(imported) in ("", _room(module)):
                continue
            if order[_room(imported)] > order[_room(module)]:
                wrong.append(f"{module.file_name} must not import {name}")
    assert wrong == []


def _door(package: Module) -> list[str]:
    for node in package.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


@functools.cache
def _passages() -> list[tuple[Module, Module, str]]:
    """Who imports, the package it enters, and the module of it that it wants."""
    found = []
    for module in modules().values():
        for name in module.imports:
            imported = target(name)
            if imported is not None and not imported.is_package and imported.package != module.package:
                found.append((module, modules()[imported.package], imported.name.rpartition(".")[2]))
    return found


def test_other_packages_are_entered_through_their_doors() -> None:
    doors = {package.name: _door(package) for package in PACKAGES}
    wrong = [
        f"{package.name} does not let {name} out: {module.file_name} imports it"
        for module, package, name in _passages()
        if package.name != "flaremq" and name not in doors[package.name]
    ]
    assert wrong == []


def test_every_door_leads_somewhere_and_is_used() -> None:
    used = {(package.name, name) for _, package, name in _passages()}
    wrong = []
    for package in PACKAGES:
        if package.layer in ("__init__", "testing"):
            continue
        used |= {
            (package.name, alias.asname or alias.name)
            for node in package.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        wrong += [
            f"nobody outside {package.name} uses {name}" for name in _door(package) if (package.name, name) not in used
        ]
    assert wrong == []


def test_every_package_says_what_it_owns_what_it_imports_and_where_to_start() -> None:
    wrong = []
    for package in PACKAGES:
        text = ast.get_docstring(package.tree) or ""
        if package.layer in ("__init__", "testing"):
            assert text
            continue
        for heading in ("Owns: ", "May import: ", "Start reading: "):
            if f"\n{heading}" not in text:
                wrong.append(f"{package.file_name} has no line {heading!r}")
    assert wrong == []


def test_every_folder_can_be_taken_in_at_a_look() -> None:
    counts = {package.name: len(list(package.path.parent.glob("*.py"))) - 1 for package in PACKAGES}
    # Compiled code is a module a subject: what stands in one module is compiled and inlined together.
    counts.pop("flaremq.core", None)
    assert {name: count for name, count in counts.items() if count > MODULES_MAX} == {}


def test_every_module_touches_only_its_own_privates() -> None:
    wrong = [f"{module.file_name}: {name}" for module in modules().values() for name in _foreign_privates(module)]
    assert wrong == []


def _foreign_privates(module: Module) -> list[str]:
    own = set(PUBLIC_BY_CUSTOM)
    touched = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            own.add(node.value)  # slots
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flaremq"):
            touched |= {alias.name for alias in node.names if _is_private(alias.name)}
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                own.add(node.attr)
            elif not (isinstance(node.value, ast.Name) and node.value.id in ("asyncio", "sys", "os")):
                touched.add(node.attr)
    return sorted(touched - own)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_every_room_in_the_order_exists() -> None:
    for layer, rooms in PLACE.items():
        for room in rooms:
            place = PACKAGE / layer / room.replace(".", "/")
            assert place.is_dir() or place.with_suffix(".py").exists(), f"{layer} has no {room}"
