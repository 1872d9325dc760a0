"""Templates: rendered on the server, all values escaped; what links and static files look like."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
import orjson

from flaremq.dashboard.markup import furnish
from flaremq.dashboard.texts import lookup
from flaremq.digits import whole_number
from flaremq.look.format import byte_size, duration, moment, number, percent
from flaremq.visible import visible

_NOTHING: Final = "–"
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
}


class StaticFiles:
    """The files of ``static/`` as they were when we started: nothing of a request becomes a path."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        self._versions: dict[str, str] = {}
        self._collect(resources.files("flaremq.dashboard") / "static", "")

    def _collect(self, folder: Any, prefix: str) -> None:
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir():
                self._collect(entry, f"{prefix}{entry.name}/")
            elif (kind := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
                content = entry.read_bytes()
                self.files[prefix + entry.name] = (content, kind)
                self._versions[prefix + entry.name] = hashlib.sha256(content).hexdigest()[:12]

    def version(self, name: str) -> str:
        return self._versions.get(name, "")


class Renderer:
    """Renders pages."""

    def __init__(self, static: StaticFiles) -> None:
        self._static = static
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("flaremq.dashboard"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.filters.update(FILTERS)
        furnish(self._environment)

    def page(self, template: str, values: Mapping[str, Any], *, base: str, lang: str) -> bytes:
        """``base`` is the way back to the root."""
        found = self._environment.get_template(template)
        text = found.render(
            **values,
            base=base,
            lang=lang,
            t=lookup(lang),
            link=_linker(base),
            static=lambda name: f"{base}static/{quote(name)}?v={self._static.version(name)}",
        )
        return text.encode("utf-8", "replace")


def _linker(base: str) -> Callable[..., str]:
    def link(*segments: object, **query: object) -> str:
        """A relative address below the root; each segment may hold anything."""
        path = "/".join(quote(str(segment).encode("utf-8", "replace"), safe="") for segment in segments)
        given = {
            name: str(value).encode("utf-8", "replace") for name, value in query.items() if value not in (None, "")
        }
        return base + path + (f"?{urlencode(given)}" if given else "")

    return link


def base_of(path: str) -> str:
    """The way from a page back to the root: relative, so that it works below any prefix."""
    return "../" * (path.count("/") - 1) or "./"


def _known(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Numbers too large for JavaScript come as texts; what is not known is a dash."""

    def shown(value: Any) -> str:
        if value is None or isinstance(value, jinja2.Undefined):
            return _NOTHING
        if isinstance(value, str):
            return visible(value) if whole_number(value.removeprefix("-")) is None else show(int(value))
        return show(value)

    return shown


def _rate(value: Any) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def _ago(value: Any, now_ms: Any) -> str:
    return _NOTHING if value is None or now_ms is None else duration(max(0, int(now_ms) - int(value)))


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


FILTERS: Final[dict[str, Callable[..., str]]] = {
    "number": _known(number),
    "size": _known(byte_size),
    "rate": _known(_rate),
    "moment": _known(lambda value: f"{moment(value)} UTC"),
    "duration": _known(duration),
    "percent": _known(percent),
    "text": _known(str),
    "ago": _ago,
    "json": _json,
}
