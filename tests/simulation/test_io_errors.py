"""Every call to the disk fails in every way; see ``io_errors``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import bounded, io_errors

_SHARES = 4


@pytest.mark.parametrize("share", range(_SHARES))
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("kind", io_errors.KINDS)
@pytest.mark.parametrize("mode", bounded.MODES)
def test_a_failing_disk_call_is_answered_and_costs_nothing_promised(
    mode: str, kind: io_errors.Kind, forever: bool, share: int, record_property: Callable[[str, object], None]
) -> None:
    images, at = 0, 1 + share
    while (checked := io_errors.check_case(io_errors.Case(mode, kind, forever, at))) is not None:
        images += checked
        at += _SHARES
    assert at > 20, "the script makes far more calls than that"
    record_property("crash images", images)
    record_property("failed disk calls", at // _SHARES)


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
