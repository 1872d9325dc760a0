"""What a new Python process of Spark loads before its first rows: it has to, and it takes long."""

from __future__ import annotations

import pickle
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


_TASK = """
import pickle, sys
reader, part = pickle.loads(bytes.fromhex({pickled!r}))
rows = sum(batch.num_rows for batch in reader.read(part))
print(rows, *[name for name in {modules!r} if name in sys.modules])
"""


def test_a_task_does_not_load_what_reads_options(orders_store: FilledStore) -> None:
    from pyspark.sql.types import LongType, StructType

    from flaremq.pipeline.spark.datasource import FlareMQDataSource

    source = FlareMQDataSource({"path": orders_store.options["path"]})
    reader = source.reader(StructType().add("queueOffset", LongType(), False))
    (part,) = reader.partitions()
    script = _TASK.format(pickled=pickle.dumps((reader, part)).hex(), modules=(*_NOT_NEEDED, "flaremq.storage.options"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["600"], done.stdout + done.stderr


def test_a_scan_of_files_loads_what_it_needs(orders_store: FilledStore) -> None:
    script = _SCAN.format(options=orders_store.options, modules=_NOT_NEEDED)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["600"], done.stdout + done.stderr
