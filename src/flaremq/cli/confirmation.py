"""Asking before what cannot be taken back. At a terminal only: a script that was written has decided already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flaremq.cli import output as out
from flaremq.visible import visible

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    """``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def asks(yes: bool) -> bool:
    """Whether somebody sits there who can be asked; before work that only the question needs."""
    return not yes and sys.stdin.isatty()


def confirmed(question: str, *, yes: bool, otherwise: str) -> bool:
    """Whether to go on; if not, that nothing was done is said."""
    if not asks(yes) or click.confirm(visible(question), err=True):
        return True
    out.note(f"flaremq: {otherwise}")
    return False
