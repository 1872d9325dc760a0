"""Looking texts up. A key stands in one place for all languages, so none can lack in one of them."""

from __future__ import annotations

from collections.abc import Mapping

from flaremq.dashboard.texts.actions import TEXTS as ACTIONS
from flaremq.dashboard.texts.columns import TEXTS as COLUMNS
from flaremq.dashboard.texts.fields import TEXTS as FIELDS
from flaremq.dashboard.texts.frame import TEXTS as FRAME
from flaremq.dashboard.texts.notices import TEXTS as NOTICES
from flaremq.dashboard.texts.pages import TEXTS as PAGES
from flaremq.dashboard.texts.scripts import TEXTS as SCRIPTS
from flaremq.look.format import byte_size, duration, number, percent

LANGUAGES = ("en", "zh")
TABLE: dict[str, tuple[str, str]] = FRAME | COLUMNS | PAGES | NOTICES | ACTIONS | FIELDS | SCRIPTS

_FOR_SCRIPTS = "js."  # keys that scripts use too


class Texts:
    """The texts of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._at = LANGUAGES.index(language)

    def __call__(self, key: str, /, **args: object) -> str:
        """The text of a key with its ``{names}`` filled in; a key that has none is its own text."""
        found = TABLE.get(key)
        if found is None:
            return key
        text = found[self._at]
        # One pass, so that what a stranger named itself is never taken for a place to fill in.
        return text.format_map(_Shown(args)) if "{" in text else text

    def for_scripts(self) -> Mapping[str, str]:
        """What pages hand to their scripts."""
        return {key: text[self._at] for key, text in TABLE.items() if key.startswith(_FOR_SCRIPTS)}


class _Shown(dict[str, object]):
    """Arguments as a person reads them; their names tell what they are."""

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            return "–"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value)
        if name == "ratio":
            return percent(value)
        if name.endswith("bytes"):
            return byte_size(value)
        if name.endswith("_ms"):
            return duration(value)
        return number(round(value, 1))


def lookup(language: str) -> Texts:
    """The texts of a language; of English for one that there is not."""
    return Texts(language if language in LANGUAGES else LANGUAGES[0])
