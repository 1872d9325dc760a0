"""Golden stores: written by a real RocketMQ, unpacked for a test, with what Java read back from them.

See ``tests/golden/stores/README.md`` for what each store and its manifest contain.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

STORES = Path(__file__).resolve().parents[1] / "golden" / "stores"


def golden_names() -> list[str]:
    """All golden stores, for ``pytest.mark.parametrize``."""
    return sorted(entry.name for entry in STORES.iterdir() if (entry / "store.tar.gz").is_file())


@dataclass(frozen=True, slots=True)
class GoldenStore:
    """One golden store, unpacked into a directory the test owns and may change."""

    name: str
    root: Path
    manifest: dict[str, Any] = field(repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.manifest["messages"]
        return messages

    @property
    def options(self) -> dict[str, str]:
        """RocketMQ option names and values needed to open it."""
        return {key: value.replace("ROOT", str(self.root)) for key, value in self.manifest["storeOptions"].items()}

    @property
    def log_file_size(self) -> int:
        return int(self.manifest["storeOptions"]["mappedFileSizeCommitLog"])

    def log_files(self) -> dict[int, Path]:
        """Start offset and path of every commit-log file, ascending, over all log folders."""
        paths = [path for folder in self.root.glob("commitlog*") for path in folder.iterdir()]
        return {int(path.name): path for path in sorted(paths, key=lambda path: path.name)}

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Each message of the manifest with the bytes of its record."""
        files = {start: path.read_bytes() for start, path in self.log_files().items()}
        for message in self.messages:
            at = message["physicalOffset"]
            start = at - at % self.log_file_size
            yield message, files[start][at - start : at - start + message["size"]]


def open_golden(name: str, directory: Path) -> GoldenStore:
    """Unpack a golden store below ``directory``, modification times kept, and load its manifest."""
    with tarfile.open(STORES / name / "store.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return GoldenStore(name, directory / "store", load_manifest(name))


@lru_cache(maxsize=4)
def load_manifest(name: str) -> dict[str, Any]:
    """What Java read from a store. Shared between tests: do not change it."""
    with gzip.open(STORES / name / "manifest.json.gz", "rt", encoding="utf-8") as file:
        manifest: dict[str, Any] = json.load(file)
    return manifest
