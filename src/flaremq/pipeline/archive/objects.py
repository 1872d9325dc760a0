"""Objects of an S3-compatible store: PyArrow reads and writes them; a commit is written if nobody else has.

PyArrow has no conditional writes, so a commit goes through ``obstore``: ``PUT`` with ``If-None-Match: *``. The store
decides between writers that come at the same moment. An answer that is lost leaves open what became of the request;
then the object itself tells, for no two writers ever write the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.model.object_settings import PREFIX, ObjectAccount, account_of

if TYPE_CHECKING:
    from obstore.store import S3Store

_log = logging.getLogger(__name__)
_TRIES: Final = 6
_PAUSE_SECONDS: Final = 0.2  # doubled after each try
# What PyArrow takes behind the ? of an address, and what it is here.
_IN_ADDRESS: Final = {"endpoint_override": "endpoint", "region": "endpoint.region"}


class ObjectStore:
    """One bucket, or the part of it that an address names; ``base`` is that place as PyArrow has it."""

    def __init__(self, location: str, settings: Mapping[str, str]) -> None:
        parts = urlsplit(location)
        if "@" in parts.netloc or not parts.netloc:
            raise InvalidArgumentError(
                f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}: write s3://bucket/folder; the "
                "account is given in the environment (AWS_ACCESS_KEY_ID, …) or as options (fs.s3a.access.key, …)"
            )
        self.bucket = parts.netloc
        self.base = f"{self.bucket}/{parts.path.strip('/')}".rstrip("/")
        self.account = account_of(self.bucket, {**_settings_of(location, parts.query), **settings})
        self.files = fs.S3FileSystem(**_arrow_arguments(self.account, self.bucket))

    def create(self, path: str, data: bytes, read: Callable[[], bytes | None]) -> None:
        """An object at this path of the bucket, complete, if there is none; UnavailableError if there is another.

        ``read`` gives what is there by now.
        """
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError, BaseError
        except ModuleNotFoundError:
            raise UnavailableError(
                "writing an archive to s3:// needs the package obstore, which is not installed: pip install obstore "
                "(the extra [s3] of flaremq has it)"
            ) from None
        store = self._conditional()
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_SECONDS * 2**attempt)
            try:
                obstore.put(store, path, data, mode="create")
                return
            except AlreadyExistsError:
                pass  # by another writer, or by a request of this one whose answer was lost
            except BaseError as error:
                failure = str(error).partition("\n")[0]
                _log.warning("no answer to the commit of %s (%s); looking whether it is there", path, failure)
                if read() is None:
                    continue
            if read() == data:
                return
            raise UnavailableError(f"{self.bucket}/{path} was written by another job at the same time; start again")
        raise UnavailableError(f"{self.bucket}/{path} cannot be written: {failure}")

    def _conditional(self) -> S3Store:
        from obstore.store import S3Store

        account = self.account
        config: Any = {"virtual_hosted_style_request": not account.is_path_style}
        config |= _given(
            access_key_id=account.access_key,
            secret_access_key=account.secret_key,
            token=account.session_token,
            endpoint=account.endpoint,
            region=account.region or self.files.region,
        )
        if account.is_anonymous:
            config["skip_signature"] = True
        return S3Store(
            self.bucket,
            config=config,
            client_options={
                "allow_http": account.scheme == "http",
                "timeout": timedelta(seconds=account.timeout_seconds),
                "connect_timeout": timedelta(seconds=account.connect_seconds),
            },
            retry_config={"max_retries": account.attempts - 1},
        )


def _settings_of(location: str, query: str) -> dict[str, str]:
    found = dict(parse_qsl(query))
    if not {*_IN_ADDRESS, "scheme"}.issuperset(found):
        raise InvalidArgumentError(
            f"{location.partition('?')[0]}: behind ? only endpoint_override, scheme and region are known; the rest are "
            f"options ({PREFIX}…)"
        )
    settings = {PREFIX + own: found[name] for name, own in _IN_ADDRESS.items() if name in found}
    if found.get("scheme") == "http":
        settings[f"{PREFIX}connection.ssl.enabled"] = "false"
    return settings


def _arrow_arguments(account: ObjectAccount, bucket: str) -> dict[str, object]:
    arguments: dict[str, object] = {
        "request_timeout": account.timeout_seconds,
        "connect_timeout": account.connect_seconds,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=account.attempts),
    }
    arguments |= _given(
        access_key=account.access_key,
        secret_key=account.secret_key,
        session_token=account.session_token,
        anonymous=account.is_anonymous,
        region=account.region or fs.resolve_s3_region(bucket),
    )
    if account.endpoint:
        arguments |= {"endpoint_override": account.endpoint.partition("://")[2], "scheme": account.scheme}
        arguments["force_virtual_addressing"] = not account.is_path_style
    return arguments


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
