"""How much is measured: ``FULL`` for figures to publish, ``QUICK`` for a look, ``SMOKE`` to see that it runs at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    rounds: int  # ours and theirs take turns this often
    warm_seconds: int  # the same work before anything counts; whole seconds, as RocketMQ's driver takes them
    put_seconds: int
    put_bytes_max: int  # of log a put run writes at most: less than slows it down because it is not on disk yet
    latency_calls: int
    latency_seconds: float
    scan_bytes: int
    scan_seconds: int
    query_keys: int
    queries: int
    recover_bytes: int
    recover_rounds: int
    embedded_seconds: float
    import_rounds: int
    startup_file_bytes: int
    wire_rounds: int  # over the wire; ours and theirs take turns this often
    wire_prepare_seconds: int  # of sends before anything else: a broker in Java needs them to be compiled
    wire_warm_seconds: int
    wire_seconds: int
    wire_backlog: int  # messages that are stored first, then consumed
    grpc_backlog: int  # messages that are stored first, then received and acknowledged
    wire_starts: int  # of servers and of one-shot commands
    spark_rounds: int  # our session and Kafka's take turns this often
    spark_rows: int  # of 1 KB; a second store of ours holds ten times as many
    spark_latency_rounds: int
    spark_latency_seconds: int  # of load at 1,000 messages a second
    spark_latency_skip: int  # of these, before anything counts
    lake_commits: int  # of a table that grows; what one costs is told at ten and at a tenth of them, too
    client_rounds: int  # Python clients: ours, aiokafka and confluent-kafka take turns this often
    client_seconds: float  # of sends, about
    client_backlog: int  # messages that are consumed
    growth_messages: int  # and ten and a hundred times as many
    growth_rounds: int
    replication_rounds: int  # a pair of ours and one of theirs take turns this often
    replication_bytes: int  # of log that a slave catches up with


FULL = Settings(
    rounds=3,
    warm_seconds=2,
    put_seconds=5,
    put_bytes_max=2 * GIB,
    latency_calls=200_000,
    latency_seconds=2.0,
    scan_bytes=GIB,
    scan_seconds=3,
    query_keys=1_200_000,
    queries=20_000,
    recover_bytes=4_500_000_000,
    recover_rounds=1,
    embedded_seconds=2.0,
    import_rounds=11,
    startup_file_bytes=64 << 20,
    wire_rounds=3,
    wire_prepare_seconds=15,
    wire_warm_seconds=3,
    wire_seconds=6,
    wire_backlog=1_000_000,
    grpc_backlog=200_000,
    wire_starts=3,
    spark_rounds=3,
    spark_rows=1_200_000,
    spark_latency_rounds=2,
    spark_latency_seconds=30,
    spark_latency_skip=10,
    lake_commits=1000,
    client_rounds=3,
    client_seconds=4.0,
    client_backlog=400_000,
    growth_messages=10_000,
    growth_rounds=1,
    replication_rounds=3,
    replication_bytes=4_000_000_000,
)
QUICK = Settings(
    rounds=1,
    warm_seconds=2,
    put_seconds=1,
    put_bytes_max=GIB,
    latency_calls=50_000,
    latency_seconds=0.5,
    scan_bytes=GIB // 4,
    scan_seconds=1,
    query_keys=300_000,
    queries=10_000,
    recover_bytes=GIB,
    recover_rounds=1,
    embedded_seconds=0.5,
    import_rounds=5,
    startup_file_bytes=16 << 20,
    wire_rounds=1,
    wire_prepare_seconds=8,
    wire_warm_seconds=2,
    wire_seconds=4,
    wire_backlog=300_000,
    grpc_backlog=50_000,
    wire_starts=1,
    spark_rounds=1,
    spark_rows=200_000,
    spark_latency_rounds=1,
    spark_latency_seconds=16,
    spark_latency_skip=6,
    lake_commits=200,
    client_rounds=1,
    client_seconds=1.5,
    client_backlog=100_000,
    growth_messages=2_000,
    growth_rounds=1,
    replication_rounds=1,
    replication_bytes=1_000_000_000,
)
SMOKE = Settings(
    rounds=1,
    warm_seconds=0,
    put_seconds=1,
    put_bytes_max=5_000_000,
    latency_calls=2_000,
    latency_seconds=0.1,
    scan_bytes=20_000_000,
    scan_seconds=1,
    query_keys=20_000,
    queries=500,
    recover_bytes=20_000_000,
    recover_rounds=1,
    embedded_seconds=0.05,
    import_rounds=1,
    startup_file_bytes=1 << 20,
    wire_rounds=1,
    wire_prepare_seconds=1,
    wire_warm_seconds=1,
    wire_seconds=1,
    wire_backlog=20_000,
    grpc_backlog=2_000,
    wire_starts=1,
    spark_rounds=1,
    spark_rows=20_000,
    spark_latency_rounds=1,
    spark_latency_seconds=4,
    spark_latency_skip=1,
    lake_commits=20,
    client_rounds=1,
    client_seconds=0.3,
    client_backlog=5_000,
    growth_messages=200,
    growth_rounds=1,
    replication_rounds=1,
    replication_bytes=40_000_000,
)


def with_rounds(settings: Settings, rounds: int) -> Settings:
    """The same amounts, so many rounds of everything. Growth is no comparison of sides: it keeps its own."""
    return replace(
        settings,
        rounds=rounds,
        recover_rounds=rounds,
        wire_rounds=rounds,
        wire_starts=rounds,
        spark_rounds=rounds,
        spark_latency_rounds=rounds,
        client_rounds=rounds,
        replication_rounds=rounds,
    )
