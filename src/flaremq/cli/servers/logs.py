"""Where the log of a server goes, in which form, and how much of it.

By default to stderr, as text, from ``info`` on: a line each for opening and closing, recovery, roles, changed options,
consumers that come and go. A file is rotated by the server itself; journald and container runtimes take stderr.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from flaremq.log_lines import JsonFormatter, LineFormatter

F = TypeVar("F", bound=Callable[..., Any])
_META: Final = "flaremq.log"  # key in click's context
_LEVELS: Final = ("debug", "info", "warning", "error")
_FORMATS: Final = ("text", "json")
_FILE: Final = click.Path(dir_okay=False)
_MIB: Final = 1 << 20


def log_options(command: F) -> F:
    """``--log-level``, ``--log-format``, ``--log-file`` and how it is rotated; in force when the command runs."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        _configure(_chosen())
        return command(*arguments, **named)

    function: Any = run
    for option in (
        _option("--log-file-count", _count(1000, 10, "N"), "Keep so many older files, PATH.1 the newest."),
        _option("--log-file-size", _count(1 << 20, 100, "MIB"), "Begin a new file at this size."),
        _option("--log-file", {"metavar": "PATH", "type": _FILE}, "Where it goes, if not to stderr."),
        _option("--log-format", _choice(_FORMATS, "text"), "How each line of it looks."),
        _option("--log-level", _choice(_LEVELS, "info"), "What goes into the log."),
    ):
        function = option(function)
    result: F = function
    return result


def _choice(names: tuple[str, ...], default: str) -> dict[str, Any]:
    return {"type": click.Choice(names), "default": default, "show_default": True}


def _count(maximum: int, default: int, metavar: str) -> dict[str, Any]:
    return {"metavar": metavar, "type": click.IntRange(1, maximum), "default": default, "show_default": True}


def _option(name: str, settings: dict[str, Any], text: str) -> Callable[[Any], Any]:
    return click.option(name, expose_value=False, callback=_keep, help=text, **settings)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta.setdefault(_META, {})[parameter.name] = value


def _chosen() -> dict[str, Any]:
    found: dict[str, Any] = click.get_current_context().meta[_META]
    return found


def _configure(chosen: dict[str, Any]) -> None:
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path := chosen["log_file"]:
        from logging.handlers import RotatingFileHandler

        size, count = chosen["log_file_size"] * _MIB, chosen["log_file_count"]
        try:
            handler = RotatingFileHandler(path, maxBytes=size, backupCount=count, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"the log cannot be written to {path}: {error.strerror}") from None
    handler.setFormatter(JsonFormatter() if chosen["log_format"] == "json" else LineFormatter())
    logging.basicConfig(level=chosen["log_level"].upper(), handlers=[handler])


def log_arguments(child: str) -> list[str]:
    """What to tell a server process that we start; its file is named after it."""
    chosen = _chosen()
    arguments = ["--log-level", chosen["log_level"], "--log-format", chosen["log_format"]]
    if path := chosen["log_file"]:
        stem, ending = os.path.splitext(path)
        arguments += ["--log-file", f"{stem}-{child}{ending}"]
        arguments += ["--log-file-size", str(chosen["log_file_size"])]
        arguments += ["--log-file-count", str(chosen["log_file_count"])]
    return arguments
