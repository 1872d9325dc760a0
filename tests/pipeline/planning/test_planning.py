"""The planner: whatever the profiles say, partitions tile what was asked for; where they are right, they balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flaremq.errors import UnavailableError
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.planning.planner import PlanLimits, checked_spans, plan, share_out, take_bytes

QUEUE = QueueRef("orders", "b", 0)


@st.composite
def profiles(draw: st.DrawFn) -> list[SizeProfile]:
    """Any profiles: physical or not, odd physical orders, empty spans, free sizes."""
    found = []
    for at in range(draw(st.integers(0, 6))):
        queue = QueueRef(f"t{at % 2}", f"b{draw(st.integers(0, 1))}", at)
        start = draw(st.integers(0, 1_000))
        steps = draw(st.lists(st.integers(1, 500), max_size=5))
        known = draw(st.sampled_from(["all", "none", "odd", "last unknown"]))
        offset, size, place = start, 0, draw(st.integers(0, 10_000))
        points = [ProfilePoint(offset, 0, -1 if known == "none" else place)]
        for step in steps:
            offset += step
            size += step * draw(st.integers(0, 5_000))
            place += draw(st.integers(-500 if known == "odd" else 0, 100_000))
            points.append(ProfilePoint(offset, size, -1 if known == "none" else max(0, place)))
        if known == "last unknown":
            points[-1] = points[-1]._replace(physical_offset=-1)
        found.append(SizeProfile(Span(queue, start, offset), tuple(points)))
    return found


limits = st.builds(
    PlanLimits,
    target_bytes=st.integers(1, 2_000_000),
    min_partitions=st.integers(0, 40),
    max_records=st.sampled_from([0, 0, 1, 3, 50, 700]),
)


@given(profiles(), limits)
def test_partitions_tile_what_was_asked_for(asked: list[SizeProfile], limits: PlanLimits) -> None:
    assume(sum(profile.size_bytes for profile in asked) // limits.target_bytes < 3_000)
    pieces = plan(asked, limits)
    by_queue: dict[QueueRef, list[Span]] = defaultdict(list)
    for piece in pieces:
        assert piece, "no partition is empty"
        assert len({span.queue for span in piece}) <= len(piece)
        for span in piece:
            assert span.count > 0
            by_queue[span.queue].append(span)
    for profile in asked:
        spans = sorted(by_queue.pop(profile.span.queue, []))
        ends = [profile.span.start, *(span.end for span in spans)]
        assert [span.start for span in spans] == ends[:-1]
        assert ends[-1] == profile.span.end
    assert by_queue == {}


@given(profiles(), limits)
def test_limits_on_count_hold(asked: list[SizeProfile], limits: PlanLimits) -> None:
    assume(sum(profile.size_bytes for profile in asked) // limits.target_bytes < 3_000)
    pieces = plan(asked, limits)
    records = sum(profile.span.count for profile in asked)
    assert len(pieces) >= min(limits.min_partitions, records)
    if limits.max_records:
        assert all(sum(span.count for span in piece) <= limits.max_records for piece in pieces)


@given(profiles(), limits)
def test_the_same_question_has_the_same_answer(asked: list[SizeProfile], limits: PlanLimits) -> None:
    assume(sum(profile.size_bytes for profile in asked) // limits.target_bytes < 3_000)
    assert plan(asked, limits) == plan(list(reversed(asked)), limits)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """A log as (queue, size) of each record, in order."""
    sizes = st.integers(1, 3_000)
    return draw(st.lists(st.tuples(st.integers(0, 4), sizes), min_size=1, max_size=400))


def profiles_of(
    log: Sequence[tuple[int, int]], *, step: int = 1
) -> tuple[list[SizeProfile], dict[QueueRef, list[int]]]:
    """Profiles of a log with a point at every ``step``-th record, and the records' sizes by queue."""
    places: dict[QueueRef, list[tuple[int, int]]] = defaultdict(list)
    at = 0
    for queue, size in log:
        places[QueueRef("t", "b", queue)].append((at, size))
        at += size
    found = []
    for ref, records in sorted(places.items()):
        before = [0]
        for _, size in records:
            before.append(before[-1] + size)
        points = [ProfilePoint(n, before[n], records[n][0]) for n in range(0, len(records), step)]
        points.append(ProfilePoint(len(records), before[-1], sum(records[-1])))
        found.append(SizeProfile(Span(ref, 0, len(records)), tuple(points)))
    return found, {ref: [size for _, size in records] for ref, records in places.items()}


@given(logs(), st.integers(1, 20))
def test_bytes_are_balanced_as_far_as_messages_allow(log: list[tuple[int, int]], count: int) -> None:
    asked, sizes = profiles_of(log)
    pieces = plan(asked, PlanLimits(min_partitions=count))
    total = sum(size for _, size in log)
    largest = max(sum(sum(sizes[queue][start:end]) for queue, start, end in piece) for piece in pieces)
    # A cut falls between two messages of each queue, so a share is off by a message at either end.
    assert largest <= total / count + 2 * max(size for _, size in log) * len(asked)


@given(logs(), st.integers(2, 12))
def test_a_partition_is_one_stretch_of_the_log(log: list[tuple[int, int]], count: int) -> None:
    asked, _ = profiles_of(log)
    pieces = plan(asked, PlanLimits(target_bytes=max(1, sum(size for _, size in log) // count)))
    numbers: dict[QueueRef, int] = defaultdict(int)
    owner = []
    for queue, _size in log:
        ref = QueueRef("t", "b", queue)
        offset, numbers[ref] = numbers[ref], numbers[ref] + 1
        owner.append(
            next(
                at
                for at, piece in enumerate(pieces)
                if any(s.queue == ref and s.start <= offset < s.end for s in piece)
            )
        )
    assert owner == sorted(owner)


def test_a_large_range_is_cut_into_full_partitions() -> None:
    points = tuple(ProfilePoint(n * 1000, n << 20, n << 20) for n in range(0, 1025))
    pieces = plan([SizeProfile(Span(QUEUE, 0, 1_024_000), points)])
    assert len(pieces) == 8
    assert {piece[0].count for piece in pieces} == {128_000}


def test_a_small_range_is_one_partition_and_a_middling_one_is_spread() -> None:
    def even(size: int) -> list[SizeProfile]:
        return [SizeProfile(Span(QUEUE, 0, 1000), (ProfilePoint(0, 0, 0), ProfilePoint(1000, size, size)))]

    assert len(plan(even(1 << 20))) == 1
    assert len(plan(even(32 << 20))) == 4
    assert len(plan(even(100 << 20))) == 8


def test_brokers_do_not_share_a_partition_more_than_needed() -> None:
    def log_of(broker: str) -> SizeProfile:
        span = Span(QueueRef("t", broker, 0), 0, 1000)
        return SizeProfile(span, (ProfilePoint(0, 0, 0), ProfilePoint(1000, 1 << 30, 1 << 30)))

    pieces = plan([log_of("a"), log_of("b")])
    assert len(pieces) == 16
    assert all(len(piece) == 1 for piece in pieces)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 10**12), min_size=1), st.integers(1, 10**9))
def test_shares_are_fair_and_never_exceed_the_limit(waiting: dict[int, int], most: int) -> None:
    by_queue = {QueueRef("t", "b", at): count for at, count in waiting.items()}
    shares = share_out(by_queue, most)
    total = sum(by_queue.values())
    assert sum(shares.values()) == min(most, total)
    for queue, count in by_queue.items():
        assert 0 <= shares[queue] <= count
        if total > most:
            assert abs(shares[queue] - count * most / total) <= 1.001


@given(logs(), st.integers(0, 100_000))
def test_a_limit_in_bytes_takes_a_prefix_and_at_least_one_message(log: list[tuple[int, int]], most: int) -> None:
    asked, sizes = profiles_of(log)
    ends = take_bytes(asked, most)
    taken = sum(sum(sizes[queue][:end]) for queue, end in ends.items())
    assert sum(ends.values()) >= 1
    assert taken <= most + max(size for _, size in log) * len(asked)


def test_a_range_that_is_held_is_taken_as_it_is() -> None:
    spans, warnings = checked_spans({QUEUE: 5}, {QUEUE: 9}, [QueueExtent(QUEUE, 2, 20)], fail_on_data_loss=True)
    assert spans == [Span(QUEUE, 5, 9)]
    assert warnings == []


@pytest.mark.parametrize(("start", "end"), [(1, 9), (5, 21), (30, 40), (0, 1)])
def test_wanted_messages_that_are_gone_are_an_error(start: int, end: int) -> None:
    with pytest.raises(
        UnavailableError, match=rf"orders/b/0 holds offsets 2 to 20, but {start} to {end}.*failOnDataLoss"
    ):
        checked_spans({QUEUE: start}, {QUEUE: end}, [QueueExtent(QUEUE, 2, 20)], fail_on_data_loss=True)


@pytest.mark.parametrize(("start", "end", "left"), [(1, 9, (2, 9)), (5, 21, (5, 20)), (30, 40, None), (0, 1, None)])
def test_without_fail_on_data_loss_what_is_left_is_read_with_a_warning(
    start: int, end: int, left: tuple[int, int] | None
) -> None:
    extents = [QueueExtent(QUEUE, 2, 20)]
    spans, warnings = checked_spans({QUEUE: start}, {QUEUE: end}, extents, fail_on_data_loss=False)
    assert spans == ([Span(QUEUE, *left)] if left else [])
    assert len(warnings) == 1
