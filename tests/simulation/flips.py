"""One bit of a store is wrong. No wrong byte is served, and no record that was not hit is lost.

Every bit of every file of a small store, closed cleanly and killed. Queues repair themselves; damage to the
log costs the record that was hit, never its neighbours. An index file has no checksum in this format, so a
wrong bit there may hide a key from ``query`` (``store verify`` finds it, a rebuild repairs it), but it never
makes ``query`` answer with something else, and the message itself is served. Without the whole-record
checksum a wrong bit outside the body cannot be seen; then only the other records are held to this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from flaremq.errors import CorruptionError
from tests.simulation.world import World, small_options
from tests.support import raw_store
from tests.support.crash_fs import CrashFS
from tests.support.oracle import ROOT, OracleViolation
from tests.support.raw_store import RawRecord

STATES = ("closed", "killed", "closed-unsealed", "killed-unsealed")


@dataclass(frozen=True, slots=True)
class Pristine:
    """The store before the damage."""

    state: str
    world: World
    disk: CrashFS
    records: list[RawRecord]

    @property
    def sealed(self) -> bool:
        return self.world.options.enabled_append_prop_crc

    @property
    def files(self) -> dict[str, bytes]:
        return self.disk.files()


def pristine(state: str) -> Pristine:
    world = World("flips", small_options(enabled_append_prop_crc=not state.endswith("unsealed")))
    store = world.open()
    for name in ["put", "batch", "put", "delay", "large", "put", "tick", "large", "put", "put"]:
        world.run(name)
    if state.startswith("closed"):
        store.close()
    disk = world.fs.kill()
    return Pristine(state, world, disk, raw_store.read_log(disk.files(), ROOT).records)


def interesting_bits(store: Pristine) -> list[tuple[str, int]]:
    """Every bit of what was ever written, and of a margin behind it."""
    bits = []
    for path, data in sorted(store.files.items()):
        used = len(data.rstrip(b"\0"))
        first = _last_small(path, data)
        for byte in range(min(used + 24, len(data))):
            if first <= byte < first + 8000:
                continue  # the middle of a large body is as good as any other byte of it
            bits += [(path, byte * 8 + bit) for bit in range(8)]
    return bits


def _last_small(path: str, data: bytes) -> int:
    """Where the large body of a log file has its dull middle; far away in other files."""
    if "/commitlog/" not in path:
        return 1 << 30
    large = next((r for r in raw_store.walk_log({int(os.path.basename(path)): data}).records if r.size > 8500), None)
    return 1 << 30 if large is None else large.physical_offset % len(data) + 200


def check_flip(store: Pristine, path: str, bit: int) -> None:
    """Flip one bit, open, read everything."""
    data = bytearray(store.files[path])
    data[bit // 8] ^= 1 << bit % 8
    disk = store.disk.kill()
    disk.capacity = 4 << 20  # a wrong number must not be taken for a reason to write gigabytes
    disk.overwrite(path, bytes(data))
    hit = _record_hit(store, path, bit // 8)
    world = store.world.fork(disk)
    try:
        opened = world.open()
    except CorruptionError as error:
        raise OracleViolation(f"I19: one flipped bit keeps the whole store shut: {error}") from error
    opened.wait_for_dispatch(0)
    for topic, queue_id in sorted({(r.topic, r.queue_id) for r in store.records}):
        wanted = [r for r in store.records if (r.topic, r.queue_id) == (topic, queue_id)]
        _check_queue(world, wanted, hit, store.sealed)
    carriers: dict[tuple[str, str], set[int]] = {}
    for record in store.records:
        for key in record.keys:
            carriers.setdefault((record.topic, key), set()).add(record.physical_offset)
    for record in store.records:
        found = opened.read(record.physical_offset)
        if found is not None and bytes(found.record) != record.raw and (store.sealed or record is not hit):
            raise OracleViolation(f"I19: reading {record.physical_offset} gave bytes that were never stored")
        if found is None and record is not hit:
            raise OracleViolation(f"I19: the undamaged record at {record.physical_offset} cannot be read")
        for key in record.keys:
            offsets = [m.physical_offset for m in opened.query(record.topic, key, 64)]
            strange = [at for at in offsets if at not in carriers[record.topic, key]]
            if strange and (store.sealed or hit is None):
                raise OracleViolation(f"I19: key {key} finds {strange}, which do not have it")
            if record is not hit and "/index/" not in path and record.physical_offset not in offsets:
                raise OracleViolation(f"I19: key {key} does not find the undamaged {record.physical_offset}: {offsets}")


def _check_queue(world: World, wanted: list[RawRecord], hit: RawRecord | None, sealed: bool) -> None:
    assert world.store is not None
    topic, queue_id = wanted[0].topic, wanted[0].queue_id
    served: dict[int, bytes] = {}
    offset = 0
    end = wanted[-1].queue_offset + 1
    while offset < end:
        result = world.store.get(topic, queue_id, offset, 32)
        served.update({m.queue_offset: bytes(m.record) for m in result.messages})
        if result.next_offset <= offset:
            break
        offset = result.next_offset
    for record in wanted:
        found = served.pop(record.queue_offset, None)
        if found is not None and found != record.raw and (sealed or hit is None):
            raise OracleViolation(f"I19: {topic}/{queue_id}@{record.queue_offset} served bytes that were never stored")
        if found is None and record is not hit:
            raise OracleViolation(f"I19: the undamaged {topic}/{queue_id}@{record.queue_offset} is not served")
    if served and (sealed or hit is None):
        raise OracleViolation(f"I19: {topic}/{queue_id} served {sorted(served)}, which never were")


def _record_hit(store: Pristine, path: str, byte: int) -> RawRecord | None:
    if "/commitlog/" not in path:
        return None
    offset = int(os.path.basename(path)) + byte
    return next((r for r in store.records if r.physical_offset <= offset < r.end), None)
