"""JSON as RocketMQ's Java side writes and reads it: standard JSON plus two kinds of keys that JSON does not have.

* Keys that are bare integers, ``{0:5,1:7}``: offset tables in files and bodies, broker ids in cluster information.
* Keys that are objects, ``{{"brokerName":"b","queueId":0,"topic":"T"}:5}``: every map whose key is a message queue.

Reading tries the standard parser first, since nearly every text is standard; only when that fails are the odd keys
turned into strings and the text parsed again. So an integer key arrives as its digits and an object key as the JSON
text of that object, both as ``str``: hashable, in order, and the reader that expects an object there parses the key
once more. Both passes are linear in the text; depth is bounded by the parser; NaN and lone surrogates are refused.

Java writes ``{"$ref":"$.a.b[0]"}`` in place of an object that it has written before. Such a reference is put back
where it names something small: what a text can grow to by references stays in proportion to its length.

Writing leaves order and omission of nulls to the caller, who knows which of his maps are beans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

# Strings are matched first and kept, so nothing inside of one is ever touched. One that never ends is taken to the
# end of the text, else each quote in it would be tried as a start, and a hostile text cost the square of its length.
_STRING: Final = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_OBJECT_KEY: Final = r'\{(?:[^"{}\[\]]|"(?:[^"\\]|\\.)*+")*+\}(?=\s*+:)'
_INTEGER_KEY: Final = r"(?<=[{,\s])-?+\d++(?=\s*+:)"
_ODD_KEY: Final = re.compile(f"{_STRING}|({_OBJECT_KEY})|({_INTEGER_KEY})", re.DOTALL)

_REFERENCE: Final = "$ref"
_REFERENCE_STEP: Final = re.compile(r"\.((?:[^.\[\]\\]|\\.)+)|\[(\d{1,9})\]")
_REFERENCE_TARGET_NODES_MAX: Final = 64  # a queue, a version, a group's settings; whole tables are never referred to


_KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}


def parse_java_json(text: str | bytes | bytearray | memoryview) -> Any:
    """The value; ``ValueError`` if the text is not even this dialect."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        decoded = text if isinstance(text, str) else bytes(text).decode()
        value = orjson.loads(_ODD_KEY.sub(_quoted, decoded))
        has_references = _REFERENCE in decoded
    else:
        has_references = (_REFERENCE in text) if isinstance(text, str) else (b'"$ref"' in bytes(text))
    return _with_references(value) if has_references else value


def json_kind(value: Any) -> str:
    """What a parsed value was in JSON, for people who never saw Python."""
    return _KINDS.get(type(value), "null")


def write_java_json(value: Any) -> bytes:
    """Compact, strict JSON: integer keys come out quoted. :func:`integer_keyed` and the like give Java's forms."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def integer_keyed(table: Mapping[int, Any]) -> orjson.Fragment:
    """A map with bare integer keys, to be put into a value given to :func:`write_java_json`."""
    pairs = (b"%d:%b" % (key, write_java_json(item)) for key, item in table.items())
    return orjson.Fragment(b"{" + b",".join(pairs) + b"}")


def object_keyed(items: Iterable[tuple[Any, Any]]) -> orjson.Fragment:
    """A map whose keys are objects, to be put into a value given to :func:`write_java_json`."""
    pairs = (write_java_json(key) + b":" + write_java_json(item) for key, item in items)
    return orjson.Fragment(b"{" + b",".join(pairs) + b"}")


def _quoted(match: re.Match[str]) -> str:
    kind = match.lastindex
    if kind is None:
        return match.group()
    if kind == 2:
        return f'"{match.group()}"'
    return orjson.dumps(match.group()).decode()


def _with_references(root: Any) -> Any:
    """The same value with each reference replaced by what it names; one that names nothing usable becomes null."""
    pending = [root]
    found: list[tuple[Any, Any, str]] = []
    while pending:
        node = pending.pop()
        for key, item in _children(node):
            path = item.get(_REFERENCE) if isinstance(item, dict) and len(item) == 1 else None
            if isinstance(path, str):
                found.append((node, key, path))
            else:
                pending.append(item)
    # First all are resolved, then all are replaced: no reference is ever resolved through another one.
    targets = [_resolve(root, path) for _, _, path in found]
    for (node, key, _), target in zip(found, targets, strict=True):
        node[key] = target
    return root


def _resolve(root: Any, path: str) -> Any:
    steps = _REFERENCE_STEP.findall(path[1:])
    if not path.startswith("$") or not steps or len(steps) > 16:
        return None
    node = root
    for name, index in steps:
        key = int(index) if index else re.sub(r"\\(.)", r"\1", name)
        if isinstance(node, list) and index and int(index) < len(node):
            node = node[int(index)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return None
    return node if _is_small_tree(node) else None


def _is_small_tree(root: Any) -> bool:
    """Few nodes and no reference among them: so nothing can be made to grow by turns, nor to contain itself."""
    pending = [root]
    count = 0
    while pending:
        node = pending.pop()
        count += 1
        if count > _REFERENCE_TARGET_NODES_MAX or (isinstance(node, dict) and _REFERENCE in node):
            return False
        # A huge node is not taken apart: its children are too many already.
        if isinstance(node, (dict, list)) and len(node) > _REFERENCE_TARGET_NODES_MAX:
            return False
        pending += [item for _, item in _children(node)]
    return True


def _children(node: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(node, dict):
        return node.items()
    if isinstance(node, list):
        return enumerate(node)
    return ()
