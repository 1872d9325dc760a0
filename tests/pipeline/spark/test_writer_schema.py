"""Where rows go that were read from messages: told before a job. No JVM is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

from flaremq.pipeline.spark.writer import make_stream_writer, make_writer

_READ = "body binary, topic string, brokerName string, queueId int, queueOffset int, msgId string"
_OWN = "body binary, topic string"


def schema(ddl: str) -> StructType:
    names = {"binary": "binary", "string": "string", "int": "integer"}
    fields = [each.split() for each in ddl.split(", ")]
    return StructType.fromJson(
        {"fields": [{"name": name, "type": names[kind], "nullable": True, "metadata": {}} for name, kind in fields]}
    )


@pytest.mark.parametrize("make", [make_writer, make_stream_writer])
def test_rows_of_a_topic_are_not_sent_back_to_it_where_another_is_named(make: type, tmp_path: Path) -> None:
    place = {"path": str(tmp_path / "store")}
    ways_out = r"topic 'copy' .* drop\('topic', 'queueId'\) .* drop\('brokerName', 'queueOffset'\)"
    with pytest.raises(InvalidArgumentError, match=ways_out):
        make({**place, "topic": "copy"}, schema(_READ), False)
    make(place, schema(_READ), False)
    make({**place, "topic": "copy"}, schema(_READ.replace("topic string, ", "")), False)


@pytest.mark.parametrize("missing", ["brokerName string, ", "queueOffset int, "])
def test_topic_made_for_rows_that_were_read_stands_beside_the_one_that_is_named(missing: str, tmp_path: Path) -> None:
    rows = schema(_READ.replace(missing, ""))
    make_writer({"path": str(tmp_path / "store"), "topic": "copy"}, rows, False)


def test_insert_into_a_table_says_that_its_options_do_not_come_along() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"no options came with this write.* INSERT INTO .*df\.write\.format"
    ):
        make_writer({}, schema(_OWN), False)


def test_rows_without_a_topic_of_their_own_go_to_the_one_that_is_named(tmp_path: Path) -> None:
    make_writer({"path": str(tmp_path / "store"), "topic": "copy"}, schema(_OWN), False)
