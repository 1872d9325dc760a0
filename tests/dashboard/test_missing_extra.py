"""Without its extra the dashboard says what to install."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from flaremq.dashboard.service import check_installed
from flaremq.errors import UnavailableError


def test_missing_packages_are_named_with_a_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in ("jinja2", "uvicorn") else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(UnavailableError, match=r"needs jinja2 and uvicorn: pip install jinja2 uvicorn \("):
        check_installed()
