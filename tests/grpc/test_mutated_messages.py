"""Any request, however it was changed on its way or made up, is answered with a status, and breaks nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.grpc.mutation import errors_logged, mutated_calls


def check(count: int, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    faults: list[str] = []
    with caplog.at_level(logging.ERROR):
        answers = asyncio.run(mutated_calls(count, seed, faults))
    faults += errors_logged(caplog.records)
    assert faults == [], f"seed {seed}: {len(faults)} of {count}"
    assert answers.total() == count
    assert len(answers) >= 15, answers  # many different answers: the changes reach far
    print(f"{count} requests, seed {seed}: {dict(answers.most_common())}")


def test_a_sample_of_changed_requests(caplog: pytest.LogCaptureFixture) -> None:
    check(2_000, 1, caplog)


@pytest.mark.soak
def test_a_hundred_thousand_changed_requests(caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(10):
        check(10_000, seed, caplog)
