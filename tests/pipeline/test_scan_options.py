"""Options of a scan: every name, wrong ones, contradictions, and the store directories that path means."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.options import rows
from flaremq.pipeline.model.source import TopicSelector
from flaremq.pipeline.options import ALIASES, GEOMETRY, option_table, parse_options
from flaremq.pipeline.sources.open import BROKER_FILE, source_spec

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_names_are_known_in_any_case() -> None:
    options = parse_options({"PATH": "/s", "startingoffsets": "latest", "failondataloss": "FALSE"})
    assert (options.path, options.starting_offsets, options.fail_on_data_loss) == ("/s", "latest", False)


def test_lists_are_split_and_tags_understood() -> None:
    options = parse_options({"path": "/s", "topic": " a , b", "keys": "k1,k2,k1", "subExpression": "A || B"})
    assert options.selector == TopicSelector(names=("a", "b"))
    assert options.key_list == ("k1", "k2")
    assert options.tags == {"A", "B"}
    assert parse_options({"path": "/s"}).tags == frozenset()


@pytest.mark.parametrize("alias", ALIASES)
def test_familiar_spellings_mean_ours(alias: str) -> None:
    given = {alias: "x"} if ALIASES[alias] == "nameServer" else {alias: "x", "path": "/s"}
    assert parse_options(given) == parse_options(
        {ALIASES[alias]: "x", **{k: v for k, v in given.items() if k != alias}}
    )


def test_an_alias_beside_its_name_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="topic and subscribe mean the same"):
        parse_options({"path": "/s", "topic": "a", "subscribe": "a"})


def test_an_unknown_name_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(InvalidArgumentError, match="startingOffset: did you mean startingOffsets"):
        parse_options({"path": "/s", "startingOffset": "latest"})


def test_what_spark_adds_is_left_alone() -> None:
    parse_options({"path": "/s", "checkpointLocation": "/c", "queryName": "q", "__internal": "1", "spark.x": "1"})


def test_several_loaded_paths_arrive_as_json() -> None:
    assert parse_options({"paths": '["/a", "b=/c"]'}).path == "/a,b=/c"


def test_options_of_store_and_client_go_their_way() -> None:
    options = parse_options({"path": "/s", "maxhashslotnum": "200", "accessKey": "me", "SECRETKEYFILE": "/k"})
    assert options.geometry == {"maxHashSlotNum": "200"}
    assert options.client == {"accessKey": "me", "secretKeyFile": "/k"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "neither path nor nameServer"),
        ({"path": "/s", "nameServer": "h:1"}, "both path .* and nameServer"),
        ({"path": "/s", "topic": "a", "subscribePattern": "b"}, "both topic and subscribePattern"),
        ({"path": "/s", "subscribePattern": "("}, "no regular expression"),
        (
            {"path": "/s", "startingOffsets": "latest", "startingTimestamp": "5"},
            "both startingOffsets and startingTimes",
        ),
        ({"path": "/s", "endingOffsets": "latest", "endingTimestamp": "5"}, "both endingOffsets and endingTimestamp"),
        ({"path": "/s", "startingTimestamp": "9", "endingTimestamp": "5"}, "endingTimestamp 5 is before"),
        ({"path": "/s", "startingTimestamp": "yesterday"}, "startingTimestamp='yesterday' is not allowed"),
        ({"path": "/s", "minPartitions": "-1"}, "minPartitions=-1 is not allowed"),
        ({"path": "/s", "failOnDataLoss": "perhaps"}, "failOnDataLoss='perhaps' is not allowed"),
        ({"path": "/s", "maxHashSlotNum": "many"}, "maxHashSlotNum='many' is not allowed"),
        ({"path": "/s", "columns": "topic,topic"}, "'topic' is named twice"),
        ({"path": "/s", "columns": "topic,TOPIC"}, "'topic' is named twice"),
        ({"path": "/s", "columns": " "}, "columns is empty: leave the option out to read all"),
        ({"path": "/s", "key": ","}, "key is empty: leave the option out to read all"),
        ({"path": "/s", "topic": ""}, "topic is empty"),
        ({"path": "/s", "subscribePattern": ""}, "subscribePattern is empty"),
        ({"path": "/s", "startingTimestamp": "noon"}, "a time: milliseconds since 1970, an ISO date"),
        ({"path": "/s", "commitNameServer": "h:1"}, "without consumerGroup"),
        (
            {"nameServer": "h:1", "accessKey": "a", "secretKey": "s", "secretKeyFile": "/k"},
            "both secretKey and secretKeyFile are given",
        ),
        ({"nameServer": "h:1", "secretKeyFile": "/k"}, "secretKeyFile is given without accessKey"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_options(given)


@pytest.mark.parametrize(
    "text", ["a > 5", "a=1", "region = 'eu' AND a IS NULL", "a between 1 and 5", "a IN ('x')", "x is not null", "(a)"]
)
def test_an_expression_over_properties_is_no_tag(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"looks like SQL92; only tags are taken, as in A \|\| B"):
        parse_options({"path": "/s", "subExpression": text})


@pytest.mark.parametrize("text", ["*", "IN || OR", "sign-in||android", "a.b:c/d"])
def test_tags_that_only_resemble_words_of_sql_are_tags(text: str) -> None:
    parse_options({"path": "/s", "subExpression": text})


def test_an_archive_may_stand_alone_or_lie_behind_a_uri() -> None:
    assert source_spec(parse_options({"archive": "s3://bucket/archive"})).archive == "s3://bucket/archive"


def spec_paths(path: object, **others: str) -> tuple[tuple[str, str], ...]:
    return source_spec(parse_options({"path": str(path), **others})).paths


def test_a_store_is_named_by_option_offsets_note_or_directory(tmp_path: Path) -> None:
    store = tmp_path / "day=1" / "store"
    store.mkdir(parents=True)
    assert spec_paths(store) == (("store", str(store)),)
    assert spec_paths(f"file:{store}") == (("store", str(store)),)
    (store / BROKER_FILE).write_text(json.dumps({"brokerName": "noted"}))
    assert spec_paths(store) == (("noted", str(store)),)
    offsets = json.dumps({"t": {"told": {"0": 3}}})
    assert spec_paths(store, startingOffsets=offsets) == (("told", str(store)),)
    assert spec_paths(store, startingOffsets=offsets, brokerName="given") == (("given", str(store)),)
    assert spec_paths(f"item={store}") == (("item", str(store)),)


def test_several_stores_need_different_names(tmp_path: Path) -> None:
    for name in ("a/store", "b/store"):
        (tmp_path / name).mkdir(parents=True)
    both = [str(tmp_path / "a/store"), str(tmp_path / "b/store")]
    assert spec_paths(f"x={both[0]}, y={both[1]}") == (("x", both[0]), ("y", both[1]))
    with pytest.raises(InvalidArgumentError, match="two stores of path are called 'store'"):
        spec_paths(",".join(both))
    with pytest.raises(InvalidArgumentError, match="brokerName 'x' names one store but path lists 2"):
        spec_paths(",".join(both), brokerName="x")


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere does not exist"):
        spec_paths(tmp_path / "nowhere")


def test_the_page_has_a_line_for_every_option() -> None:
    page = (DOCS / "spark-reference.md").read_text(encoding="utf-8")
    assert option_table() in page, "put what option_table() returns into docs/spark-reference.md"
    names = [f"`{name}`" for name in (*GEOMETRY, *(row.key for row in rows(ClientOptions)), *ALIASES)]
    assert [name for name in names if name not in page] == []


def test_times_are_taken_as_people_write_them() -> None:
    texts = {"startingTimestamp": "2023-11-14T22:13:20Z", "endingTimestamp": "2023-11-14 22:13:21+00:00"}
    options = parse_options({"path": "/s", **texts})
    assert (options.starting_timestamp, options.ending_timestamp) == (1_700_000_000_000, 1_700_000_001_000)
    before = int(time.time() * 1000) - 7_200_000
    ago = parse_options({"path": "/s", "startingTimestamp": "2h"}).starting_timestamp
    assert before <= ago <= before + 60_000
