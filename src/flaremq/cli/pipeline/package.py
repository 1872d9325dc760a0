"""``flaremq pipeline package``."""

from __future__ import annotations

import click


@click.command()
@click.argument("target", metavar="OUT.zip", type=click.Path(dir_okay=False))
def package(target: str) -> None:
    """Write a zip of FlareMQ that spark-submit --py-files ships to executors.

    Their Python needs the packages FlareMQ is built on (pyarrow, numpy, numba, …), not FlareMQ itself.
    """
    from flaremq.pipeline.jobs.package import write_package

    click.echo(write_package(target))
