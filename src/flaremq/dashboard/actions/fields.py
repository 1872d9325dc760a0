"""Fields of an action, as a form or JSON brought them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from flaremq.errors import InvalidArgumentError

_TEXT_MAX: Final = 4_096
_TRUE: Final = ("true", "1", "on", "yes")
_FALSE: Final = ("false", "0", "off", "no", "")


class Fields:
    """Values by name; what is wrong is said with its name."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def has(self, name: str) -> bool:
        return self._given.get(name) not in (None, "")

    def text(self, name: str, default: str = "", *, longest: int = _TEXT_MAX) -> str:
        value = self._given.get(name, default)
        if value is None:
            return default
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise InvalidArgumentError(f"{name} is a text")
        text = str(value)
        if len(text) > longest:
            raise InvalidArgumentError(f"{name} has {len(text)} characters, at most {longest} are taken")
        return text

    def needed(self, name: str) -> str:
        text = self.text(name)
        if not text:
            raise InvalidArgumentError(f"{name} is missing")
        return text

    def whole(self, name: str, default: int | None = None, *, low: int = 0, high: int = 2**63 - 1) -> int:
        text = self.text(name).strip()
        if not text:
            if default is None:
                raise InvalidArgumentError(f"{name} is missing")
            return default
        digits = text.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not low <= int(text) <= high:
            raise InvalidArgumentError(f"{name} is a number from {low} to {high}, not {text[:40]!r}")
        return int(text)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._given.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise InvalidArgumentError(f"{name} is true or false, not {text[:40]!r}")

    def chosen(self, name: str, choices: tuple[str, ...], default: str = "") -> str:
        text = self.text(name) or default
        if text not in choices:
            raise InvalidArgumentError(f"{name} is one of {', '.join(choices)}, not {text[:40]!r}")
        return text

    def texts(self, name: str) -> list[str]:
        """A list; a form brings it as one text or as several."""
        value = self._given.get(name)
        if value is None or value == "":
            return []
        if isinstance(value, str):
            return value.split()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InvalidArgumentError(f"{name} is a list of texts")
        return [item for item in value if item]

    def pairs(self, name: str) -> dict[str, str]:
        """An object, or lines ``a=b``."""
        value = self._given.get(name)
        if isinstance(value, Mapping):
            return {str(key): str(item) for key, item in value.items()}
        found = {}
        for line in self.text(name, longest=64 << 10).splitlines():
            key, sign, item = line.partition("=")
            if line.strip():
                if not sign or not key.strip():
                    raise InvalidArgumentError(f"{name} is lines of a=b; {line[:40]!r} is none")
                found[key.strip()] = item
        return found

    def body(self) -> bytes:
        """``body`` as text, or ``body_base64``."""
        encoded = self._given.get("body_base64")
        if encoded:
            try:
                return base64.b64decode(str(encoded), validate=True)
            except (ValueError, binascii.Error):
                raise InvalidArgumentError("body_base64 is no base64") from None
        value = self._given.get("body", "")
        if not isinstance(value, str):
            raise InvalidArgumentError("body is a text")
        return value.encode("utf-8", "replace")
