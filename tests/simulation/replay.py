"""Repeat one failing case by the line it printed: ``python -m tests.simulation.replay KIND ARGUMENTS...``."""

from __future__ import annotations

import sys

from tests.simulation import bounded, deep, flips, io_errors, replica_group, replica_group_store, shell_group


def main(arguments: list[str]) -> None:
    kind, *rest = arguments
    if kind == "bounded":
        mode, names, call, variant = rest
        sequence = () if names == "-" else tuple(names.split(","))
        images = bounded.crash_images(sequence, mode, subset_bits=0, random_count=0, only=(int(call), variant))
        for image in images:
            bounded.check_image(image, twice=True)
    elif kind == "deep":
        deep.run_history(int(rest[0]), deep.Tally())
    elif kind == "group":
        print(replica_group.run_history(int(rest[0])))
    elif kind == "store-group":
        print(replica_group_store.run_store_history(int(rest[0])))
    elif kind == "shells":
        print(shell_group.run_history(int(rest[0])))
    elif kind in ("fault", "recovery-fault"):
        mode, error, times, at = rest
        assert error in io_errors.KINDS
        case = io_errors.Case(mode, error, times == "forever", int(at))
        run = io_errors.check_case if kind == "fault" else io_errors.check_recovery_case
        assert run(case) is not None, "the script has no such call"
    elif kind == "flip":
        state, path, bit = rest
        flips.check_flip(flips.pristine(state), path, int(bit))
    else:
        raise SystemExit(f"unknown kind {kind}")
    print("nothing wrong")


if __name__ == "__main__":
    main(sys.argv[1:])
