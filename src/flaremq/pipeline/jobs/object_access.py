"""Object stores as Spark's own configuration knows them: ``spark.hadoop.fs.s3a.…`` of the session, for jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.model.object_settings import is_s3, settings_of_spark
from flaremq.pipeline.options import ScanOptions


def object_access(given: Mapping[str, str], spark: AnySession | None, *places: str | None) -> dict[str, str]:
    """How these places are reached: as was said to the job, otherwise as the session says. A session is started for
    that only if one of them is in an object store."""
    if spark is None or not any(place is not None and is_s3(place) for place in places):
        return dict(given)
    of_session = settings_of_spark(started(spark).conf.getAll)
    own = {name.lower() for name in given}
    return {name: text for name, text in of_session.items() if name.lower() not in own} | dict(given)


def with_object_access(options: ScanOptions, spark: AnySession | None, *places: str | None) -> ScanOptions:
    return replace(options, objects=object_access(options.objects, spark, options.archive, *places))
