"""``flaremq pipeline``: the Spark jobs. Their modules are imported to run them: the overview must come at once."""

from __future__ import annotations

import click

from flaremq.cli.groups import LazyGroup

# command -> (module, one line for the overview), in the order the overview has
COMMANDS = {
    "archive": ("flaremq.cli.pipeline.jobs:archive", "The log as Parquet files, incrementally."),
    "table": ("flaremq.cli.pipeline.tables:table", "Topics as Iceberg or Delta tables, incrementally."),
    "replay": ("flaremq.cli.pipeline.jobs:replay", "Messages of a store or archive to a topic, once each."),
    "rebuild": ("flaremq.cli.pipeline.jobs:rebuild", "Queues and index from the log alone."),
    "verify": ("flaremq.cli.pipeline.jobs:verify", "Check everything, and certify it."),
    "report": ("flaremq.cli.pipeline.jobs:report", "Traffic, sizes, latency, lag, capacity as an HTML page."),
    "sql": ("flaremq.cli.pipeline.jobs:sql", "Spark SQL over messages, queues, groups and index."),
    "schema": ("flaremq.cli.pipeline.schema:schema", "The fields of bodies, for bodySchema."),
    "package": ("flaremq.cli.pipeline.jobs:package", "A zip of FlareMQ for --py-files."),
}


@click.group(cls=LazyGroup, elsewhere=COMMANDS)
def pipeline() -> None:
    """Spark jobs over a store, a cluster or an archive.

    On this machine by default (--master local[*]); any Spark master will do.
    """
