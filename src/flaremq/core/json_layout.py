"""The numbers of ``json_fields``: what a column holds, the rows of its plan. ``json_layout.pxd`` has them too."""

from __future__ import annotations

# What a column holds, and so which values it takes. The first three are int64 each, a double as its bits; the others
# are bytes: a text without its escapes, a number as it is written, any value as it is written.
LONG, DOUBLE, BOOLEAN, TEXT, NUMBER, RAW = range(6)

# The plan has for each field its kind, the least and the largest int, and its number among the columns of int64 or
# among those of bytes.
KIND, LOW, HIGH, SLOT, PLAN_COUNT = range(5)
