"""Without the packages of an extra an error says which ones to install, by names that a package index knows."""

from __future__ import annotations

import importlib
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


def test_a_bucket_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    bucket = object.__new__(ObjectStore)  # whose account nobody asks for
    with pytest.raises(UnavailableError, match=r"pip install obstore \(the extra \[s3\] of flaremq has it\)"):
        bucket.create("path", b"", lambda: None)
