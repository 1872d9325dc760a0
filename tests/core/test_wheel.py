"""The wheel in an environment that has what FlareMQ needs, no FlareMQ and no compiler: its core is compiled, and the
middle of the demo runs. `make wheel` gives it the portable one (FLAREMQ_TEST_WHEEL), else it is built here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from flaremq import interpreted

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

_DEMO = """
import json, sys
import flaremq
from flaremq import Message, MessageStore, interpreted
from flaremq.sync import Consumer, Producer
from flaremq.testing import ephemeral_broker

with MessageStore.open(sys.argv[1]) as store:
    for number in range(100):
        assert store.put(Message("orders", b"body %d" % number, keys=[f"k{number}"], tags="paid")).ok
    assert store.wait_for_dispatch(20)
    got = [message.body.decode() for message in store.get("orders", 0, 0).messages]
    asked = [message.queue_offset for message in store.query("orders", "k7")]
    scanned = sum(batch.num_rows for batch in store.scan("orders", queue_id=0, columns=["queueOffset", "body"]))
with ephemeral_broker() as broker, Producer(broker.name_server) as producer:
    sent = producer.send(Message("orders", b"over the wire")).status.name
    with Consumer(broker.name_server, group="g", subscribe="orders", start_from="first") as consumer:
        received = consumer.receive(timeout=20).body.decode()
print(json.dumps({
    "from": flaremq.__file__, "interpreted": interpreted.reason(), "cython": "cython" in sys.modules,
    "got": got[:2], "asked": asked, "scanned": scanned, "sent": sent, "received": received,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if named := os.environ.get("FLAREMQ_TEST_WHEEL"):
        return Path(named)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with nothing in it but this wheel; the packages it needs are those of the tests' own."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-compile", "--no-deps", "--no-index", str(wheel)], check=True)
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    ).stdout.strip()
    # A path in a .pth is searched after this environment's own, and the .pth files in it are not followed.
    Path(packages, "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_runs_where_there_is_no_compiler(python: Path, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    environment = {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path)}
    command = [str(python), "-c", _DEMO, str(tmp_path / "store")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("from").startswith(str(python.parents[1]))
    is_compiled = not wheel.name.endswith("-none-any.whl")
    assert (told.pop("interpreted") is None) == is_compiled
    assert told.pop("cython") == (not is_compiled)  # compiled, nothing imports it
    assert told == {
        "got": ["body 0", "body 1"],
        "asked": [7],
        "scanned": 100,
        "sent": "SEND_OK",
        "received": "over the wire",
    }


def test_the_wheel_is_compiled_where_this_tree_is(wheel: Path) -> None:
    if os.environ.get("FLAREMQ_INTERPRETED") or interpreted.reason() is not None:
        pytest.skip("the core is not compiled here")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        libraries = {name: content.read(name) for name in names if name.endswith(".so")}
    assert "flaremq/core/record.pxd" in names and "flaremq/core/crc32.h" in names
    assert len(libraries) == len(re.findall(r'^    "flaremq\.', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    if "manylinux_2_17" in wheel.name:
        for name, data in libraries.items():
            wanted = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_([\d.]+)\0", data)}
            assert wanted and max(wanted) <= (2, 17), name
