"""Golden stores without their views: queues and index made anew from Java's log are what Java had written.

Four differences are unavoidable, and these are all there are:

* *Ext.* Units of a queue with an ext file hold an address there; ours hold the tag hash that the address stands for.
* *Expired.* Java's first queue files still hold units of records that are gone from the log; a rebuilt file has filler
  in their place, or starts at a later file.
* *Nothing left.* A queue whose records are all expired cannot be found in the log; its folder is gone.
* *Filler.* Where Java's own queue starts with filler (a slave that joined late) so does ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.consume_queue import FILLER, UNIT
from flaremq.storage.queue.consume_queue_ext import is_ext_address
from tests.support.golden import GoldenStore, golden_names, load_manifest, open_golden

CLEAN = [name for name in golden_names() if not load_manifest(name)["abortFilePresent"]]
NO_UNIT = bytes(20)


@dataclass
class Rebuilt:
    """Queue files before and after, and what the ext files said."""

    golden: GoldenStore
    before: dict[str, bytes]
    after: dict[str, bytes]
    ext_codes: dict[tuple[str, int], int]  # (queue file, place) of a unit with an ext address -> its tag hash
    log_min: int
    store: MessageStore


def queue_files(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def ext_codes(store: MessageStore, files: dict[str, bytes]) -> dict[tuple[str, int], int]:
    codes = {}
    for name, data in files.items():
        topic, queue_id, _ = name.split("/")
        for place, (_, _, code) in enumerate(UNIT.iter_unpack(data)):
            if is_ext_address(code):
                unit = store._queues.ext[(topic, int(queue_id))].read(code)
                assert unit is not None
                codes[(name, place)] = unit.tags_code
    return codes


@pytest.fixture(scope="module", params=CLEAN)
def rebuilt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebuilt]:
    golden = open_golden(request.param, tmp_path_factory.mktemp("rebuild"))
    options = StoreOptions.from_properties(golden.options)
    before = queue_files(golden.root)
    with MessageStore.open(golden.root, options, threads=False) as store:
        codes = ext_codes(store, before)
    for view in ("consumequeue", "index"):
        shutil.rmtree(golden.root / view)
    store = MessageStore.open(golden.root, options, threads=False)
    after = queue_files(golden.root)
    yield Rebuilt(golden, before, after, codes, store.min_physical_offset, store)
    store.close()


def test_every_retained_unit_is_byte_identical(rebuilt: Rebuilt) -> None:
    for name, data in rebuilt.before.items():
        for place, (physical, size, code) in enumerate(UNIT.iter_unpack(data)):
            unit = data[place * 20 : place * 20 + 20]
            if unit in (FILLER, NO_UNIT) or physical < rebuilt.log_min:
                continue
            code = rebuilt.ext_codes.get((name, place), code)
            found = rebuilt.after[name][place * 20 : place * 20 + 20]
            assert found == UNIT.pack(physical, size, code), (name, place)


def test_nothing_is_added_but_filler_for_what_expired(rebuilt: Rebuilt) -> None:
    assert set(rebuilt.after) <= set(rebuilt.before)
    for name, data in rebuilt.after.items():
        for place in range(len(data) // 20):
            found = data[place * 20 : place * 20 + 20]
            was = rebuilt.before[name][place * 20 : place * 20 + 20]
            if found == was or (name, place) in rebuilt.ext_codes:
                continue
            assert found == FILLER, (name, place)
            assert UNIT.unpack(was)[0] < rebuilt.log_min, (name, place)


def test_files_are_identical_unless_one_of_the_four_reasons_applies(rebuilt: Rebuilt) -> None:
    with_ext = {name for name, _ in rebuilt.ext_codes}
    for name, data in rebuilt.before.items():
        expired = any(unit[0] < rebuilt.log_min and unit[1] not in (0, 2**31 - 1) for unit in UNIT.iter_unpack(data))
        if name not in with_ext and not expired:
            assert rebuilt.after[name] == data, name


def test_missing_files_held_only_expired_units(rebuilt: Rebuilt) -> None:
    for name in set(rebuilt.before) - set(rebuilt.after):
        assert all(unit[0] < rebuilt.log_min for unit in UNIT.iter_unpack(rebuilt.before[name])), name


def test_rebuilt_index_finds_every_key(rebuilt: Rebuilt) -> None:
    for message in rebuilt.golden.messages:
        properties = message["properties"]
        for key in [*properties.get("KEYS", "").split(" "), properties.get("UNIQ_KEY", "")]:
            if not key:
                continue
            at = message["storeTimestamp"]
            found = rebuilt.store.query(message["topic"], key, 64, at, at)
            assert message["physicalOffset"] in [m.physical_offset for m in found], (message["topic"], key)


def test_rebuild_is_repeatable_to_the_byte(rebuilt: Rebuilt, tmp_path: Path) -> None:
    golden = open_golden(rebuilt.golden.name, tmp_path)
    for view in ("consumequeue", "index"):
        shutil.rmtree(golden.root / view)
    with MessageStore.open(golden.root, StoreOptions.from_properties(golden.options), threads=False):
        pass
    assert queue_files(golden.root) == rebuilt.after


def test_batch_queues_are_rebuilt_to_the_byte(tmp_path: Path) -> None:
    golden = open_golden("rmq53-batchcq", tmp_path)
    folder = golden.root / "batchconsumequeue"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert before
    for view in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(golden.root / view)
    with MessageStore.open(golden.root, StoreOptions.from_properties(golden.options), threads=False):
        pass
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_batch_queue_honours_the_limits_of_a_read_and_goes_on(tmp_path: Path) -> None:
    golden = open_golden("rmq53-batchcq", tmp_path)
    options = StoreOptions.from_properties(golden.options)
    with MessageStore.open(golden.root, options, threads=False) as store:
        end = store.max_offset("GoldBcq", 0)
        assert store.get("GoldBcq", 0, 0, max_bytes=1).next_offset == 2  # one record always passes
        assert store.earliest_store_time("GoldBcq", 0) is not None
        assert store.put(Message("GoldBcq", b"plain"), 0).queue_offset == end
    with MessageStore.open(golden.root, options, threads=False) as store:
        assert [message.body for message in store.get("GoldBcq", 0, end).messages] == [b"plain"]
