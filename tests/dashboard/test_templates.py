"""Templates: every page renders with everything in it and with nothing, in every language, and shows names as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from flaremq.dashboard.app.render import Renderer, StaticFiles
from flaremq.dashboard.texts import LANGUAGES
from tests.dashboard.page_samples import HOSTILE, emptied, full_pages

RENDERER = Renderer(StaticFiles())
PAGES = full_pages()
QUERIES: dict[str, list[dict[str, str]]] = {
    "topic": [{"tab": tab} for tab in ("queues", "groups", "messages", "config")],
    "group": [{"tab": tab} for tab in ("queues", "members", "lag", "config")],
    "trace": [{"id": "x"}],
    "messages": [{"topic": HOSTILE, "from": "key:" + HOSTILE, "q": HOSTILE}],
}
CASES = [(page, query) for page in PAGES for query in QUERIES.get(page, [{}])]
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """A page as a browser's parser sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"{tag} ends inside {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def render(page: str, data: Any, query: dict[str, str], *, lang: str = "en", can_change: bool = True) -> str:
    values = {
        "data": data,
        "page": page,
        "query": query,
        "can_change": can_change,
        "csrf": "token",
        "session": {
            "signed_in": can_change,
            "user": HOSTILE,
            "login_possible": True,
            "login_kinds": ["token", "account"],
            "login_needed": not can_change,
        },
        "theme": "auto",
        "live": "./api/live?page=" + page,
        "period_ms": 1000,
        "here": "topics/x?tab=queues",
    }
    return RENDERER.page(f"{page}.html", values, base="../", lang=lang).decode()


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("can_change", [True, False])
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(("page", "query"), CASES)
def test_hostile_names_are_text_on_every_page(page: str, query: dict[str, str], lang: str, can_change: bool) -> None:
    text = render(page, PAGES[page], query, lang=lang, can_change=can_change)
    reader = read(text)
    assert {tag for tag, _ in reader.tags} & {"img", "iframe", "object", "style", "base"} == set()
    for tag, attributes in reader.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        if tag == "script":
            assert "src" in attributes or attributes.get("type") == "application/json"
        for name in ("href", "src", "action"):
            assert not re.match(r"[a-z]+:|//|/", attributes.get(name) or ""), attributes
    shown = "".join(reader.words)
    assert "\u202e" not in shown and "\x07" not in shown and "\x00" not in shown
    if page != "login":
        assert "<img src=x onerror=alert(1)></script>" in shown and "\\u202e\\u0007\\u0000 {{7*7}}" in shown
    [body] = [attributes for tag, attributes in reader.tags if tag == "body"]
    assert body["data-stream"] == f"./api/live?page={page}"
    assert len([tag for tag, _ in reader.tags if tag == "h1"]) == 1
    assert len([tag for tag, _ in reader.tags if tag == "main"]) == 1


@pytest.mark.parametrize(("page", "query"), [case for case in CASES if case[0] not in ("error", "action", "login")])
def test_a_cluster_that_tells_nothing_has_pages_too(page: str, query: dict[str, str]) -> None:
    shown = "".join(read(render(page, emptied(PAGES[page]), query, can_change=False)).words)
    assert not re.search(r"\bNone\b|\bnan\b|Undefined", shown)


@pytest.mark.parametrize(("page", "query"), CASES)
def test_who_may_only_read_is_offered_nothing_that_changes(page: str, query: dict[str, str]) -> None:
    reader = read(render(page, PAGES[page], query, can_change=False))
    posts = {
        attributes.get("action")
        for tag, attributes in reader.tags
        if tag == "form" and attributes.get("method") == "post"
    }
    assert posts <= {"../preferences", "../login", "../logout"}


@pytest.mark.parametrize(("page", "query"), CASES)
def test_every_cell_has_a_head_and_every_field_a_label(page: str, query: dict[str, str]) -> None:
    text = render(page, PAGES[page], query)
    assert not re.search(r"<th(?![^>]*scope=)[ >]", text)
    reader = read(text)
    ids = [attributes["id"] for _, attributes in reader.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    labelled = {attributes.get("for") for tag, attributes in reader.tags if tag == "label"}
    inside = 0
    for match in re.finditer(r"<(/?)(label|input|select|textarea)\b([^>]*)>", text):
        closing, tag, rest = match.groups()
        if tag == "label":
            inside += -1 if closing else 1
        elif not closing and 'type="hidden"' not in rest:
            name = re.search(r'\bid="([^"]*)"', rest)
            assert inside or "aria-label=" in rest or (name and name[1] in labelled), match[0]
