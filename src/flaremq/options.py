"""Options as rows: one row gives an option's default, RocketMQ name, allowed values, effect and sentence.

A layer declares a frozen dataclass whose fields are made by :func:`option` and calls :func:`check_values`
in its ``__post_init__``. Loading a ``broker.conf``, ``--set key=value``, ``docs/options.md`` and the
documentation test all read the same rows, so they cannot drift apart.

The invariant: a value that got into an options object is one that its row allows. RocketMQ drops a value it
cannot parse and goes on with the default, and reads every text but "true" as false; both hide mistakes, so
here a bad value is refused and an unknown name is reported with the nearest known one.

Field names are the snake_case of RocketMQ's name, its mistakes included (:func:`snake_name`). Options are
passed down, never looked up: there is no global registry.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from flaremq.errors import InvalidArgumentError

Affects = Literal["behaviour", "durability", "speed"]
OptionValue = bool | int | str

T = TypeVar("T", bool, int, str)

JAVA_INT_MAX: Final = 2**31 - 1  # RocketMQ's fields are Java ints: a larger number could not be loaded there
# Why an option of a server keeps its value until the next start, as the documentation and refusals say it.
PATH: Final = "paths and addresses are never taken over the wire"
FILES: Final = "the files that exist are made with it"
IDENTITY: Final = "name servers, clients and records know the server by it"
SECURITY: Final = "who may reach the server is not decided over the wire"
STORED: Final = "messages that are stored already depend on it"
AT_START: Final = "it is read once, at the start"

MASK: Final = "******"  # what is shown of a secret

_ROW = "flaremq.option"  # key of the row in a field's metadata
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """Everything known about one option."""

    key: str  # the name in a properties file
    default: OptionValue
    affects: Affects
    doc: str
    is_rocketmq: bool  # False: our own, RocketMQ ignores it
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    pattern: str
    form: str  # what `pattern` asks for, or a number means, in words
    unused: str  # why setting it changes nothing here; empty when it works
    live: bool  # may be changed while the server runs; every part looks it up, or is told
    fixed: str  # why it may not; empty where that is no question (options of clients)
    secret: bool  # nobody is shown its value: not in a repr, a properties text, an error

    @property
    def field_name(self) -> str:
        return snake_name(self.key)

    @property
    def allowed(self) -> str:
        """The allowed values in words, as errors and the documentation say it."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, int):
            return self.form or f"a whole number from {self.minimum} to {self.maximum}"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return self.form or "text"

    def parse(self, text: str) -> OptionValue:
        """The value a properties file means. Blanks around it are dropped, as RocketMQ does for text."""
        text = text.strip()
        if isinstance(self.default, bool):
            if text.lower() not in ("true", "false"):
                raise self.refusal(text)
            return text.lower() == "true"
        if isinstance(self.default, int):
            if not _INTEGER.match(text):
                raise self.refusal(text)
            return int(text)
        return text

    def check(self, value: object) -> None:
        """Raise unless ``value`` is allowed. A bool is no number here, nor 1 a bool."""
        if type(value) is not type(self.default):
            raise self.refusal(value)
        if isinstance(value, int) and not isinstance(value, bool):
            assert self.minimum is not None and self.maximum is not None
            if not self.minimum <= value <= self.maximum:
                raise self.refusal(value)
        elif isinstance(value, str):
            if self.choices and value not in self.choices:
                raise self.refusal(value)
            if self.pattern and not re.fullmatch(self.pattern, value):
                raise self.refusal(value)

    def refusal(self, value: object) -> InvalidArgumentError:
        """The error for a value that is not allowed; for checks that a row cannot express."""
        shown = MASK if self.secret else repr(value)
        return InvalidArgumentError(f"option {self.key}={shown} is not allowed: {self.allowed}")

    def shown(self, value: OptionValue) -> str:
        """The value as a properties file spells it; of a secret only whether there is one."""
        return MASK if self.secret and value != self.default else value_text(value)


def option(
    default: T,
    *,
    rocketmq: str = "",
    flaremq: str = "",
    affects: Affects,
    doc: str,
    choices: Sequence[str] = (),
    minimum: int = 0,
    maximum: int = JAVA_INT_MAX,
    pattern: str = "",
    form: str = "",
    unused: str = "",
    live: bool = False,
    fixed: str = "",
    secret: bool = False,
) -> T:
    """Declare one field of an options dataclass, named by exactly one of ``rocketmq`` and ``flaremq``."""
    assert bool(rocketmq) != bool(flaremq), "an option has one name"
    assert not (live and fixed), "an option is live or says why not"
    numeric = type(default) is int
    row = OptionRow(
        key=rocketmq or flaremq,
        default=default,
        affects=affects,
        doc=doc,
        is_rocketmq=bool(rocketmq),
        choices=tuple(choices),
        minimum=minimum if numeric else None,
        maximum=maximum if numeric else None,
        pattern=pattern,
        form=form,
        unused=unused,
        live=live,
        fixed=fixed,
        secret=secret,
    )
    return dataclasses.field(default=default, repr=not secret, metadata={_ROW: row})


def rows(options_class: type[Any]) -> tuple[OptionRow, ...]:
    """The rows of an options dataclass in the order they were declared."""
    fields = dataclasses.fields(options_class)
    return tuple(field.metadata[_ROW] for field in fields if _ROW in field.metadata)


def rows_by_key(options_class: type[Any]) -> Mapping[str, OptionRow]:
    return {row.key: row for row in rows(options_class)}


def live_refusals(names: Iterable[str], layers: Sequence[object], elsewhere: Iterable[str] = ()) -> list[str]:
    """A sentence for each name that cannot be changed in these options objects, why not or what was meant instead.
    ``elsewhere``: names that only RocketMQ has."""
    known = {key: row for options in reversed(layers) for key, row in rows_by_key(type(options)).items()}
    only_there = set(elsewhere) - known.keys()
    sentences = []
    for name in names:
        row = known.get(name)
        if row is None and name in only_there:
            sentences.append(f"{name} cannot be changed: what it sets in RocketMQ does not exist here")
        elif row is None:
            sentences.append(str(find_unknown_names([name[:64]], known)[0]))
        elif not row.live:
            sentences.append(f"{name} cannot be changed while the server runs: {row.fixed}")
    return sentences


def check_live(properties: Mapping[str, str], layers: Sequence[Any]) -> None:
    """InvalidArgumentError unless each layer could take those of the values that it knows."""
    for options in layers:
        dataclasses.replace(options, **values_from_properties(type(options), properties))


def change_live(properties: Mapping[str, str], layers: Sequence[Any]) -> None:
    """Change options objects that the parts of a running server share: all of these, or none and
    InvalidArgumentError. They are frozen for everybody else."""
    if refused := live_refusals(properties, layers):
        raise InvalidArgumentError("; ".join(refused))
    check_live(properties, layers)
    for options in layers:
        for field_name, value in values_from_properties(type(options), properties).items():
            object.__setattr__(options, field_name, value)


def idle_warnings(options: object) -> list[str]:
    """A sentence for each option that was set and has no effect here."""
    return [
        f"{row.key}={row.shown(getattr(options, row.field_name))} has no effect: {row.unused.rstrip('.')}"
        for row in rows(type(options))
        if row.unused and getattr(options, row.field_name) != row.default
    ]


# Per class: what check_values walks. Filled once a class, so that an instance costs no more than a loop.
_checks: dict[type[Any], tuple[tuple[str, OptionValue, OptionRow], ...]] = {}


def check_values(options: object) -> None:
    """Check every option of an instance; for ``__post_init__``, so a default costs one comparison."""
    checks = _checks.get(type(options))
    if checks is None:
        checks = tuple((row.field_name, row.default, row) for row in rows(type(options)))
        _checks[type(options)] = checks
    for field_name, default, row in checks:
        value = getattr(options, field_name)
        if value is not default:
            row.check(value)


def values_from_properties(options_class: type[Any], properties: Mapping[str, str]) -> dict[str, OptionValue]:
    """Constructor arguments for the names that ``options_class`` knows; others are the caller's concern."""
    known = rows_by_key(options_class)
    found = ((known[key], text) for key, text in properties.items() if key in known)
    return {row.field_name: row.parse(text) for row, text in found}


def properties_of(options: object, *, changed_only: bool = False) -> dict[str, str]:
    """The options as a properties file spells them; of a secret only whether it is set."""
    result = {}
    for row in rows(type(options)):
        value = getattr(options, row.field_name)
        if not changed_only or value != row.default:
            result[row.key] = row.shown(value)
    return result


def value_text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def snake_name(key: str) -> str:
    """``mappedFileSizeCommitLog`` becomes ``mapped_file_size_commit_log``, ``checkCRCOnRecover``
    ``check_crc_on_recover``."""
    return _WORD_START.sub("_", key).lower()


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownName:
    """A name no layer knows, and the known one it most resembles."""

    name: str
    nearest: str | None

    def __str__(self) -> str:
        hint = f"did you mean {self.nearest}?" if self.nearest else "nothing known resembles it"
        return f"unknown option {self.name}: {hint}"


def find_unknown_names(names: Iterable[str], known: Iterable[str]) -> list[UnknownName]:
    """The names that are not in ``known``, in the given order. Case counts, but not for the suggestion."""
    known_names = set(known)
    unknown = [name for name in names if name not in known_names]
    if not unknown:
        return []
    import difflib  # only on the way to an error message

    by_folded = {name.lower(): name for name in sorted(known_names)}
    result = []
    for name in unknown:
        close = difflib.get_close_matches(name.lower(), by_folded, n=1)
        result.append(UnknownName(name, by_folded[close[0]] if close else None))
    return result


def parse_assignments(assignments: Iterable[str], *, option: str = "--set") -> dict[str, str]:
    """``["key=value", …]`` of a repeated ``option`` as a mapping; the last one wins."""
    result = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise InvalidArgumentError(f"{option} {assignment!r} is not of the form key=value")
        result[key.strip()] = value.strip()
    return result


def load_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Read a properties file.

    Java reads such files as Latin-1, which garbles a path that an editor saved as UTF-8; we take UTF-8 when
    the bytes are UTF-8 and Latin-1 otherwise. The two agree on ASCII and on ``\uXXXX``.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InvalidArgumentError(
            f"options file {os.fspath(path)} cannot be read: {error.strerror or error}"
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return parse_properties(text)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"options file {os.fspath(path)}: {error}") from error


_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")


def parse_properties(text: str) -> dict[str, str]:
    """The grammar of ``java.util.Properties``: comments, ``=``, ``:`` or blanks, continued lines, escapes."""
    result = {}
    for line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        result[_unescape(line[:end])] = _unescape(rest)
    return result


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with continuations joined; comments and blank lines are gone.

    A line ending in an odd number of backslashes goes on in the next one, which loses its leading blanks and
    is data even if it starts with ``#``. A comment is never continued. (The one difference: of a lone backslash at
    the end of a file Java makes an empty name, we make nothing.)
    """
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        joined = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = joined[:-1]
        else:
            pending = ""
            yield joined
    if pending:
        yield pending


def _key_end(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    result = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not _HEX.fullmatch(digits):
                    raise InvalidArgumentError(f"{text!r}: \\u wants four hex digits, not {digits!r}")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        result.append(character)
    # Through UTF-16, so that a surrogate pair of two escapes becomes the one character it means, as in Java.
    return "".join(result).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def markdown_table(option_rows: Iterable[OptionRow]) -> str:
    """The rows as a Markdown table, for the options page; those of servers say whether they are live."""
    option_rows = list(option_rows)
    of_server = any(row.live or row.fixed for row in option_rows)
    titles = ["Option", "Default", "Allowed", *(["Live"] if of_server else []), "Meaning"]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for row in option_rows:
        default = value_text(row.default)  # that of a secret is no secret
        meaning = row.doc if not row.unused else f"{row.doc} **No effect here**: {row.unused}"
        live = ["yes" if row.live else f"no: {row.fixed}"] if of_server else []
        cells = (f"`{row.key}`", f"`{default}`" if default else "(empty)", row.allowed, *live, meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
