"""What Spark writes down of an error that ends one of its Python processes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from pyspark.util import handle_worker_exception

from flaremq.errors import NotFoundError
from flaremq.pipeline.spark.told_errors import told_plainly

_HIDE = "SPARK_HIDE_TRACEBACK"


@told_plainly
class Reader:
    """Fails in every way."""

    def partitions(self) -> list[int]:
        raise NotFoundError("there is no such topic")

    def read(self) -> Iterator[int]:
        yield 1
        raise NotFoundError("there is no such topic")

    def broken(self) -> None:
        raise ZeroDivisionError("not ours")


def written(call: Callable[[], object]) -> str:
    """The length and the text that a worker sends."""
    try:
        call()
    except Exception as error:
        out = io.BytesIO()
        handle_worker_exception(error, out)
        return out.getvalue()[8:].decode()
    raise AssertionError("it did not fail")


@pytest.fixture(params=["worker", "program"])
def is_worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv(_HIDE, "")  # restored after the test, and the same as unset
    if request.param == "worker":
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    return bool(request.param == "worker")


@pytest.mark.parametrize("call", [lambda: Reader().partitions(), lambda: list(Reader().read())])
def test_an_error_of_ours_is_its_sentence_in_a_worker(is_worker: bool, call: Callable[[], object]) -> None:
    text = written(call)
    assert text.endswith("flaremq.errors.NotFoundError: there is no such topic\n")
    assert ("Traceback" in text) != is_worker


def test_another_error_keeps_its_traceback(is_worker: bool) -> None:
    assert written(Reader().broken).startswith("Traceback")


def test_rows_before_the_error_are_given() -> None:
    assert next(Reader().read()) == 1
