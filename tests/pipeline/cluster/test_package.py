"""The zip for --py-files: imported from anywhere, unpacked once, kernels not compiled again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]
_LOOK = """
import json, pkgutil, sys
import flaremq, flaremq.storage.kernels.preload as kernels
from flaremq.storage.kernels import compile as kernels_compile
print(json.dumps({
    "file": flaremq.__file__,
    "kernels": kernels.__file__,
    "digest": kernels_compile._DIGEST,
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
    return {path.name: path.stat().st_mtime_ns for path in home.rglob("*.nbc")}


def test_zip_unpacks_once_and_loads_compiled_kernels(
    executor_python: Path, shipped: list[Path], tmp_path: Path
) -> None:
    from flaremq.storage.kernels import compile as kernels_compile

    first = _look(executor_python, shipped[0], tmp_path)
    compiled = _compiled(tmp_path)
    assert compiled, "nothing compiled is in the zip"
    assert first["digest"] == kernels_compile._DIGEST
    assert first["found"] == ["pyspark_flaremq"]  # how Spark finds format("flaremq")
    assert not first["pyspark"]
    assert _look(executor_python, shipped[0], tmp_path) == first
    assert _compiled(tmp_path) == compiled  # neither unpacked nor compiled a second time
    assert [entry.name for entry in tmp_path.iterdir()] == [Path(first["file"]).parts[len(tmp_path.parts)]]


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
