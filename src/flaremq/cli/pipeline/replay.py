"""``flaremq pipeline replay``."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, show_result, source_options, spark_for, spark_options
from flaremq.cli.progress import task_progress


@click.command()
@source_options
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only messages with this key (repeatable).")
@click.option("--tags", metavar="EXPRESSION", help='Only messages with these tags, e.g. "paid || shipped".')
@click.option("--to-name-server", metavar="ADDR", help="Send to this cluster.")
@click.option("--to-path", metavar="STORE", help="Put into this closed store.")
@click.option("--to-topic", metavar="TOPIC", help="The topic to send to.  [default: the one a message came from]")
@click.option("--rate", type=click.IntRange(min=1), help="Messages a second at most.")
@click.option("--id", "replay_id", metavar="NAME", help="Runs of one name send each message once, together.")
@spark_options
@output_option("json", "table")
def replay(
    keys: tuple[str, ...],
    tags: str | None,
    to_name_server: str | None,
    to_path: str | None,
    to_topic: str | None,
    rate: int | None,
    replay_id: str | None,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
    **source: Any,
) -> None:
    """Send messages of a store, a cluster or an archive once more, to the same topic or another one.

    A run that was broken off may be repeated: what it had sent is not sent again.
    """
    from flaremq.pipeline.jobs.replay.job import replay as job

    options = options_of(**source)
    if keys:
        options["keys"] = ",".join(keys)
    if tags is not None:
        options["subExpression"] = tags
    with spark_for("replay", master, settings) as spark, task_progress() as progress:
        result = job(
            spark,
            options,
            to_name_server=to_name_server,
            to_path=to_path,
            to_topic=to_topic,
            rate=rate,
            replay_id=replay_id,
            on_progress=progress,
        )
    show_result(result.to_json(), output)
