"""The arithmetic between what was measured and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import compare
from benchmarks.rounds import OURS, Figure, Measurement, Outcome, turns


def outcome(figure: Figure, ours: list[float], **theirs: list[float]) -> Outcome:
    def rows(values: list[float]) -> list[dict[str, Any]]:
        return [{"round": number, "rate": value} for number, value in enumerate(values, 1)]

    sides = {name: rows(values) for name, values in theirs.items()}
    return Outcome(Measurement(name="m", figures=(figure,)), rows(ours), sides)


def line(figure: Figure, ours: list[float], **theirs: list[float]) -> dict[str, Any]:
    (found,) = compare.lines_of(outcome(figure, ours, **theirs))
    return found


RATE = Figure(label="rate", unit="msg/s", ours="rate", theirs="rate", wanted_ratio=1.1)
TIME = Figure(label="time", unit="s", ours="rate", theirs="rate", less_is_better=True, wanted_ratio=2.0)


def test_the_ratio_is_the_median_of_rounds_with_its_spread() -> None:
    found = line(RATE, [100, 300, 120], java=[100, 100, 100])
    assert found["ratio"] == {"median": 1.2, "low": 1.0, "high": 3.0, "samples": [1.0, 3.0, 1.2]}
    assert found["ours"] == {"median": 120, "samples": [100, 300, 120]}
    assert found["reached"] is True


def test_less_is_better_turns_the_ratio_around() -> None:
    found = line(TIME, [1.0], java=[1.5])
    assert found["ratio"]["median"] == 1.5
    assert found["reached"] is False


@pytest.mark.parametrize(("figure", "best"), [(RATE, "fast"), (TIME, "slow")])
def test_the_better_one_of_several_peers_counts(figure: Figure, best: str) -> None:
    assert line(figure, [10], slow=[5], fast=[20])["best"] == best


def test_a_figure_can_be_about_one_peer() -> None:
    figure = Figure(label="rate", unit="msg/s", ours="rate", theirs="rate", peer="slow")
    found = line(figure, [10], slow=[5], fast=[20])
    assert found["best"] == "slow" and list(found["theirs"]) == ["slow"]


def test_rounds_are_compared_with_each_other_even_if_one_is_missing() -> None:
    made = outcome(RATE, [10, 20, 30], java=[10, 20, 30])
    del made.theirs["java"][0]
    (found,) = compare.lines_of(made)
    assert found["ratio"]["samples"] == [1.0, 1.0]


def test_what_was_reached_before_may_vary_by_a_twentieth() -> None:
    figure = Figure(label="rate", unit="msg/s", ours="rate", theirs="rate", kept_ratio=2.0)
    assert line(figure, [191], java=[100])["reached"] is True
    assert line(figure, [189], java=[100])["reached"] is False


def test_a_bound_is_about_our_own_figure() -> None:
    figure = Figure(label="memory", unit="MB", ours="rate", less_is_better=True, wanted_bound=45)
    assert line(figure, [45])["reached"] is True
    assert line(figure, [46])["reached"] is False


def test_nothing_is_reached_where_nothing_was_compared() -> None:
    found = line(RATE, [10])
    assert found["reached"] is None and "ratio" not in found


def test_a_line_below_another_is_told_apart_by_both_names() -> None:
    below = Figure(label="  p99", unit="us", ours="rate")
    made = Outcome(Measurement(name="m", figures=(RATE, below)), [{"round": 1, "rate": 1}])
    assert [found["key"] for found in compare.lines_of(made)] == ["rate", "rate: p99"]


def test_a_run_beside_others_is_marked() -> None:
    made = outcome(RATE, [1], java=[1])
    made.theirs["java"][0] |= {"cpu_other_s": 2.0, "seconds": 4.0}
    (found,) = compare.lines_of(made)
    assert found["busy"] is True
    assert compare.busy_note(made) == ["m: others used up to 0.5 cores meanwhile; repeat it on a quiet machine"]


def test_sides_take_turns_and_each_is_first_once() -> None:
    order: list[str] = []

    def measure(side: str) -> dict[str, Any]:
        order.append(side)
        return {"rate": 1}

    made = turns("m", (RATE,), 2, (OURS, "java"), measure)
    assert order == [OURS, "java", "java", OURS]
    assert [row["round"] for row in made.ours] == [1, 2]


def test_rounds_to_warm_up_do_not_count() -> None:
    made = turns("m", (RATE,), 1, (OURS, "java"), lambda side: {"rate": 1}, warm_rounds=2)
    assert len(made.ours) == len(made.theirs["java"]) == 1


def test_a_side_that_fails_twice_is_left_out_and_told() -> None:
    calls: list[str] = []

    def measure(side: str) -> dict[str, Any]:
        calls.append(side)
        if side == "java":
            raise RuntimeError("no jars")
        return {"rate": 1}

    made = turns("m", (RATE,), 4, (OURS, "java"), measure)
    assert calls.count("java") == 2 and len(made.ours) == 4
    assert made.errors == ["m, java: no jars"] * 2
