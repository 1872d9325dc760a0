"""Described: what a request asks for, as the audit log may have it: without anything that proves or is secret."""

from __future__ import annotations

from typing import Any, Final

import orjson

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand

_HIDDEN: Final = ("secret", "password", "signature", "token", "accesskey", "flareproof")
_OF_OPTIONS: Final = frozenset(
    (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.UPDATE_CONTROLLER_CONFIG)
)
_BODY_MAX: Final = 64 << 10  # more than any of these; a larger one is not read for a line of the log
_TEXT_MAX: Final = 1024
_NAMES_MAX: Final = 16
_DEPTH_MAX: Final = 8


def describe(request: RemotingCommand) -> str:
    """The fields, then what the body says."""
    parts = [f"{name}={value}" for name, value in (request.ext or {}).items() if _is_shown(name)]
    if 0 < len(request.body) <= _BODY_MAX:
        parts.append(_body(request))
    return ", ".join(part for part in parts if part)[:_TEXT_MAX]


def _body(request: RemotingCommand) -> str:
    if request.code in _OF_OPTIONS:  # names alone: a value may be a secret that was refused
        lines = request.body_bytes.decode("utf-8", "replace").splitlines()
        names = [line.partition("=")[0].strip() for line in lines if "=" in line and line.lstrip()[:1] not in "#!"]
        return "options " + " ".join(names[:_NAMES_MAX])
    try:
        document = orjson.loads(request.body_bytes)
    except ValueError:
        return ""
    return _text(document, _DEPTH_MAX) if isinstance(document, (dict, list)) else ""


def _text(value: Any, depth: int) -> str:
    """A document in a few words."""
    if isinstance(value, (dict, list)) and depth == 0:
        return "…"
    if isinstance(value, dict):
        shown = [f"{name}={_text(inner, depth - 1)}" for name, inner in value.items() if _is_shown(name)]
        return "{" + " ".join(shown[:_NAMES_MAX]) + "}"
    if isinstance(value, list):
        return "[" + " ".join(_text(inner, depth - 1) for inner in value[:_NAMES_MAX]) + "]"
    return str(value)[:_TEXT_MAX]


def _is_shown(name: str) -> bool:
    """Whether a field may be written down: not what proves anything, nor what goes with it."""
    lower = name.lower()
    return name == "accessKey" or not any(word in lower for word in _HIDDEN)
