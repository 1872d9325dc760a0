"""Found by Spark itself: the first ``format("flaremq")`` imports every top-level ``pyspark_*`` module and asks it for
``DefaultSource``. Must never fail: an error here hides the sources of all other packages too.

What went wrong is told by a source that can do nothing else; without one Spark would say that there is no such format.
"""

try:
    from flaremq.pipeline.spark.datasource import FlareMQDataSource as DefaultSource
except Exception as error:
    try:
        from pyspark_flaremq.refusal import refusing_source
    except ImportError:  # a Spark before 4.0: it has no sources in Python, and nobody looks for one here
        pass
    else:
        DefaultSource = refusing_source(error)  # type: ignore[assignment, misc]
        __all__ = ["DefaultSource"]
else:
    __all__ = ["DefaultSource"]
