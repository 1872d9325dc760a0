"""The table of ``flaremq.table`` behind Spark Connect: a leaf of the client's plan that reads what its query mentions.

There is no JVM here that could be told columns by the optimizer, and the server is told of a Python source once, with
its options. But a plan is written out by the client, anew for each query, from its root down. So the leaf, when it is
written out, finds the root that is being written, and names in ``columns`` those columns that the query can mean:

- Above the leaf there is a projection or an aggregation, else all columns are the result.
- A column is kept when its name is a word of any text of the plan, be it a column, an expression in SQL or a literal.
- A star, a pattern of columns, and any node that is not known to use columns by name only, keep all of them.

That reads too much now and then, and never too little: what is not named cannot be resolved to.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

from pyspark.sql.connect.plan import LogicalPlan

_CHEAPEST: Final = "queueId"  # read off the queue files, for a query that needs rows and no column

_NARROWING: Final = frozenset(("project", "aggregate"))
_PASSING: Final = frozenset(
    (
        "filter",
        "sort",
        "limit",
        "offset",
        "tail",
        "join",
        "subquery_alias",
        "repartition",
        "repartition_by_expression",
        "hint",
        "with_columns",
        "with_columns_renamed",
        "drop",
        "collect_metrics",
        "show_string",
        "html_string",
    )
)
_BEYOND: Final = frozenset(("to_proto", "command"))  # what has a plan written out
_COUNT_ALL: Final = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)


class PrunedSource(LogicalPlan):
    """A read of ``format("flaremq")`` that names its columns."""

    def __init__(self, whole: Any, columns: Sequence[str]) -> None:
        super().__init__(None)
        self._whole = whole
        self._columns = list(columns)

    def plan(self, session: Any) -> Any:
        relation = self._whole.plan(session)
        relation.common.plan_id = self._root_plan_id
        root = _root_being_written(self, sys._getframe(1))
        if root is not None:
            columns = columns_meant(root.plan(session), self._root_plan_id, self._columns)
            if len(columns) < len(self._columns):
                relation.read.data_source.options["columns"] = ",".join(columns)
        return relation


def _root_being_written(leaf: PrunedSource, frame: FrameType | None) -> LogicalPlan | None:
    """Plans write out their children: the outermost that does so now. None within the question of a leaf."""
    root: LogicalPlan = leaf
    while frame is not None and frame.f_code.co_name not in _BEYOND:
        if frame.f_code.co_name == "plan" and isinstance(plan := frame.f_locals.get("self"), LogicalPlan):
            if isinstance(plan, PrunedSource):
                return None
            root = plan
        frame = frame.f_back
    return None if root is leaf else root


def columns_meant(query: Any, plan_id: int, columns: Sequence[str]) -> list[str]:
    """Of the columns of the leaf with this id those that the query, a message of the protocol, can mean."""
    texts = list(_texts(query))
    if None in texts or any(_all_wanted(query, plan_id, all_wanted=True) or [True]):
        return list(columns)
    said = "\n".join(text for text in texts if text is not None)
    return [name for name in columns if _is_said(name, said)] or [_CHEAPEST]


def _all_wanted(relation: Any, plan_id: int, *, all_wanted: bool) -> list[bool]:
    """For each place of the leaf whether all its columns are wanted there."""
    kind = relation.WhichOneof("rel_type")
    if kind == "read":
        return [all_wanted] if relation.common.plan_id == plan_id else []
    node = getattr(relation, kind)
    if kind == "with_relations":  # what is referred to is a result of its own
        found = [each for other in node.references for each in _all_wanted(other, plan_id, all_wanted=True)]
        return found + _all_wanted(node.root, plan_id, all_wanted=all_wanted)
    if kind in _NARROWING:
        all_wanted = False
    elif kind not in _PASSING and not (kind == "deduplicate" and node.column_names):
        all_wanted = True
    return [each for below in _relations(node) for each in _all_wanted(below, plan_id, all_wanted=all_wanted)]


def _relations(message: Any) -> Iterator[Any]:
    """Those right below a node."""
    for value in _values(message):
        if hasattr(value, "DESCRIPTOR"):
            if value.DESCRIPTOR.name == "Relation":
                yield value
            else:
                yield from _relations(value)


def _texts(message: Any) -> Iterator[str | None]:
    """All that a query says; None where it means columns without naming them."""
    kind = message.DESCRIPTOR.name
    if kind in ("UnresolvedStar", "UnresolvedRegex", "Any"):
        yield None
    elif kind == "UnresolvedFunction" and _counts_rows(message):
        return
    elif kind not in ("Read", "Origin"):  # of a query neither what it reads nor where it is written says anything
        is_sql = kind in ("ExpressionString", "SQL")
        for value in _values(message):
            if isinstance(value, str):
                yield None if is_sql and "*" in _COUNT_ALL.sub("", value) else value
            elif hasattr(value, "DESCRIPTOR"):
                yield from _texts(value)


def _counts_rows(function: Any) -> bool:
    return (
        function.function_name == "count"
        and not function.is_distinct
        and len(function.arguments) == 1
        and function.arguments[0].WhichOneof("expr_type") == "unresolved_star"
    )


def _values(message: Any) -> Iterator[Any]:
    """What is set in a message: of lists and maps each item."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                yield key
                yield value[key]
        elif isinstance(value, str | bytes) or not hasattr(value, "__len__"):
            yield value
        else:
            yield from value


def _is_said(name: str, said: str) -> bool:
    if not name.replace("_", "").isalnum():
        return True  # may be spelled in more ways than one
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said, re.IGNORECASE) is not None
