"""Curves without axes and with them: holes, names of strangers, nothing to draw."""

from __future__ import annotations

from xml.etree import ElementTree

from flaremq.look.charts import line_chart, sparkline
from flaremq.look.format import duration


def runs(svg: str) -> list[int]:
    """How many points each unbroken stretch has."""
    return [len(line.attrib["points"].split()) for line in ElementTree.fromstring(svg).iter("polyline")]


def test_a_late_sample_does_not_break_a_curve_and_a_longer_silence_does() -> None:
    assert runs(sparkline([1.0, None, 2.0, None, None, None, 3.0])) == [3]
    assert runs(sparkline([1.0, 2.0, None, None, None, None, 3.0])) == [2, 1]


def test_there_is_nothing_to_draw_of_less_than_two_points() -> None:
    assert sparkline([]) == sparkline([None, 1.0, None]) == ""
    assert line_chart([("in", [None, None])], "x") == ""


def test_a_curve_stays_inside_its_box() -> None:
    for svg in (sparkline([0.0, 1e12, -5.0]), sparkline([0.0, 0.0])):
        for shape in ElementTree.fromstring(svg):
            for pair in shape.attrib["points"].split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= 100 and 0 <= y <= 100


def test_names_of_strangers_are_text_in_charts() -> None:
    hostile = '"><script>\u202e'
    chart = line_chart([(hostile, [1.0, 2.0]), ("out", [2.0, 1.0])], hostile)
    assert "<script" not in chart and "\u202e" not in chart
    lines = ElementTree.fromstring(f"<x>{chart}</x>").iter("polyline")
    assert [line.attrib["class"] for line in lines] == ["line s0", "line s1"]
    assert "<script" not in sparkline([1.0, 2.0], hostile)


def test_lengths_of_time_have_three_digits_and_no_exponent() -> None:
    shown = [duration(value) for value in (0.04, 0.5, 9.94, 12.6, 999, 59_999, 1_234 * 86_400_000)]
    assert shown == ["0.04 ms", "0.5 ms", "9.94 ms", "13 ms", "999 ms", "60 s", "1,234 d"]


def test_a_long_course_is_drawn_in_few_points_and_keeps_its_peak() -> None:
    points = [1.0] * 900
    points[437] = 100.0
    svg = sparkline(points)
    assert len(svg) < 6_000
    assert ",1.0 " in svg, "the top of the picture is reached"
    assert runs(sparkline([1.0] * 300 + [None] * 300 + [1.0] * 300)) == [60, 60]
