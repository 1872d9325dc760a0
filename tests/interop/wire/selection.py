"""Which tests run: skips that explain themselves, and the values that the selected tests of a function have."""

from __future__ import annotations

import os

import pytest


def require(reason: str | None) -> None:
    """Skip, or fail where a skip could pass for a green run."""
    if reason is None:
        return
    if os.environ.get("FLAREMQ_INTEROP_REQUIRED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def selected(request: pytest.FixtureRequest, parameter: str, **others: object) -> tuple[str, ...]:
    """The values of a parameter in the selected tests of the same function, where the other parameters are these."""
    function = request.node.function
    found: list[str] = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.function is function:
            values = item.callspec.params
            name = str(values[parameter])
            if name not in found and all(values[other] == value for other, value in others.items()):
                found.append(name)
    return tuple(found)
