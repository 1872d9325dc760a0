"""How fast a message is found by its key: one by one, and a thousand keys at once.

Keys are drawn at random from all that exist, with a fixed seed; making the key's text counts, as on the other side.
"""

from __future__ import annotations

import random
import statistics
import time

from benchmarks.messages import KEY, TOPIC, fill
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Processor, Row, percentiles, samples

_SIZE = 100
_AT_ONCE = 1000
_AT_ONCE_ROUNDS = 9


def plan(settings: Settings) -> list[Measurement]:
    return [
        Measurement(
            name="query by key",
            ours=("store.query:measure", {"keys": settings.query_keys, "queries": settings.queries}),
            theirs=(
                "query",
                {
                    "messages": settings.query_keys,
                    "queries": settings.queries,
                    "size": _SIZE,
                    "warm": settings.warm_seconds,
                },
            ),
            rounds=settings.rounds,
            figures=(
                Figure(
                    label="query one by one, p50",
                    unit="us",
                    ours="p50_us",
                    theirs="p50_us",
                    less_is_better=True,
                    wanted_bound=4.0,
                ),
                Figure(label="  p99", unit="us", ours="p99_us", theirs="p99_us", less_is_better=True),
                Figure(label="  p99.9", unit="us", ours="p999_us", theirs="p999_us", less_is_better=True),
                Figure(
                    label="query 1,000 keys at once",
                    unit="s",
                    ours="thousand_s",
                    theirs="thousand_in_a_row_s",
                    less_is_better=True,
                    wanted_ratio=1.2,
                ),
            ),
        )
    ]


def measure(*, folder: str, keys: int, queries: int) -> Row:
    from flaremq import MessageStore, StoreOptions

    with MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:
        fill(store, _SIZE, count=keys)
        processor, numbers, clock = Processor(), random.Random(11), time.perf_counter_ns
        for _ in range(queries // 4):
            store.query(TOPIC, KEY % numbers.randrange(keys))

        spent, found = samples(queries), 0
        for turn in range(queries):
            number = numbers.randrange(keys)
            begin = clock()
            messages = store.query(TOPIC, KEY % number)
            spent[turn] = clock() - begin
            found += len(messages)

        at_once = []
        for _ in range(_AT_ONCE_ROUNDS):
            begin = clock()
            answers = store.query_many(TOPIC, [KEY % (turn * keys // _AT_ONCE) for turn in range(_AT_ONCE)])
            at_once.append((clock() - begin) / 1e9)
        if found != queries or not all(answers):
            raise RuntimeError(f"{queries} keys asked for, {found} messages found")
        return {
            "keys": keys,
            **percentiles(spent),
            "thousand_s": round(statistics.median(at_once[1:]), 6),  # the first one loads the kernels
            "thousand_first_s": round(at_once[0], 6),
            **processor.describe(),
        }
