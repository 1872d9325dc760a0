"""The rows of both sides: JSON bodies of 1 KB, of which a query wants two fields."""

from __future__ import annotations

from pathlib import Path

from benchmarks.spark.rows import SIZE
from benchmarks.timing import Row

FIELDS = "id string, amount double"  # what is asked for; they do not stand side by side
_TEXT = (
    b'{"id":"o-%010d","customer":{"number":%d,"name":"Customer %d","since":"2021-03-%02d"},"kind":"%s",'
    b'"lines":[{"sku":"A-%d","count":%d},{"sku":"B-%d","count":%d}],"amount":%d.25,"note":"'
)
_END = b'"}'
_KINDS = (b"paid", b"shipped", b"cancelled")
_STEP = 8192


def write(*, folder: str, count: int) -> Row:
    """``bodies`` for both sides, one after the other."""
    path = Path(folder) / "bodies"
    filler = b"as agreed by telephone, please deliver to the back door; " * 20
    with path.open("wb") as file:
        for first in range(0, count, _STEP):
            for number in range(first, min(first + _STEP, count)):
                customer = number * 7919 % 100_003
                head = _TEXT % (
                    number,
                    customer,
                    customer,
                    number % 28 + 1,
                    _KINDS[number % 3],
                    number % 997,
                    number % 5 + 1,
                    number % 991,
                    number % 3 + 1,
                    number % 9973,
                )
                file.write(head + filler[number % 57 :][: SIZE - len(head) - len(_END)] + _END)
    return {"bodies": str(path), "bytes": path.stat().st_size}
