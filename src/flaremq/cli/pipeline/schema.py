"""``flaremq pipeline schema``: the fields of bodies."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli import output as out
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, source_options


@click.command()
@source_options
@click.option(
    "--sample", type=click.IntRange(min=1), default=1000, show_default=True, help="Bodies to look at, about so many."
)
@output_option("ddl", "json")
def schema(sample: int, output: str | None, **source: Any) -> None:
    """Print the fields of JSON bodies as bodySchema takes them.

    Found by looking at the oldest and newest bodies of each queue. With --option bodyFormat=avro or protobuf and
    bodySchema it prints the columns that this schema has. Needs no Spark.
    """
    from flaremq.pipeline.jobs.body_schema import body_schema

    found = body_schema(options_of(**source), sample=sample)
    if output == out.JSON:
        out.print_json(found.to_json())
    else:
        out.write(found.ddl.encode() + b"\n")
    if found.unfit:
        out.note(f"flaremq: {found.unfit} of {found.bodies} bodies are no objects of JSON")
    if found.taken_names:
        names = ", ".join(found.taken_names)
        out.note(f"flaremq: messages have columns named {names} too: set bodyPrefix, like body_, with this schema")
