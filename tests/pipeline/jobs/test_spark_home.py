"""The home of Spark that a session of ours has: links to what is installed, PySpark compiled. No JVM is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.pipeline.jobs.spark_home import compiled_pyspark

pyspark = pytest.importorskip("pyspark")
INSTALLED = Path(pyspark.__file__).resolve().parent


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("FLAREMQ_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def home_within() -> Path:
    with compiled_pyspark():
        return Path(os.environ["SPARK_HOME"])


def test_python_processes_of_spark_load_it_compiled(cache: Path) -> None:
    zip_path = home_within() / "python" / "lib" / "pyspark.zip"
    code = "import pyspark, os; print(pyspark.__file__, os.path.exists(pyspark.__cached__))"
    environment = {**os.environ, "PYTHONPATH": str(zip_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(zip_path / "pyspark" / "__init__.py"), "True"]


def test_everything_else_is_what_is_installed(cache: Path) -> None:
    home = home_within()
    assert (home / "bin" / "spark-submit").samefile(INSTALLED / "bin" / "spark-submit")
    assert (home / "jars").samefile(INSTALLED / "jars")
    (py4j,) = (INSTALLED / "python" / "lib").glob("py4j-*.zip")
    assert (home / "python" / "lib" / py4j.name).samefile(py4j)


def test_home_is_there_while_a_jvm_starts_and_no_longer(cache: Path) -> None:
    with pytest.raises(ZeroDivisionError), compiled_pyspark():
        assert Path(os.environ["SPARK_HOME"]).is_relative_to(cache)
        raise ZeroDivisionError
    assert "SPARK_HOME" not in os.environ


def test_links_that_were_removed_are_made_again(cache: Path) -> None:
    home = home_within()
    (home / "jars").unlink()
    (home / "python" / "lib" / "pyspark.zip" / "pyspark").unlink()
    assert home_within() == home
    assert (home / "jars" / "..").resolve() == INSTALLED
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark").resolve() == INSTALLED


def test_home_of_the_user_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with compiled_pyspark():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not cache.exists()


def test_without_a_place_to_write_to_spark_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("FLAREMQ_CACHE_DIR", str(tmp_path / "file"))
    with compiled_pyspark():
        assert "SPARK_HOME" not in os.environ
