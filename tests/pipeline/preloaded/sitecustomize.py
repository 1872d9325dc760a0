"""Python imports this as it starts, where this folder is on its path: the ``spark`` fixture and others put it there.

Makes the Python processes that Spark starts by the hundred cheap. PySpark comes from where it is installed, compiled,
instead of from Spark's zip, which every process would compile anew. And the daemons that fork Spark's workers import
first what these need: a worker whose task or plan failed is never used again, so tests of errors take many.

The demo, the commands and the tests of clusters have it all as Spark does it.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    import importlib
    import pkgutil

    names = ["pandas", "pyarrow.compute", "pyarrow.parquet", "pyspark.worker", sys.orig_argv[-1]]
    for room in ("sources", "sink", "spark"):
        package = importlib.import_module(f"flaremq.pipeline.{room}")
        names += [module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    for name in names:
        importlib.import_module(name)
