"""Every call to the disk fails in every way; see ``io_errors``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation import bounded, io_errors

_SHARES = 4


def _fail_calls(case: io_errors.Case, step: int, record_property: Callable[[str, object], None]) -> None:
    """Fail the call of the case, and every ``step``-th after it, each in a run of its own."""
    images, at = 0, case.at
    while (checked := io_errors.check_case(replace(case, at=at))) is not None:
        images += checked
        at += step
    assert at > 20, "the script makes far more calls than that"
    record_property("crash images", images)
    record_property("failed disk calls", at // step)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("kind", io_errors.KINDS)
@pytest.mark.parametrize("mode", bounded.MODES)
def test_a_failing_disk_call_is_answered_and_costs_nothing_promised(
    mode: str, kind: io_errors.Kind, forever: bool, record_property: Callable[[str, object], None]
) -> None:
    """Every other call, the odd ones in one mode and the even ones in the other; the soak test below takes all."""
    first = 1 + bounded.MODES.index(mode)
    _fail_calls(io_errors.Case(mode, kind, forever, first), len(bounded.MODES), record_property)


@pytest.mark.soak
@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("kind", io_errors.KINDS)
@pytest.mark.parametrize("mode", bounded.MODES)
def test_any_failing_disk_call_is_answered_and_costs_nothing_promised(
    mode: str, kind: io_errors.Kind, forever: bool, share: int, record_property: Callable[[str, object], None]
) -> None:
    _fail_calls(io_errors.Case(mode, kind, forever, 1 + share), _SHARES, record_property)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("kind", io_errors.KINDS)
@pytest.mark.parametrize("mode", bounded.MODES)
def test_a_disk_call_that_fails_during_recovery_leaves_a_store_that_opens(
    mode: str, kind: io_errors.Kind, forever: bool, record_property: Callable[[str, object], None]
) -> None:
    images, at = 0, 1
    while (checked := io_errors.check_recovery_case(io_errors.Case(mode, kind, forever, at))) is not None:
        images += checked
        at += 1
    assert at > 2
    record_property("crash images", images)
    record_property("failed disk calls", at)
