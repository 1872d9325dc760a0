"""What Spark shows of options: plans, pages, REST, event log, checkpoints, catalogs, errors. Never a secret of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.spark.catalog_tables import table_options, with_note
from flaremq.pipeline.spark.datasource import FlareMQDataSource
from tests.pipeline.conftest import ROOT
from tests.pipeline.spark.test_spark_tables import SCHEMA
from tests.support import planted
from tests.support.planted import found_in

ACCOUNT = {"nameServer": "h:1", "accessKey": "app", "secretKey": planted.CLIENT}
_LOOKED_AT = (
    "error of a read", "error of a stream", "error of a table", "error of a write", "explain", "files: event log",
    "files: file", "files: literal", "files: local", "frame", "list of processes", "log of Python", "pages", "plans",
    "plans as JSON", "progress of a stream", "REST", "settings", "table of a catalog",
)  # fmt: skip


def test_options_of_readers_and_writers_do_not_show_secrets() -> None:
    for options in (parse_options(ACCOUNT), parse_sink_options(ACCOUNT | {"topic": "t"}), parse_options(ACCOUNT).wire):
        assert not found_in(repr(options)) and not found_in(str(options))


def test_a_secret_is_given_once() -> None:
    for parse in (parse_options, parse_sink_options):
        with pytest.raises(InvalidArgumentError, match="both secretKey and secretKeyFile are given") as caught:
            parse(ACCOUNT | {"secretKeyFile": "/key"})
        assert not found_in(str(caught.value))
        with pytest.raises(InvalidArgumentError, match="secretKeyFile is given without accessKey"):
            parse({"nameServer": "h:1", "SECRETKEYFILE": "/key"})


def test_a_table_notes_where_a_secret_is_and_refuses_one() -> None:
    table = {"provider": "flaremq", "option.nameServer": "h:1", "option.accessKey": "app"}
    for named in ({"secretKeyFile": "/key"}, {"secretKey": "file:/key"}, {"secretKey": "env:KEY"}):
        ((name, place),) = named.items()
        options = table_options(table | {name: place, f"option.{name}": place})
        assert options is not None and options[name] == place
        assert place in with_note(SCHEMA, options).json()
    for name in ("secretKey", "SECRETKEY", "securityToken"):
        with pytest.raises(InvalidArgumentError, match=f"write {name} 'env:NAME'") as caught:
            table_options(table | {f"option.{name}": planted.CLIENT})
        assert not found_in(str(caught.value))
        with pytest.raises(InvalidArgumentError, match=f"{name} is given to a table"):
            table_options(table | {name: planted.CLIENT})  # among its properties


def test_a_session_of_connect_names_its_secrets_and_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server keeps statements with their options; what Spark tells planners of it is what ``test_spark_connect``
    sees in a real one."""
    FlareMQDataSource(dict(ACCOUNT))
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", "c28b0263-8798-458c-a89e-97073a0e2e8f")
    monkeypatch.delenv("SPARK_CONNECT_MODE", raising=False)
    for name in ("secretKey", "SECRETKEY", "securityToken"):
        with pytest.raises(InvalidArgumentError, match=r"write (secretKey|securityToken) 'env:NAME'") as caught:
            FlareMQDataSource({"nameServer": "h:1", "accessKey": "app", name: planted.CLIENT})
        assert not found_in(str(caught.value))
    with pytest.raises(InvalidArgumentError, match=r"write fs\.s3a\.secret\.key 'env:NAME'"):
        FlareMQDataSource({"archive": "s3a://b/a", "fs.s3a.access.key": "app", "FS.S3A.SECRET.KEY": planted.CLIENT})
    for named in ({"secretKeyFile": "/key"}, {"secretKey": "file:/key"}, {"secretKey": "env:KEY"}):
        FlareMQDataSource({"nameServer": "h:1", "accessKey": "app", **named})
    monkeypatch.setenv("SPARK_CONNECT_MODE", "0")  # a driver of its own, with artifacts
    FlareMQDataSource(dict(ACCOUNT))


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_that_spark_shows_or_keeps_has_a_secret(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.spark.secrets_session", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    places = json.loads(done.stdout.splitlines()[-1])
    assert {place: found for place, (_, found) in places.items() if found} == {}
    assert [place for place in _LOOKED_AT if not places.get(place, (0,))[0]] == [], "looked at nothing there"
    assert not found_in(done.stderr)
