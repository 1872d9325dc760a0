"""The report page: escaped, well formed, on its own."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import pytest

from flaremq.look.charts import Column, column_chart, nice_ceiling, time_chart
from flaremq.look.format import (
    byte_size,
    compact,
    duration,
    escaped,
    moment,
    number,
    shortened,
    visible,
)
from flaremq.pipeline.jobs.report.html import render_page
from tests.pipeline.report_samples import HOSTILE, empty_document, full_document


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


@pytest.mark.parametrize("document", [empty_document(), full_document(), full_document("<plain>")])
def test_the_page_is_well_formed_and_asks_nobody_for_anything(document: dict[str, Any]) -> None:
    page = render_page(document)
    root = parsed(page)
    assert re.search(r"https?:", page) is None and "//" not in page.replace("</", "")
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    for element in root.iter():
        assert not [name for name in element.attrib if name.startswith("on") or name in ("src", "style")]
        assert element.get("href", "#").startswith("#")


def test_the_policy_allows_the_style_sheet_by_its_hash_and_nothing_else() -> None:
    root = parsed(render_page(full_document()))
    (meta,) = [tag for tag in root.iter("meta") if tag.get("http-equiv") == "Content-Security-Policy"]
    (style,) = root.iter("style")
    digest = base64.b64encode(hashlib.sha256((style.text or "").encode()).digest()).decode()
    assert meta.get("content") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name: str) -> None:
    page = render_page(full_document(name))
    root = parsed(page)
    shown = shortened(visible(name))
    cells = [cell.text for cell in root.iter("td") if cell.get("class") == "name"]
    assert shown in cells
    assert "<script" not in page and "\u202e" not in page and "\x00" not in page
    # A lenient parser sees the same elements: nothing hides in what XML takes for text.
    assert _tags_seen_by_html(page) == [element.tag for element in root.iter()]


def test_an_empty_report_says_so_in_every_section() -> None:
    root = parsed(render_page(empty_document()))
    sections = list(root.iter("section"))
    assert len(sections) == 11
    for section in sections:
        assert [p for p in section.iter("p") if p.get("class") == "none"], section.get("id")


def test_every_link_of_the_page_leads_to_a_section() -> None:
    root = parsed(render_page(full_document()))
    targets = {section.get("id") for section in root.iter("section")}
    assert {link.get("href", "")[1:] for link in root.iter("a")} == targets


def test_headline_numbers_and_notices_are_on_the_page() -> None:
    document = full_document()
    text = "".join(parsed(render_page(document)).itertext())
    assert f"{document['summary']['messages']:,}" in text
    for notice in document["notices"]:
        assert notice["text"] in text


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    document = copy.deepcopy(full_document())
    row = document["traffic"]["topics"][0]
    document["traffic"]["topics"] = [row | {"topic": f"t{at}"} for at in range(33)]
    assert "and 13 more topics" in render_page(document)


def test_charts_show_every_column_and_its_parts() -> None:
    chart = column_chart(
        [Column("a", (1, 2), "first"), Column("b", (0, 0), "second")], names=("x", "y"), caption="a <chart>"
    )
    root = ElementTree.fromstring(chart)
    (svg,) = [svg for svg in root.iter("svg") if svg.get("role") == "img"]
    assert [title.text for title in svg.iter("title")] == ["first", "second"]
    assert [rect.get("class") for rect in svg.iter("rect")] == ["hit", "s0", "s1", "hit"]
    heights = [float(rect.get("height", "0")) for rect in svg.iter("rect") if rect.get("class") != "hit"]
    assert heights[1] == 2 * heights[0]


def test_a_time_chart_puts_many_steps_together_and_loses_none() -> None:
    steps = [(at * 1000, (1,)) for at in range(0, 1000, 3)]
    root = ElementTree.fromstring(time_chart(steps, step_s=1, names=("m",), what="messages"))
    hints = [title.text or "" for title in root.iter("title")]
    assert len(hints) <= 120
    assert sum(int(hint.split(", ")[1].split()[0]) for hint in hints) == len(steps)


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (1, 1), (3, 4), (7, 10), (41, 50), (99, 100), (101, 200), (0.3, 0.4)]
)
def test_axes_end_at_round_numbers(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


def test_values_are_formatted_for_people() -> None:
    assert (number(1234567), number(1.25), number(None)) == ("1,234,567", "1.2", "–")
    assert (byte_size(0), byte_size(1023), byte_size(1536), byte_size(2**40)) == ("0 B", "1023 B", "1.5 KiB", "1 TiB")
    assert (duration(0), duration(999), duration(1500), duration(7_200_000)) == ("0 ms", "999 ms", "1.5 s", "2 h")
    assert (compact(999), compact(12345), compact(1e6), compact(0.5)) == ("999", "12.3k", "1M", "0.5")
    assert moment(0) == "1970-01-01 00:00:00" and moment(2**62).endswith(" ms")
    assert visible("a\u202eb\n") == "a\\u202eb\\u000a" and escaped("<'\"&>") == "&lt;&#x27;&quot;&amp;&gt;"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def _tags_seen_by_html(page: str) -> list[str]:
    parser = _Tags()
    parser.feed(page)
    return parser.seen
