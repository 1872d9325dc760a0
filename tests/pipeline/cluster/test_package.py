"""The zip for --py-files: imported from anywhere, unpacked once, with the compiled core in it."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flaremq import interpreted
from flaremq.errors import InvalidArgumentError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]
_LOOK = """
import json, pkgutil, sys
import flaremq, flaremq.core.record as record
from flaremq import interpreted
print(json.dumps({
    "file": flaremq.__file__,
    "core": record.__file__,
    "interpreted": interpreted.reason(),
    "found": [module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")],
    "pyspark": "pyspark" in sys.modules,
}))
"""


def _look(python: Path, package: Path, home: Path) -> dict[str, Any]:
    environment = {"PYTHONPATH": str(package), "FLAREMQ_CACHE_DIR": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run([python, "-c", _LOOK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _compiled(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in home.rglob("*.so")}


def test_zip_unpacks_once_and_loads_the_compiled_core(
    executor_python: Path, shipped: list[Path], tmp_path: Path
) -> None:
    first = _look(executor_python, shipped[0], tmp_path)
    assert first["interpreted"] == interpreted.reason()  # as compiled there as it is here
    assert Path(first["core"]).is_relative_to(tmp_path)
    compiled = _compiled(tmp_path)
    assert compiled or interpreted.reason() is not None, "nothing compiled is in the zip"
    assert all(name.endswith(EXTENSION_SUFFIXES[0]) for name in compiled)
    assert first["found"] == ["pyspark_flaremq"]  # how Spark finds format("flaremq")
    assert not first["pyspark"]
    assert _look(executor_python, shipped[0], tmp_path) == first
    assert _compiled(tmp_path) == compiled  # not unpacked a second time
    assert [entry.name for entry in tmp_path.iterdir()] == [Path(first["file"]).parts[len(tmp_path.parts)]]


def test_machine_code_of_another_python_stays_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flaremq.pipeline.jobs import package as packing

    for name in ("flaremq", "pyspark_flaremq"):
        (tmp_path / "src" / name / "core").mkdir(parents=True)
        (tmp_path / "src" / name / "__init__.py").touch()
    ours = f"record{EXTENSION_SUFFIXES[0]}"
    for name in (ours, "record.cpython-38-x86_64-linux-gnu.so", "record.py", "record.pxd"):
        (tmp_path / "src" / "flaremq" / "core" / name).touch()
    monkeypatch.setattr(
        packing.importlib.util,
        "find_spec",
        lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path / "src" / name)]),
    )
    result = packing.package(tmp_path / "out.zip")
    with zipfile.ZipFile(result.path) as packed:
        names = {name.removeprefix("flaremq_unpacked/flaremq/core/") for name in packed.namelist() if "/core/" in name}
    assert names == {ours, "record.py", "record.pxd"} and result.compiled == 1


def test_folder_that_others_can_write_is_refused(executor_python: Path, shipped: list[Path], tmp_path: Path) -> None:
    shared = tmp_path / f"flaremq-packages-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    environment = {"PYTHONPATH": str(shipped[0]), "TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run([executor_python, "-c", "import flaremq"], env=environment, capture_output=True, text=True)
    assert "is not a folder of this user alone; set FLAREMQ_CACHE_DIR" in done.stderr


def test_name_that_spark_would_not_import_is_refused(tmp_path: Path) -> None:
    from flaremq.pipeline.jobs.package import package

    with pytest.raises(InvalidArgumentError, match=r"ends in \.zip"):
        package(tmp_path / "flaremq.tar.gz")
