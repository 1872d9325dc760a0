"""Histories of replica groups by the thousand: in several processes, and in several sittings.

``python -m tests.simulation.many_groups DONE.jsonl`` runs a million. Each finished chunk of seeds is a line of the file
with what happened in it; started again, it goes on with the chunks that are not there. A broken promise is a line too:
the others still run, and the exit code tells. One history in fifty is on real stores.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tests.simulation import replica_group, replica_group_store

ONE_STORE_IN = 50
CHUNK = 500
_PR_SET_PDEATHSIG = 1


def run_seeds(first: int, count: int) -> replica_group.Tally:
    """These histories; raises on the first broken promise."""
    tally = replica_group.Tally()
    for seed in range(first, first + count):
        if seed % ONE_STORE_IN:
            replica_group.run_history(seed, tally)
        else:
            replica_group_store.run_store_history(seed, tally)
    return tally


def run_chunks(firsts: list[int], workers: int) -> Iterator[dict[str, object]]:
    """What happened in each chunk, as they finish."""
    with ProcessPoolExecutor(workers, initializer=begin_worker, initargs=(os.getpid(),)) as pool:
        for done in as_completed([pool.submit(_run_chunk, first) for first in firsts]):
            yield done.result()


def chunks_done(path: Path) -> set[int]:
    """First seeds of the chunks that passed; a line that was being written when the machine stopped is none."""
    done = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "failure" not in row:
            done.add(int(row["first"]))
    return done


def begin_worker(run: int) -> None:
    """Say nothing, for recoveries are told by the thousand, and die with the run: nobody else would end it."""
    logging.disable()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != run:  # it died before we asked to be told
        raise SystemExit("the run is gone")


def _run_chunk(first: int) -> dict[str, object]:
    began = time.process_time()
    row: dict[str, object] = {"first": first}
    for start in range(first, first + CHUNK):  # one by one: a broken promise does not keep the others from being run
        try:
            happened = asdict(run_seeds(start, 1))
        except Exception as error:
            row["failure"] = f"seed {start}: {error}"
        else:
            for name, value in happened.items():
                row[name] = int(str(row.get(name, 0))) + value
    return row | {"cpu_s": round(time.process_time() - began, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("done", type=Path, help="file of finished chunks, made or gone on with")
    parser.add_argument("--first", type=int, default=2_000_001, help="first seed")
    parser.add_argument("--count", type=int, default=1_000_000, help="histories")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    before = chunks_done(arguments.done)
    firsts = [
        first for first in range(arguments.first, arguments.first + arguments.count, CHUNK) if first not in before
    ]
    total: Counter[str] = Counter()
    failures = 0
    with arguments.done.open("a") as lines:
        lines.write("\n")  # what a stopped run left half is no part of the next line
        for row in run_chunks(firsts, arguments.workers):
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            failures += "failure" in row
            total.update({name: value for name, value in row.items() if isinstance(value, int) and name != "first"})
            if "failure" in row:
                print(row["failure"], flush=True)
    print(", ".join(f"{value:,} {name}" for name, value in total.items()), f"{failures} chunks with broken promises")
    return min(failures, 1)


if __name__ == "__main__":
    raise SystemExit(main())
