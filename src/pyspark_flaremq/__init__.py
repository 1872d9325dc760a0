"""Found by Spark itself: the first ``format("flaremq")`` imports every top-level ``pyspark_*`` module and asks it for
``DefaultSource``. Must never fail: an error here hides the sources of all other packages too."""

try:
    from flaremq.pipeline.datasource import FlareMQDataSource as DefaultSource
except Exception:  # pragma: no cover - a Spark without the Python Data Source API
    pass
else:
    __all__ = ["DefaultSource"]
