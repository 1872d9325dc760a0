"""``flaremq pipeline``: the Spark jobs, a module a command."""

from __future__ import annotations

import click

from flaremq.cli.groups import LazyGroup

# command -> (module, one line for the overview), in the order the overview has
COMMANDS = {
    "archive": ("flaremq.cli.pipeline.archive:archive", "The log as Parquet files, incrementally."),
    "replay": ("flaremq.cli.pipeline.replay:replay", "Messages of a store or archive to a topic, once each."),
    "rebuild": ("flaremq.cli.pipeline.rebuild:rebuild", "Queues and index from the log alone."),
    "verify": ("flaremq.cli.pipeline.verify:verify", "Check everything, and certify it."),
    "report": ("flaremq.cli.pipeline.report:report", "Traffic, sizes, latency, lag, capacity as an HTML page."),
    "sql": ("flaremq.cli.pipeline.sql:sql", "Spark SQL over messages, queues, groups and index."),
    "package": ("flaremq.cli.pipeline.package:package", "A zip of FlareMQ for --py-files."),
}


@click.group(cls=LazyGroup, elsewhere=COMMANDS)
def pipeline() -> None:
    """Spark jobs over a store, a cluster or an archive.

    On this machine by default (--master local[*]); any Spark master will do.
    """
