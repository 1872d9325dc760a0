"""``format("flaremq")`` where FlareMQ cannot be imported: every question is answered with the reason."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.datasource import DataSource


def refusing_source(error: Exception) -> type[DataSource]:
    """A source of our name that says why the real one is not here."""
    reason = (
        f"flaremq cannot be imported by {sys.executable}: {type(error).__name__}: {error}; install what is "
        f"missing there, or set PYSPARK_PYTHON to the Python that has it"
    )

    class Refusal(DataSource):
        @classmethod
        def name(cls) -> str:
            return "flaremq"

        def schema(self, *_: Any) -> Any:
            raise ImportError(reason)

        reader = streamReader = writer = streamWriter = schema  # type: ignore[assignment]  # none of them returns

    return Refusal
