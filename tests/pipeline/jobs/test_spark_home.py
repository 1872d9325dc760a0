"""The home of Spark that a session of ours has: links to what is installed, PySpark compiled. No JVM is started."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flaremq.pipeline.jobs import spark_home
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


def test_links_to_something_else_are_put_right(cache: Path, tmp_path: Path) -> None:
    home = home_within()
    (tmp_path / "elsewhere").mkdir()
    for link in (home / "jars", home / "python" / "lib" / "pyspark.zip" / "pyspark"):
        link.unlink()
        link.symlink_to(tmp_path / "elsewhere")
    assert home_within() == home
    assert (home / "jars").resolve() == INSTALLED / "jars"
    assert [each.resolve() for each in (home / "python" / "lib" / "pyspark.zip").iterdir()] == [INSTALLED]


def test_home_is_of_this_user_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_within()
    assert home.stat().st_mode & 0o777 == 0o700
    home.chmod(0o777)
    with compiled_pyspark():
        assert "SPARK_HOME" not in os.environ
    home.chmod(0o700)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with compiled_pyspark():
        assert "SPARK_HOME" not in os.environ


def test_homes_of_installations_that_are_gone_are_removed_when_one_is_made(cache: Path, tmp_path: Path) -> None:
    gone, other, foreign = cache / f"spark-{'0' * 24}", cache / f"spark-{'1' * 24}", cache / "spark-events"
    for folder, target in ((gone, "gone"), (other, "there"), (foreign, "gone")):
        folder.mkdir(parents=True)
        (folder / "jars").symlink_to(tmp_path / target)
    (tmp_path / "there").mkdir()
    home = home_within()
    assert sorted(cache.iterdir()) == sorted([home, other, foreign])


def test_two_threads_may_start_a_session_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, both = spark_home._linked_home, threading.Barrier(2)

    def linked() -> Path | None:
        both.wait()
        return real()

    monkeypatch.setattr(spark_home, "_linked_home", linked)

    def start() -> None:
        with compiled_pyspark():
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        for started in [threads.submit(start) for _ in range(2)]:
            started.result()
    assert "SPARK_HOME" not in os.environ


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
