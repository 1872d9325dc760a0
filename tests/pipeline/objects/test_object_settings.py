"""Where a bucket is and as whom it is asked: Hadoop's names, the environment, what ``aws configure`` left."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.model.object_settings import account_of, settings_of_spark, settings_of_table
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources.open import source_spec
from flaremq.pipeline.spark.catalog_tables import table_options
from flaremq.pipeline.tables.model.target import parse_target

ACCOUNT = {"fs.s3a.access.key": "AK", "fs.s3a.secret.key": "hush"}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "ENDPOINT_URL", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_what_is_said_of_a_bucket_goes_before_what_is_said_of_all() -> None:
    settings = ACCOUNT | {"fs.s3a.endpoint": "all:9000", "fs.s3a.bucket.logs.endpoint": "http://logs:9000"}
    assert account_of("logs", settings).endpoint == "http://logs:9000"
    assert account_of("others", settings).endpoint == "https://all:9000"


@pytest.mark.parametrize(
    ("settings", "endpoint", "is_path_style"),
    [
        ({}, "", False),
        ({"endpoint": "h:1", "connection.ssl.enabled": "false"}, "http://h:1", True),
        ({"endpoint": "https://h", "path.style.access": "false"}, "https://h", False),
        ({"path.style.access": "TRUE"}, "", True),
    ],
)
def test_endpoint_and_style(settings: dict[str, str], endpoint: str, is_path_style: bool) -> None:
    account = account_of("b", {f"fs.s3a.{name}": text for name, text in settings.items()})
    assert (account.endpoint, account.is_path_style) == (endpoint, is_path_style)


@pytest.mark.parametrize(("text", "seconds"), [("200", 0.2), ("200ms", 0.2), ("30s", 30), ("2m", 120)])
def test_times_are_as_hadoop_writes_them(text: str, seconds: float) -> None:
    assert account_of("b", {"fs.s3a.connection.timeout": text}).timeout_seconds == seconds


def test_environment_is_asked_last_and_its_account_is_never_mixed_with_one_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"ACCESS_KEY_ID": "E", "SECRET_ACCESS_KEY": "es", "SESSION_TOKEN": "et", "REGION": "r"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    found = account_of("b", {})
    assert (found.access_key, found.secret_key, found.session_token, found.region) == ("E", "es", "et", "r")
    found = account_of("b", ACCOUNT)
    assert (found.access_key, found.secret_key, found.session_token, found.region) == ("AK", "hush", "", "r")
    assert account_of("b", {"fs.s3a.aws.credentials.provider": "org.x.AnonymousAWSCredentialsProvider"}).is_anonymous


def test_profile_that_aws_configure_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = D\naws_secret_access_key = ds\n\n[work]\naws_access_key_id=W\n"
        "aws_secret_access_key=a%b\n"
    )
    assert account_of("b", {}).secret_key == "ds"
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert (account_of("b", {}).access_key, account_of("b", {}).secret_key) == ("W", "a%b")


def test_a_secret_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_SECRET", "hush")
    assert account_of("b", ACCOUNT | {"fs.s3a.secret.key": "env:S3_SECRET"}).secret_key == "hush"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fs.s3a.access.key": "AK"}, "half an account: fs.s3a.secret.key is missing"),
        ({"fs.s3a.connection.timeout": "soon"}, "is no number"),
        ({"fs.s3a.path.style.access": "perhaps"}, "neither true nor false"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        account_of("b", settings)


def test_options_of_a_reader_take_them_and_show_no_secret() -> None:
    given = {"FS.S3A.SECRET.KEY": "hush", "fs.s3a.access.key": "AK", "archive": "s3a://b/archive"}
    options = parse_options(given)
    spec = source_spec(options)
    assert account_of("b", spec.objects).secret_key == "hush"
    assert "hush" not in repr(options) + repr(spec) + repr(account_of("b", spec.objects))
    with pytest.raises(InvalidArgumentError, match=r"did you mean fs\.s3a\.access\.key"):
        parse_options({"archive": "s3a://b/archive", "fs.s3a.acces.key": "AK"})


def test_a_table_of_a_catalog_keeps_no_secret() -> None:
    table = {"provider": "flaremq", "option.archive": "s3a://b/a", "option.fs.s3a.secret.key": "hush"}
    with pytest.raises(InvalidArgumentError, match="env:NAME") as refused:
        table_options(table)
    assert "hush" not in str(refused.value)
    assert table_options(table | {"option.fs.s3a.secret.key": "env:S3_SECRET"}) is not None


def test_of_sparks_configuration_what_says_how_to_get_there_is_taken() -> None:
    conf = {
        "spark.hadoop.fs.s3a.access.key": "AK",
        "fs.s3a.bucket.b.endpoint": "http://h",
        "spark.hadoop.fs.s3a.vectored.read.min.seek.size": "128K",
        "spark.app.name": "x",
    }
    assert settings_of_spark(conf) == {"fs.s3a.access.key": "AK", "fs.s3a.bucket.b.endpoint": "http://h"}


def test_a_table_is_reached_by_whichever_names_were_used() -> None:
    of_delta = {"AWS_ACCESS_KEY_ID": "AK", "aws_secret_access_key": "hush", "AWS_ENDPOINT_URL": "http://h:1"}
    assert settings_of_table(of_delta) == ACCOUNT | {"fs.s3a.endpoint": "http://h:1"}
    hadoop = parse_target("delta:s3a://b/t", options=ACCOUNT | {"fs.s3a.endpoint": "http://h:1"})
    told = hadoop.storage_options()
    assert told["AWS_SECRET_ACCESS_KEY"] == "hush" and told["AWS_ALLOW_HTTP"] == "true"
    assert "hush" not in repr(hadoop)
    iceberg = parse_target("iceberg:lake.db.t", options={"s3.access-key-id": "AK", "s3.secret-access-key": "hush"})
    assert account_of("b", iceberg.objects).of_iceberg()["s3.secret-access-key"] == "hush"
