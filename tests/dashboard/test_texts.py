"""Texts: complete in every language, used, and harmless to fill in."""

from __future__ import annotations

import re
import string
from pathlib import Path

import flaremq.dashboard
from flaremq.dashboard.texts import LANGUAGES, lookup
from flaremq.dashboard.texts.lookup import TABLE

FOLDER = Path(flaremq.dashboard.__file__).parent
# Names that are the same word in Chinese pages: of products and of RocketMQ itself.
SAME_IN_BOTH = {"Broker", "Spark", "POP", "gRPC", "JSON", "TLS", "Key", "ACL {n}", "ID", "AccessKey", "SecretKey"}
CHOSEN_BY_DATA = ("notice.", "reason.", "effect.", "row.", "error.", "role.", "kind.")


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_stands_in_every_language_with_the_same_places() -> None:
    wrong = []
    for key, texts in TABLE.items():
        assert len(texts) == len(LANGUAGES)
        english, chinese = texts
        is_chinese = chinese in SAME_IN_BOTH or bool(re.search(r"[\u4e00-\u9fff]", chinese))
        if not english.strip() or not is_chinese or places(english) != places(chinese):
            wrong.append(key)
    assert wrong == []


def test_templates_and_scripts_use_what_there_is_and_all_of_it() -> None:
    used, beginnings = set(), set(CHOSEN_BY_DATA)
    for path in (FOLDER / "templates").glob("*.html"):
        for match in re.finditer(r"\bt\(\s*(['\"])([a-z0-9_.]+)\1(\s*~)?", path.read_text(encoding="utf-8")):
            (beginnings if match[3] else used).add(match[2])
    for path in (FOLDER / "static").glob("*.js"):
        used |= set(re.findall(r"\"(js\.[a-z_]+)\"", path.read_text(encoding="utf-8")))
    assert used - TABLE.keys() == set()
    assert {key for key in TABLE.keys() - used if not key.startswith(tuple(beginnings))} == set()


def test_what_is_filled_in_is_never_filled_itself() -> None:
    assert "{client} {0.__class__}" in lookup("en")("notice.no_member", group="{client} {0.__class__}", lag=1)


def test_what_is_filled_in_is_shown_as_a_person_reads_it() -> None:
    assert lookup("en")("notice.disk_filling", broker="b", ratio=0.913) == "The disk of broker b is 91% used."
    assert "12,345 messages" in lookup("en")("notice.no_member", group="g", lag=12345)
    assert "–" in lookup("zh")("notice.no_member", group="g", lag=None)


def test_an_unknown_language_is_english_and_an_unknown_key_its_own_text() -> None:
    assert lookup("tlh")("nav.topics") == "Topics"
    assert lookup("zh")("no.such.key") == "no.such.key"
