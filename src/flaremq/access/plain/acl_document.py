"""ACL document: the text of an ACL file as plain values, and back.

The parser's events are read one by one and nothing is made of them but texts, lists and maps: no tag is followed, no
type is guessed, so a secret of digits stays what was written. Anchors and references are refused, for by them a short
text could stand for a huge one; so are keys that are there twice. No error repeats anything of the file but the names
of fields, since any other word in it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from flaremq.errors import InvalidArgumentError

_DEPTH_MAX: Final = 8
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))

Document = dict[str, Any]


def parse_document(text: str) -> Document | None:
    """The map at the top; None for a text without any. InvalidArgumentError says where it is wrong."""
    events = _Events(yaml.parse(text, Loader=_Loader))
    try:
        document = _documents(events)
    except yaml.YAMLError as error:
        raise InvalidArgumentError(_describe(error)) from None  # the error itself holds a piece of the file
    if document is None or isinstance(document, dict):
        return document
    raise InvalidArgumentError("not a map of fields such as accounts")


def render_document(document: Document) -> str:
    """The text of a document; comments of the one it came from are gone, as with RocketMQ."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return text


def field_name(name: object) -> str:
    """What may be shown of a key that should be a field's name: a secret may have slipped into its place."""
    match = re.match(r"\w{1,64}", str(name), re.ASCII)
    return match.group() if match else "?"


class _Events:
    """The events of a text, one ahead."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events

    def take(self) -> Any:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidArgumentError(f"{_place(event.start_mark)}: anchors and references are not allowed")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            raise InvalidArgumentError(f"{_place(event.start_mark)}: tags are not allowed")
        return event


def _documents(events: _Events) -> Any:
    found: list[Any] = []
    while not isinstance(event := events.take(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            if found:
                raise InvalidArgumentError(f"{_place(event.start_mark)}: a second document")
            found.append(_value(events, events.take(), 0))
    return found[0] if found else None


def _value(events: _Events, event: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise InvalidArgumentError(f"{_place(event.start_mark)}: nested too deeply")
    if isinstance(event, yaml.ScalarEvent):
        return None if event.implicit[0] and event.value in _NULLS else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(item := events.take(), yaml.SequenceEndEvent):
            items.append(_value(events, item, depth + 1))
        return items
    return _map(events, depth)


def _map(events: _Events, depth: int) -> Document:
    fields: Document = {}
    while not isinstance(event := events.take(), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            raise InvalidArgumentError(f"{_place(event.start_mark)}: a field's name must be a word")
        if event.value in fields:
            raise InvalidArgumentError(f"{_place(event.start_mark)}: {field_name(event.value)} is there twice")
        fields[event.value] = _value(events, events.take(), depth + 1)
    return fields


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _describe(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    problem = re.sub(r"'.*'", "...", str(problem), flags=re.DOTALL)  # what stands in quotes comes from the file
    return f"{_place(mark)}: {problem}" if mark is not None else problem
