"""The Spark session of a job: any master, ``local[*]`` by default, settings that suit our tasks; or Spark Connect."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.connect import is_remote
from flaremq.pipeline.jobs.spark_home import compiled_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a job takes: a session, or what starts one. A job checks all it can before it asks for the session, because that
# takes seconds to start.
AnySession = Union["SparkSession", Callable[[], "SparkSession"]]

DEFAULT_MASTER = "local[*]"
_LOCAL = "local"
_REMOTE = "sc://"
_SOCKET_FOLDER_MAX = 50  # the path of a socket has 107 bytes, and Spark's names take half of them
_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
# Where nobody else has set Spark up.
_OWN_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
_LOG_WRITER = "spark.sql.streaming.checkpointFileManagerClass"
_FILES_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")  # or another Spark altogether
_FILE_SYSTEMS = "spark.hadoop.fs."


def spark_session(
    master: str | None = None,
    *,
    name: str = "flaremq",
    settings: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """The running session, or a new one on ``master``. ``quiet`` keeps what a JVM says on stderr out of sight.

    A program that ``spark-submit`` started is on the master named there, unless another is asked for. A master
    ``sc://host:port``, or ``SPARK_REMOTE`` in the environment, is a server of Spark Connect.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnavailableError("PySpark is not installed; `pip install 'pyspark[sql]>=4.0'` brings it") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    chosen = master or os.environ.get("FLAREMQ_SPARK_MASTER")
    if (chosen or os.environ.get("SPARK_REMOTE", "")).startswith(_REMOTE):
        return _remote_session(builder, chosen or os.environ["SPARK_REMOTE"], settings or {})
    merged = dict(_SETTINGS)
    if not is_submitted():
        chosen = chosen or DEFAULT_MASTER
        merged |= _OWN_SETTINGS
    if chosen is not None:
        builder = builder.master(chosen)
    if chosen is not None and chosen.startswith(_LOCAL):
        # Everything is on this machine: no host name to resolve, nothing open to the network.
        merged |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        merged |= _local_sockets() | _local_logs(settings or {})
    for key, value in {**merged, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with _stderr_aside() if quiet else contextlib.nullcontext(), _home_for(chosen):
            spark = builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" in str(error) or "JAVA_HOME" in str(error):
            raise UnavailableError("Spark needs Java 17 or newer: install it, or set JAVA_HOME") from error
        raise
    if not is_remote(spark) and not master_of(spark).startswith(_LOCAL):
        _ship(spark)
    return spark


def _remote_session(builder: Any, url: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on a server: whose driver and executors are where they are, so only what a session may set is set."""
    own = {key: value for key, value in _SETTINGS.items() if key.startswith("spark.sql.")}
    try:
        builder = builder.remote(url)
        for key, value in {**own, **settings}.items():
            builder = builder.config(key, value)
        spark: SparkSession = builder.getOrCreate()
    except ImportError as error:
        raise UnavailableError(
            f"{url} needs PySpark's client for Spark Connect: pip install 'pyspark[connect]' ({error})"
        ) from error
    _ship(spark)
    return spark


def _ship(spark: SparkSession) -> None:
    from flaremq.pipeline.jobs.package import ship

    ship(spark)  # executors elsewhere need not have FlareMQ installed


def master_of(spark: SparkSession) -> str:
    """Where the session computes; of a server elsewhere that it is one."""
    return "Spark Connect" if is_remote(spark) else spark.sparkContext.master or ""


def hush(spark: SparkSession) -> None:
    """Errors only, where the log is this program's own."""
    if not is_remote(spark):
        spark.sparkContext.setLogLevel("ERROR")


def is_submitted() -> bool:
    """Whether a master and settings were given to Spark before this program began."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()


def _home_for(master: str | None) -> contextlib.AbstractContextManager[None]:
    """Machines elsewhere have their own Spark, and a JVM that ``spark-submit`` started has its home."""
    own_machine = master is not None and master.startswith(_LOCAL) and not is_submitted()
    return compiled_pyspark() if own_machine else contextlib.nullcontext()


def started(spark: AnySession) -> SparkSession:
    """The session itself."""
    return spark() if callable(spark) else spark


def _local_sockets() -> dict[str, str]:
    """A tenth to a fifth less work for bodies on their way to the JVM (Spark 4.1 and newer; older ones ignore it)."""
    folder = tempfile.gettempdir()
    if len(folder) > _SOCKET_FOLDER_MAX:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _local_logs(settings: Mapping[str, str]) -> dict[str, str]:
    """A quarter of the work for the two logs that each micro-batch of a stream writes to its checkpoint.

    For each Spark starts ten processes on a local disk (``readlink`` and ``chmod``, through Hadoop's FileContext);
    through Hadoop's FileSystem, which it takes for object stores, two. Both write a file aside and rename it. Where a
    file system of others is set up Spark chooses: on HDFS only a FileContext can put a file in the place of another.
    So it does in a session that runs already, which is somebody's own (of another thread too), or has it from us.
    """
    from pyspark import __version__

    if any(name in os.environ for name in _FILES_ELSEWHERE) or _is_running():
        return {}
    if any(name.startswith(_FILE_SYSTEMS) for name in settings):
        return {}
    package = "org.apache.spark.sql.execution.streaming"
    if not __version__.startswith("4.0."):
        package += ".checkpointing"
    return {_LOG_WRITER: f"{package}.FileSystemBasedCheckpointFileManager"}


def _is_running() -> bool:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True


@contextlib.contextmanager
def _stderr_aside() -> Iterator[None]:
    """Within, new processes write their stderr to a file nobody has to see; if they fail, it is shown after all."""
    with tempfile.TemporaryFile() as aside:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(aside.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            aside.seek(0)
            os.write(2, aside.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
