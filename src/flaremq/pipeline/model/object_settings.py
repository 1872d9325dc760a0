"""How an object store is reached: endpoint, region, account. By Hadoop's names, as Spark's users have them already.

``fs.s3a.access.key`` is for all buckets, ``fs.s3a.bucket.NAME.access.key`` for one. What is not given is looked for in
the environment, under the names of Amazon's own tools, by the process that needs it: so a task on another machine has
the account of that machine. A secret that is given may be named instead: ``env:NAME``, ``file:PATH``.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from flaremq.errors import InvalidArgumentError
from flaremq.options import find_unknown_names
from flaremq.secret_place import secret_value

PREFIX: Final = "fs.s3a."
_SCHEMES: Final = ("s3", "s3a", "s3n")
_ANONYMOUS: Final = "anonymous"
_OF_BUCKET: Final = "bucket."
_PROVIDER: Final = "aws.credentials.provider"
_ATTEMPTS: Final = 10
_TIMEOUT: Final = "60s"
_CONNECT_TIMEOUT: Final = "10s"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

# Hadoop's name behind ``fs.s3a.``: what it is where Amazon's tools look for it.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "access.key": ("AWS_ACCESS_KEY_ID",),
    "secret.key": ("AWS_SECRET_ACCESS_KEY",),
    "session.token": ("AWS_SESSION_TOKEN",),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "endpoint.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "path.style.access": (),
    "connection.ssl.enabled": (),
    "attempts.maximum": (),
    "connection.timeout": (),
    "connection.establish.timeout": (),
    _PROVIDER: (),
}
_ACCOUNT: Final = ("access.key", "secret.key", "session.token")
# What delta-rs and PyIceberg call the same.
_ELSEWHERE: Final = {
    "aws_access_key_id": "access.key",
    "aws_secret_access_key": "secret.key",
    "aws_session_token": "session.token",
    "aws_endpoint_url": "endpoint",
    "aws_region": "endpoint.region",
    "s3.access-key-id": "access.key",
    "s3.secret-access-key": "secret.key",
    "s3.session-token": "session.token",
    "s3.endpoint": "endpoint",
    "s3.region": "endpoint.region",
}


def is_object_setting(name: str) -> bool:
    return name.lower().startswith(PREFIX)


def is_object_secret(name: str) -> bool:
    """Whether a setting, in whatever case, is one that nobody may be shown."""
    return is_object_setting(name) and name.lower().endswith(("secret.key", "session.token"))


def object_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that say how object stores are reached; one that nobody knows is refused."""
    found = {}
    for name, text in given.items():
        if is_object_setting(name):
            own = _own_name(name)
            if own not in _NAMES:
                raise InvalidArgumentError(str(find_unknown_names([name], [PREFIX + known for known in _NAMES])[0]))
            found[name] = text.strip()
    return found


def settings_of_spark(conf: Mapping[str, str]) -> dict[str, str]:
    """Those of a Spark configuration, where Hadoop's stand behind ``spark.hadoop.``. Others of ``fs.s3a.`` are about
    how Hadoop itself works, and mean nothing here."""
    plain = {name.removeprefix("spark.hadoop."): text for name, text in conf.items()}
    return {name: text for name, text in plain.items() if is_object_setting(name) and _own_name(name) in _NAMES}


def settings_of_table(options: Mapping[str, str]) -> dict[str, str]:
    """Those of options that were given to delta-rs or PyIceberg by their names."""
    named = {_ELSEWHERE.get(name.lower()): text for name, text in options.items()}
    return {PREFIX + own: text for own, text in named.items() if own is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAccount:
    """All that the clients of a bucket have to be told. Empty text: the client finds out by itself."""

    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    endpoint: str = ""  # with its scheme; empty for Amazon's own
    region: str = ""
    is_path_style: bool = False
    is_anonymous: bool = False
    attempts: int = _ATTEMPTS
    timeout_seconds: float = 60.0
    connect_seconds: float = 10.0

    @property
    def scheme(self) -> str:
        return "http" if self.endpoint.startswith("http://") else "https"

    def of_delta(self) -> dict[str, str]:
        """As delta-rs wants to be told."""
        given = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true" if self.scheme == "http" else "",
            "AWS_SKIP_SIGNATURE": "true" if self.is_anonymous else "",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "" if self.is_path_style else "true",
        }
        return {name: text for name, text in given.items() if text}

    def of_iceberg(self) -> dict[str, str]:
        """As PyIceberg's file systems want to be told."""
        given = {
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.session-token": self.session_token,
            "s3.endpoint": self.endpoint,
            "s3.region": self.region,
            "s3.anonymous": "true" if self.is_anonymous else "",
            "s3.force-virtual-addressing": "" if self.is_path_style or not self.endpoint else "true",
        }
        return {name: text for name, text in given.items() if text}


def is_s3(location: str) -> bool:
    return urlsplit(location).scheme.lower() in _SCHEMES


def bucket_of(location: str) -> str:
    return urlsplit(location).netloc


def account_of(bucket: str, settings: Mapping[str, str]) -> ObjectAccount:
    """How this bucket is reached, from here."""
    given = _of_bucket(bucket, settings)
    provider = given.pop(_PROVIDER, "")
    is_anonymous = _ANONYMOUS in provider.lower()
    if not is_anonymous and not any(name in given for name in _ACCOUNT):
        given |= _account_of_profile()
    endpoint = _endpoint(given.get("endpoint", ""), is_safe=_is_true(given, "connection.ssl.enabled", True))
    account = ObjectAccount(
        access_key=secret_value(given.get("access.key", ""), f"{PREFIX}access.key"),
        secret_key=secret_value(given.get("secret.key", ""), f"{PREFIX}secret.key"),
        session_token=secret_value(given.get("session.token", ""), f"{PREFIX}session.token"),
        endpoint=endpoint,
        region=given.get("endpoint.region", "us-east-1" if endpoint else ""),
        is_path_style=_is_true(given, "path.style.access", bool(endpoint)),
        is_anonymous=is_anonymous,
        attempts=int(_number(given, "attempts.maximum", str(_ATTEMPTS))),
        timeout_seconds=_seconds(given, "connection.timeout", _TIMEOUT),
        connect_seconds=_seconds(given, "connection.establish.timeout", _CONNECT_TIMEOUT),
    )
    if bool(account.access_key) != bool(account.secret_key):
        lacking = "secret.key" if account.access_key else "access.key"
        raise InvalidArgumentError(f"bucket {bucket} is given half an account: {PREFIX}{lacking} is missing")
    return account


def _own_name(name: str) -> str:
    """Behind ``fs.s3a.``, and behind the bucket if one is named."""
    own = name.lower().removeprefix(PREFIX)
    if own.startswith(_OF_BUCKET):
        for known in _NAMES:
            if own.endswith(f".{known}"):
                return known
    return own


def _of_bucket(bucket: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by their own names: what is said of the bucket before what is said of all, the environment last."""
    found = {}
    is_told = any(_own_name(name) in _ACCOUNT for name in settings)
    for own, variables in _NAMES.items():
        if is_told and own in _ACCOUNT:
            variables = ()  # half of one account and half of another would be none
        values = [os.environ.get(variable, "") for variable in variables]
        folded = {name.lower(): text for name, text in settings.items()}
        values = [folded.get(f"{PREFIX}{_OF_BUCKET}{bucket}.{own}", ""), folded.get(PREFIX + own, ""), *values]
        value = next((value for value in values if value), None)
        if value is not None:
            found[own] = value
    return found


def _account_of_profile() -> dict[str, str]:
    """What ``aws configure`` left, if it is a plain account: not every client here would look there."""
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    profiles = configparser.RawConfigParser()
    try:
        profiles.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    profile = os.environ.get("AWS_PROFILE", "default")
    if not profiles.has_section(profile):
        return {}
    found = {name: profiles.get(profile, _NAMES[name][0].lower(), fallback="") for name in _ACCOUNT}
    return {name: value for name, value in found.items() if value}


def _endpoint(text: str, *, is_safe: bool) -> str:
    if not text or "://" in text:
        return text.rstrip("/")
    return f"{'https' if is_safe else 'http'}://{text.rstrip('/')}"


def _is_true(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise InvalidArgumentError(f"{PREFIX}{name}={text!r} is neither true nor false")
    return text == "true" if text else default


def _number(given: Mapping[str, str], name: str, default: str) -> float:
    text = given.get(name, default)
    try:
        number = float(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise InvalidArgumentError(f"{PREFIX}{name}={text!r} is no number greater than 0")
    return number


def _seconds(given: Mapping[str, str], name: str, default: str) -> float:
    """As Hadoop writes them: ``30s``, ``2m``; a plain number is milliseconds."""
    text = given.get(name, default).strip().lower()
    unit = next((unit for unit in ("ms", "s", "m", "h") if text.endswith(unit)), "")
    return _number({name: text.removesuffix(unit)}, name, default) * _UNITS[unit or "ms"]
