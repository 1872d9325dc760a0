"""Fixtures of the interop tests: which RocketMQ releases can run here.

A machine without a JDK or without the jars skips; with FLAREMQ_INTEROP_REQUIRED=1 (as `make interop` and CI
set it) that is a failure instead, so that a broken set-up cannot pass for a green run.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.interop import jvm


def _require(version: str) -> None:
    reason = jvm.why_not(version)
    if reason is None:
        return
    if os.environ.get("FLAREMQ_INTEROP_REQUIRED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_rocketmq() -> Callable[[str], None]:
    """Skip (or fail) unless the given release can be run."""
    return _require


@pytest.fixture(scope="session", params=jvm.pinned_versions())
def version(request: pytest.FixtureRequest) -> str:
    """Each pinned release in turn."""
    release: str = request.param
    _require(release)
    return release
