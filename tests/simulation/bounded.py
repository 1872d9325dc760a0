"""Every short history, crashed before every call it makes to the disk (B3 style: most bugs need three
operations).

A history's prefix was crashed everywhere when it was a history itself, so only the calls of the last
operation are crashed here. One run collects the images of all its calls; each image is then recovered and
checked on its own.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.world import BOUNDED_OPERATIONS, World, small_options
from tests.support.crash_choices import Chooser, RandomChooser, SubsetChooser
from tests.support.oracle import OracleViolation

MODES = ("SYNC_FLUSH", "ASYNC_FLUSH")


def sequences(length_max: int) -> Iterator[tuple[str, ...]]:
    for length in range(length_max + 1):
        yield from itertools.product(BOUNDED_OPERATIONS, repeat=length)


@dataclass(frozen=True, slots=True)
class Image:
    """A disk some crash could leave, and what had been answered by then."""

    call: int
    variant: str
    world: World


def chooser_of(variant: str, world: World) -> Chooser:
    kind, _, value = variant.partition(":")
    return SubsetChooser(int(value)) if kind == "bits" else RandomChooser(variant, world.kinds)


def variants(questions: int, subset_bits: int, random_count: int) -> list[str]:
    """All subsets while there are few questions; else nothing, everything, and seeded mixtures."""
    if questions <= subset_bits:
        subsets = [f"bits:{bits}" for bits in range(1 << questions)]
    else:
        subsets = ["bits:0", f"bits:{(1 << questions) - 1}"]
    return subsets + [f"seed:{number}" for number in range(random_count if questions else 0)]


def crash_images(
    sequence: tuple[str, ...],
    mode: str,
    *,
    subset_bits: int,
    random_count: int,
    only: tuple[int, str] | None = None,
) -> list[Image]:
    """Distinct images of crashes during the last operation (or during the first opening) and right after
    it."""
    world = World("bounded", small_options(flush_disk_type=mode))
    images: list[Image] = []
    seen: set[bytes] = set()

    def collect() -> None:
        call = world.fs.calls
        if only is not None and only[0] != call:
            return
        choices = [only[1]] if only else variants(world.fs.questions(), subset_bits, random_count)
        for variant in choices:
            after = world.crash(chooser_of(variant, world))
            key = _digest(after)
            if key not in seen:
                seen.add(key)
                images.append(Image(call, variant, after))

    def before_call(operation: str, path: str) -> None:
        collect()

    if not sequence:
        world.fs.observer = before_call
    world.open()
    for name in sequence[:-1]:
        world.run(name)
    world.fs.observer = before_call
    if sequence:
        answer = world.run(sequence[-1])
        if answer.error is not None:
            raise OracleViolation(f"{sequence[-1]} failed on a healthy disk: {answer.error}")
    world.fs.observer = None
    world.fs.calls += 1
    collect()
    return images


def _digest(world: World) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for path, data in sorted(world.fs.files().items()):
        digest.update(path.encode())
        digest.update(data)
    states = [(entry.number, entry.state) for entry in world.history.entries]
    digest.update(repr((states, world.history.promised, world.history.deleted_below)).encode())
    return digest.digest()


def check_image(image: Image, *, twice: bool) -> None:
    image.world.check_image()
    image.world.open_and_check()
    if twice:
        image.world.check_recovers_again()
    image.world.run("put")
    answer = image.world.answers[-1]
    if answer.error is not None or answer.status is None or answer.status.name != "PUT_OK":
        raise OracleViolation(f"I18: after recovery a put is answered {answer}")


def check_sequence(sequence: tuple[str, ...], mode: str, *, subset_bits: int, random_count: int) -> int:
    """Check all images of one history; the number checked. A failure names the line that repeats it."""
    images = crash_images(sequence, mode, subset_bits=subset_bits, random_count=random_count)
    for number, image in enumerate(images):
        try:
            check_image(image, twice=number % 8 == 0)
        except Exception as error:
            raise AssertionError(
                f"{error}\nrepeat: python -m tests.simulation.replay bounded {mode} "
                f"{','.join(sequence) or '-'} {image.call} {image.variant}"
            ) from error
    return len(images)
