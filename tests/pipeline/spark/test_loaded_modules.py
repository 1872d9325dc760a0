"""What a new Python process of Spark loads before its first rows: it has to, and it takes long."""

from __future__ import annotations

import subprocess
import sys

from tests.pipeline.conftest import FilledStore

# Each takes tens of milliseconds to load, as much as a small query.
_NOT_NEEDED = ("pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "ssl", "asyncio", "pandas")
_SCAN = """
import sys
from pyspark.sql.worker import plan_data_source_read
from pyspark.sql.types import BinaryType, LongType, StructType
from flaremq.pipeline.spark.datasource import FlareMQDataSource
source = FlareMQDataSource({options!r})
reader = source.reader(StructType().add("queueOffset", LongType(), False).add("body", BinaryType()))
rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(rows, *[name for name in {modules!r} if name in sys.modules])
"""


def test_a_scan_of_files_loads_what_it_needs(orders_store: FilledStore) -> None:
    script = _SCAN.format(options=orders_store.options, modules=_NOT_NEEDED)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["600"], done.stdout + done.stderr
