"""Without the packages of an extra an error says which ones to install, by names that a package index knows."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from flaremq.errors import UnavailableError
from flaremq.pipeline.archive.objects import ObjectStore
from flaremq.pipeline.tables.model.extra import lakehouse_needed


@pytest.mark.parametrize(
    ("module", "package"),
    [("flaremq.pipeline.jobs.sql.duck", "duckdb"), ("flaremq.pipeline.bodies.avro", "fastavro")],
)
def test_a_module_that_needs_a_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnavailableError, match=rf"pip install {package} \(the extra \[lakehouse\] of flaremq has it\)"):
        importlib.import_module(module)


@pytest.mark.parametrize(
    ("package", "installed_by"),
    [("pyiceberg.catalog", "'pyiceberg[pyarrow,sql-sqlite]'"), ("deltalake", "deltalake"), ("duckdb", "duckdb")],
)
def test_a_table_that_needs_a_package_says_what_to_install(package: str, installed_by: str) -> None:
    with pytest.raises(UnavailableError) as caught, lakehouse_needed("A table"):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    assert f": pip install {installed_by} (the extra [lakehouse] of flaremq has it)" in str(caught.value)


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (
            "sys.modules['pyiceberg.catalog'] = None",
            "An Iceberg table needs the package pyiceberg, which is not installed: pip install",
        ),
        (
            "import pyiceberg.table.update.snapshot as it; del it._MergeAppendFiles",
            "An Iceberg table does not work with pyiceberg ",
        ),
    ],
)
def test_an_iceberg_table_says_which_pyiceberg_it_needs(lacking: str, said: str) -> None:
    pytest.importorskip("pyiceberg")
    code = (
        f"import sys; {lacking}\n"
        "from flaremq.errors import UnavailableError\n"
        "from flaremq.pipeline.tables.model.target import parse_target\n"
        "from flaremq.pipeline.tables.open import find_table\n"
        "try: find_table(parse_target('iceberg:lake.sales.orders'))\n"
        "except UnavailableError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said in done.stdout


def test_a_bucket_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    bucket = object.__new__(ObjectStore)  # whose account nobody asks for
    with pytest.raises(UnavailableError, match=r"pip install obstore \(the extra \[s3\] of flaremq has it\)"):
        bucket.create("path", b"", lambda: None)
