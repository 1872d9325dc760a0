"""Settings for all tests: how hard Hypothesis tries, and how tests are shared out among workers.

``ci`` is the default and always tries the same examples, so that a change is judged by what it changed;
``soak`` (``make soak``) looks for new ones. A failure prints the blob that replays it.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No deadline: shared machines are slow at odd moments, and tests assert no timing.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("soak", _COMMON, max_examples=3_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Groups that one worker runs from beginning to end, the longest first: one JVM, and one cluster of several.
_GROUPS = ("spark", "cluster")
_UNITS = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
# Spark warns about what it loads; what it does is not ours to answer for.
_SPARK_WARNINGS = ("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


# Thousands of tests are made during collection and stay until the end: the collector need not look at them again.
gc.disable()


# Stores sync what they are given. A disk takes a millisecond for it, twenty with other tests beside, and memory none.
# Tests of the seam to the system stay on the disk (tests/storage/files/conftest.py).
_MEMORY = "/dev/shm"
_ROOM = 4 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders lie in memory where there is room for them and programs may run from it.

    Our sources are imported as they are: pytest would rewrite asserts in all of an installed plugin's package, which
    takes each worker ten seconds after a change and makes what is measured not what is shipped."""
    if "TMPDIR" not in os.environ and _has_room(_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY
    from _pytest.assertion import assertstate_key

    hook: Any = getattr(config.stash.get(assertstate_key, None), "hook", None)
    if hook is not None:
        hook._must_rewrite.discard("flaremq")  # there is no public way


def _has_room(folder: str) -> bool:
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize >= _ROOM and not status.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long begins first, and no worker is left alone with it at the end.

    Work is handed out in units: a group above, a test that takes long, or all other tests of a file. Single tests
    would be thousands of units, which cost their keeper more than most of them take.
    """
    order, units = {}, {}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
            for each in _SPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(each))
        group = item.get_closest_marker("xdist_group")
        if group is not None:
            units[item.nodeid] = group.args[0]
            order[item] = _GROUPS.index(group.args[0]) if group.args[0] in _GROUPS else len(_GROUPS)
        elif item.get_closest_marker("slow") is not None:
            units[item.nodeid] = item.nodeid
            order[item] = len(_GROUPS)
        else:
            units[item.nodeid] = item.nodeid.partition("::")[0]
            order[item] = len(_GROUPS) + 1
    items.sort(key=order.__getitem__)
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker.get("workerid") == "gw0":
        Path(worker["units"]).write_text(json.dumps(units), encoding="utf-8")


# xdist's own ``--dist loadgroup`` writes the group into the name of a test, where pytest 9.2 has no place for it, and
# then hands out single tests without a word: a JVM and a cluster for each worker. So a file tells the units.


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["units"] = _units_file(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):
        def schedule(self) -> None:
            self.units = json.loads(Path(_units_file(config)).read_text(encoding="utf-8"))
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            return str(self.units[nodeid])

    config.option.loadscopereorder = False  # ours is the order
    return UnitScheduling(config, log)


def _units_file(config: pytest.Config) -> str:
    if _UNITS not in config.stash:
        config.stash[_UNITS] = tempfile.TemporaryDirectory(prefix="flaremq-units-")
    return os.path.join(config.stash[_UNITS].name, "units.json")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.unfreeze()
    if _UNITS in config.stash:
        config.stash[_UNITS].cleanup()
