"""Real processes, real faults: ``python -m tests.replication_episodes --kinds "flaremq>flaremq" --seed S``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.replication_episodes import classic, controlled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kinds", default="flaremq>flaremq", help='like "flaremq>rocketmq-5.5.0"; with a controller "flaremq+flaremq"'
    )
    parser.add_argument("--controller", help="flaremq or rocketmq-5.5.0; without it the roles are fixed")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small-disks", action="store_true", help="stores on small disks that fill up; needs root")
    settings = parser.parse_args()
    done: classic.ClassicRun | controlled.ControlledRun
    with tempfile.TemporaryDirectory(prefix="flaremq-episodes-", ignore_cleanup_errors=True) as folder:
        if settings.controller:
            done = controlled.run(Path(folder), settings.kinds, settings.controller, settings.seed, settings.episodes)
        else:
            done = classic.run(
                Path(folder), settings.kinds, settings.seed, settings.episodes, small_disks=settings.small_disks
            )
    codes = ", ".join(f"{count} x {code}" for code, count in sorted(done.ledger.codes.items()))
    print(
        f"{settings.episodes} episodes of seed {settings.seed}, {len(done.ledger.acknowledged)} acknowledged, "
        f"{len(done.ledger.delivered)} delivered, nothing lost; replies: {codes}; {'; '.join(done.history)}"
    )


if __name__ == "__main__":
    main()
