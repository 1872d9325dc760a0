"""The marker of the fast core; see ``combinations`` for what the tests here put together."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "wire_core: the part of the tests over the wire that takes three minutes at most"
    )
