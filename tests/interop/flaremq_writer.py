"""A process that puts messages until it is killed: ``python flaremq_writer.py ROOT OPTIONS_JSON FIRST``.

One JSON line on standard output for each acknowledged put, written at once and only after the store answered.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.interop import corpus, ours


def main(root: str, options: str, first: str) -> None:
    store = ours.open_store(Path(root), json.loads(options))
    for number in itertools.count(int(first)):
        ack = corpus.put(store, number)
        sys.stdout.write(json.dumps(dataclasses.asdict(ack)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
