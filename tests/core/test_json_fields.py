"""Fields out of JSON bodies: the compiled walk and the interpreted one see the same, and neither leaves its buffers."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core import json_fields
from flaremq.core.json_layout import BOOLEAN, DOUBLE, LONG, NUMBER, PLAN_COUNT, RAW, TEXT
from tests.pipeline.bodies.made_json import made_bodies
from tests.support.interpreted_core import interpreted, is_compiled

NAMES = ("id", "amount", "n", "ok", "o", "price", "f", "at")
KINDS = (TEXT, DOUBLE, LONG, BOOLEAN, RAW, NUMBER, DOUBLE, TEXT)


def scanned(
    module: ModuleType, bodies: list[bytes], *, names: tuple[str, ...] = NAMES, short: str = "", by: int = 0
) -> tuple[Any, ...]:
    """What a scan answers and writes; ``short`` is a buffer that has so many bytes too few."""
    kinds, rows, size = KINDS[: len(names)], len(bodies), sum(map(len, bodies))
    bounds, name_ends, plan = array("i", [0]), array("i", [0]), array("q")
    for body in bodies:
        bounds.append(bounds[-1] + len(body))
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        name_ends.append(name_ends[-1] + len(name.encode()))
        plan.extend([kind, -(2**31), 2**31 - 1, sum((other >= TEXT) == (kind >= TEXT) for other in kinds[:at])])
    assert len(plan) == PLAN_COUNT * len(names)
    texts = sum(kind >= TEXT for kind in kinds)
    sizes = {
        "valid": len(kinds) * ((rows + 63) // 64 * 8),
        "values": 8 * rows * (len(kinds) - texts),
        "ends": 4 * (rows + 1) * texts,
        "texts": size * texts,
        "scratch": 16 * len(kinds),
        "odd": 8 * rows,
    }
    if short:
        sizes[short] = max(sizes[short] - by, 0)
    out = {name: bytearray(length) for name, length in sizes.items()}
    found = module.scan_fields(
        b"".join(bodies), bounds, 0, rows, "".join(names).encode(), name_ends, plan, *out.values()
    )
    return found, out


@pytest.mark.skipif(not is_compiled(json_fields), reason="the core is not compiled here")
@given(st.integers(0, 2**32))
def test_compiled_and_interpreted_find_the_same(seed: int) -> None:
    bodies = made_bodies(seed, 12)
    found, out = scanned(json_fields, bodies)
    assert (found, out) == scanned(interpreted("json_fields"), bodies)


@pytest.mark.skipif(not is_compiled(json_fields), reason="the core is not compiled here")
@given(st.lists(st.binary(max_size=60).map(lambda tail: b'{"id":"' + tail), max_size=4), st.binary(max_size=40))
def test_any_bytes_are_the_same_both_ways(bodies: list[bytes], other: bytes) -> None:
    assert scanned(json_fields, [*bodies, other]) == scanned(interpreted("json_fields"), [*bodies, other])


@pytest.mark.parametrize("short", ["valid", "values", "ends", "texts", "scratch", "odd"])
def test_a_buffer_that_is_too_small_is_refused(short: str) -> None:
    with pytest.raises(ValueError, match="too small"):
        scanned(json_fields, [b'{"id": "x", "amount": 1}'] * 3, short=short, by=24)


def test_a_body_outside_its_column_is_refused() -> None:
    plan = array("q", [LONG, 0, 9, 0])
    for bounds in ([0, 8], [-1, 3], [3, 1], [0, 2**31 - 1]):
        with pytest.raises(ValueError, match="outside its column"):
            json_fields.scan_fields(
                b'{"a":1}',
                array("i", bounds),
                0,
                1,
                b"a",
                array("i", [0, 1]),
                plan,
                *map(bytearray, (8, 8, 0, 0, 16, 8)),
            )


@pytest.mark.parametrize("first", [2, 2**62, 2**63 - 2, 2**63 - 1])
def test_bodies_behind_the_last_bound_are_refused(first: int) -> None:
    out = map(bytearray, (8, 8, 0, 0, 16, 8))
    with pytest.raises(ValueError, match="too small"):
        json_fields.scan_fields(
            b"{}", array("i", [0, 2]), first, 1, b"a", array("i", [0, 1]), array("q", [LONG, 0, 9, 0]), *out
        )


def test_a_body_that_is_longer_than_all_of_them_writes_nothing() -> None:
    data = b'{"id":"' + b"x" * 40 + b'"}'
    texts = bytearray(len(data))  # after the place that there is by the bounds: none
    out = (bytearray(8), bytearray(), bytearray(12), memoryview(texts)[:0], bytearray(16), bytearray(16))
    plan = array("q", [TEXT, 0, 0, 0])
    with pytest.raises(ValueError, match="body 0 lies outside"):
        json_fields.scan_fields(data, array("i", [0, len(data), 0]), 0, 2, b"id", array("i", [0, 2]), plan, *out)
    assert not any(texts)


def test_every_part_of_a_body_that_ends_early_is_odd() -> None:
    text = '{"id":"é\\ud83d\\ude00\\n","amount":-1.5e+3,"x":[{"y":[true,null]},"\\u00e9"],"n":12,"ok":false,"o":{}}'
    body = text.encode()
    assert scanned(json_fields, [body])[0] == 0
    assert scanned(json_fields, [body[:length] for length in range(len(body))])[0] == len(body)


def test_nesting_is_taken_to_a_bound_and_odd_beyond() -> None:
    deep = [b'{"x":' + b"[" * depth + b"]" * depth + b"}" for depth in (1, 60, 61, 5000)]
    assert [scanned(json_fields, [body])[0] for body in deep] == [0, 0, 1, 1]
