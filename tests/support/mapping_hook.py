"""The local file system with a hook at the two moments in which a mapping can be pulled from under a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flaremq.storage.files.filesystem import File, LocalFileSystem, Mapping


class HookedFileSystem(LocalFileSystem):
    """Calls a hook right after a mapping was made, or right after a reader took a mapping's buffer."""

    __slots__ = ("at_buffer", "at_map")

    def __init__(self) -> None:
        self.at_buffer: Callable[[str], None] | None = None
        self.at_map: Callable[[str], None] | None = None

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        return _HookedFile(self, super().open(path, create=create, read_only=read_only))


class _HookedFile:
    def __init__(self, filesystem: HookedFileSystem, inner: File) -> None:
        self._filesystem = filesystem
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def map(self, length: int, *, read_only: bool = False) -> Mapping:
        return _HookedMapping(self._filesystem, self._inner.path, self._inner.map(length, read_only=read_only))


class _HookedMapping:
    def __init__(self, filesystem: HookedFileSystem, path: str, inner: Mapping) -> None:
        self._filesystem = filesystem
        self._path = path
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def advise(self, advice: int, offset: int, length: int) -> None:
        if self._filesystem.at_map is not None:
            self._filesystem.at_map(self._path)
        self._inner.advise(advice, offset, length)

    @property
    def buffer(self) -> memoryview:
        taken = self._inner.buffer
        if self._filesystem.at_buffer is not None:
            self._filesystem.at_buffer(self._path)
        return taken
