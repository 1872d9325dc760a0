"""The page says what was measured, when, on what and beside which load, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.child import PROJECT
from benchmarks.page import command, limits, merge, page, values
from benchmarks.page.limits import Limit

RECORDED = Path(__file__).parent / "recorded.json"
HEADINGS = {"put": ("Putting", "One thread."), "growth": ("Cost as work grows", "Times of a processor.")}
WORDS = [Limit(("put: put 1 KB", "put: put 4 KB"), "The page cache.", "Larger pages: nothing.")]


@pytest.fixture
def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RECORDED.read_text())
    return document


def render(*documents: dict[str, Any]) -> str:
    return page.render(merge.merged(list(documents)), HEADINGS, WORDS)


def test_the_page_of_a_recorded_result_is_the_recorded_page(recorded: dict[str, Any]) -> None:
    assert render(recorded) == (RECORDED.with_suffix(".md")).read_text(encoding="utf-8")


def test_a_part_beside_other_work_is_marked(recorded: dict[str, Any]) -> None:
    assert "**Beside other work:**" not in render(recorded)
    recorded["parts"][0]["load"] |= {"is_loaded": True, "reasons": ["others used 1.0 cores meanwhile"]}
    text = render(recorded)
    assert "**Beside other work:** others used 1.0 cores meanwhile. Repeat it" in text
    assert "| [Putting](#putting) | 2026-11-18 (quick) | 1 of 2 | no |" in text


def test_an_interrupted_part_is_marked(recorded: dict[str, Any]) -> None:
    assert "interrupted" not in render(recorded)
    recorded["parts"][0] |= {"load": None, "complete": False}
    assert "**The run was interrupted:**" in render(recorded)


def test_the_newest_wins_a_line_and_the_rest_stays(recorded: dict[str, Any]) -> None:
    newer: dict[str, Any] = json.loads(RECORDED.read_text())
    newer["date"] = newer["parts"][0]["date"] = "2026-11-19T10:00:00+00:00"
    newer["parts"] = newer["parts"][:1]
    newer["parts"][0]["lines"] = newer["parts"][0]["lines"][:1]
    newer["parts"][0]["lines"][0]["ours"]["median"] = 123_456
    for order in ([recorded, newer], [newer, recorded]):
        text = render(*order)
        assert "| put 1 KB [1] | 123k msg/s |" in text, "from the newer one"
        assert "| · p99 a call † [2] | 4.4 µs |" in text, "only the older one has it"
        assert "[1] Measured 2026-11-19 10:00 UTC" in text and "[2] Measured 2026-11-18 08:00 UTC" in text
        assert "10,000 messages" in text


def test_a_line_below_another_stays_there_when_results_are_merged(recorded: dict[str, Any]) -> None:
    newer: dict[str, Any] = json.loads(RECORDED.read_text())
    newer["date"] = "2026-11-19T10:00:00+00:00"
    lines = newer["parts"][0]["lines"]
    newer["parts"][0]["lines"] = [lines[0], lines[2]]
    section = merge.merged([newer, recorded])["put"]
    assert list(section.lines) == ["put 1 KB", "put 1 KB: p99 a call", "idle memory"]


def test_words_stand_below_the_table_only_while_a_line_is_below_its_goal(recorded: dict[str, Any]) -> None:
    assert "- **put 1 KB**: The page cache. Tried: Larger pages: nothing." in render(recorded)
    recorded["parts"][0]["lines"][0]["reached"] = True
    assert "The page cache" not in render(recorded)


def test_a_line_below_its_goal_without_words_says_so(recorded: dict[str, Any]) -> None:
    text = page.render(merge.merged([recorded]), HEADINGS, [])
    assert "- **put 1 KB**: not looked into yet." in text


def test_words_about_what_was_not_measured_are_found(recorded: dict[str, Any]) -> None:
    assert page.unknown_limits(merge.merged([recorded]), WORDS) == ["put: put 4 KB"]


def test_a_result_of_another_format_is_refused(
    tmp_path: Path, recorded: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    recorded["format"] = 99
    (tmp_path / "result.json").write_text(json.dumps(recorded))
    assert command.main([str(tmp_path / "result.json"), "--to", str(tmp_path / "page.md")]) == 2
    assert "a result of format 99" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    assert command.main([str(RECORDED), "--to", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Performance\n")


def test_the_page_in_docs_is_what_the_kept_results_say() -> None:
    text, unknown = command.make(command.kept())
    assert (PROJECT / "docs" / "performance.md").read_text(encoding="utf-8") == text, "python -m benchmarks report"
    assert unknown == []


def test_the_words_that_are_kept_can_be_read() -> None:
    assert all(line.count(": ") >= 1 for limit in limits.read() for line in limit.lines)


def test_words_without_a_line_are_refused(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text('[[limit]]\nlimits = "The disk."\n')
    with pytest.raises(ValueError, match="needs lines and limits"):
        limits.read(tmp_path / "limits.toml")


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (1_464_000, "msg/s", "1.46M msg/s"),
        (292_310, "msg/s", "292k msg/s"),
        (811, "us", "811 µs"),
        (2_400, "us", "2.4 ms"),
        (0.0068, "s", "6.8 ms"),
        (3.13, "s", "3.13 s"),
        (35.96, "MB", "36 MB"),
        (1.57, "GB/s", "1.57 GB/s"),
        (0, "s", "0 µs"),
        (None, "s", ""),
    ],
)
def test_numbers_have_three_digits_and_a_unit(number: float | None, unit: str, text: str) -> None:
    assert values.value(number, unit) == text
