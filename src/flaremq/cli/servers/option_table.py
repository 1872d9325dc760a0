"""Options as a table: ``-p`` of the servers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from flaremq.cli.output import JSONL, TABLE, print_rows


def print_option_rows(options: Sequence[Any]) -> None:
    """Every option of these option objects: name, value, default, sentence."""
    from flaremq.options import rows

    seen = set()
    lines = []
    for values in options:
        for row in rows(type(values)):
            if row.key not in seen:
                seen.add(row.key)
                value = getattr(values, row.field_name)
                lines.append({"option": row.key, "value": value, "default": row.default, "meaning": row.doc})
    output = TABLE if sys.stdout.isatty() else JSONL
    print_rows(lines, output, columns=("option", "value", "default", "meaning"))
