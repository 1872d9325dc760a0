"""Statements that are kept: a server of Spark Connect writes down what it is asked, options included.

A client of Connect sends options as texts inside of its plan, and the server shows that plan on its page of sessions
and writes it to the event log, before anybody else sees it. Spark hides no option there (4.3). So a secret is named in
such a session, never given; who gives one hears that it is in the log now.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError
from flaremq.options import rows
from flaremq.pipeline.model.object_settings import is_object_secret
from flaremq.secret_place import names_a_secret

_SECRETS: Final = {row.key.lower(): row.key for row in rows(ClientOptions) if row.secret}


def check_secrets(options: Mapping[str, str]) -> None:
    """Refuse secrets among the options of a source or sink that a server of Spark Connect was asked for."""
    if not _is_behind_connect():
        return
    for given, text in options.items():  # in small letters
        name = given.lower() if is_object_secret(given) else _SECRETS.get(given.lower())
        if name is not None and text and not names_a_secret(text):
            raise InvalidArgumentError(
                f"{name} is given to a session of Spark Connect, whose server shows statements with their options on "
                f"its pages and keeps them in its event log, this one too: change that secret, and write {name} "
                "'env:NAME' or 'file:PATH' for where the server and its executors find it"
            )


def _is_behind_connect() -> bool:
    """Whether this process plans for a server of Connect. Spark tells its planners by nothing else: sessions of Connect
    have artifacts of their own, programs with a driver of their own have none until they add some."""
    environment = os.environ
    return (
        environment.get("SPARK_JOB_ARTIFACT_UUID", "default") != "default"
        and environment.get("SPARK_CONNECT_MODE") != "0"
    )
