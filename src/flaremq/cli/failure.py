"""Errors of a command line: one sentence and an exit code.

    0    done
    1    the check found something, or the work failed
    2    wrong usage or bad option
    3    not reachable or refused (a store in use, a server that is not there)
    4    the store is damaged
    130  interrupted (Ctrl-C), as a shell has it
    141  the reader of our output went away, likewise

The text is one sentence on stderr that names the value, file or offset involved. A traceback comes with
``--debug``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

import click

from flaremq.errors import (
    AccessDeniedError,
    CorruptionError,
    FlareMQError,
    InvalidArgumentError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from flaremq.visible import visible

DONE = 0
FAILED = 1
WRONG_USAGE = 2
REFUSED = 3
DAMAGED = 4
INTERRUPTED = 130
READER_GONE = 141


class ReaderGoneError(Exception):
    """The reader of our output has closed it. No ``BrokenPipeError``: click would end the program at that."""


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (InvalidArgumentError, WRONG_USAGE),
    (NotFoundError, FAILED),
    (UnavailableError, REFUSED),
    (ProtocolError, REFUSED),
    (ConnectionError, REFUSED),
    (CorruptionError, DAMAGED),
)

# Newer releases of click raise this; older ones print the help themselves.
_HELP_ASKED: type[click.ClickException] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
_debug = False  # set by --debug, wherever on the line it stands
_signs_nothing = _encrypts_nothing = False  # of the clients of this command, as far as it has made any


def want_traceback(wanted: bool = True) -> None:
    global _debug
    _debug = wanted


def wants_traceback() -> bool:
    return _debug


def note_connections(*, are_signed: bool, are_encrypted: bool) -> None:
    """How this command asks servers: what was left out may be why they refuse."""
    global _signs_nothing, _encrypts_nothing
    _signs_nothing, _encrypts_nothing = not are_signed, not are_encrypted


def report(error: BaseException) -> int:
    """Say what happened on stderr; the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, ReaderGoneError | BrokenPipeError):
        # The reader of our output has gone. Nothing more may be written, not even at interpreter exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, _HELP_ASKED):
        error.show()  # a group without a command: its help, as it is
        return WRONG_USAGE
    if _debug:
        traceback.print_exception(error)
    else:
        click.echo(f"flaremq: {visible(sentence_of(error))}", err=True)
    if isinstance(error, click.ClickException):
        return int(error.exit_code)
    return _code_of(error)


def _code_of(error: BaseException) -> int:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, FlareMQError):
        from flaremq.protocol.command import RequestError  # what a server answered; only on the way out

        return REFUSED if isinstance(error, RequestError) else FAILED
    return FAILED


def sentence_of(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        text = " ".join(error.format_message().split())
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
        return f"{text} See {command} --help." if command and "--help" not in text else text
    if isinstance(error, FlareMQError):
        return " ".join(str(error).split()) + _advice(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    if isinstance(error, ImportError):
        return f"{error.name or error} is not installed; install flaremq with all its requirements"
    return f"internal error: {type(error).__name__}: {error}; run again with --debug for the traceback"


def _advice(error: FlareMQError) -> str:
    if _signs_nothing and isinstance(error, AccessDeniedError):
        return " (nobody was named: --access-key and --secret-key-file, or FLAREMQ_ACCESS_KEY and FLAREMQ_SECRET_KEY)"
    if _encrypts_nothing and _was_cut_off(error):
        return " (a server that wants TLS cuts off who does not begin with it: --tls-trust, or FLAREMQ_TLS_TRUST)"
    return ""


def _was_cut_off(error: BaseException | None) -> bool:
    """Whether a server closed the connection, in the words of the system, the client and the question of one socket."""
    while error is not None:
        words = str(error)
        if isinstance(error, ConnectionResetError) or "was closed" in words or "closed the connection" in words:
            return True
        error = error.__cause__ or error.__context__
    return False
