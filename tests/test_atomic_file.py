"""Replacing a file: what is durable when, told by the calls that make it so."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from flaremq.atomic_file import replace_file


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was synced and renamed, in order."""
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        seen.append(("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file", path))
        fsync(descriptor)

    def recorded_replace(source: Any, target: Any) -> None:
        seen.append(("rename", str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    return seen


def test_the_content_is_durable_before_its_name_and_the_name_before_the_end(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    replace_file(tmp_path / "a", b"new")
    assert [kind for kind, _ in calls] == ["file", "rename", "folder"]
    assert calls[-1][1] == str(tmp_path)
    assert (tmp_path / "a").read_bytes() == b"new"


def test_folders_that_had_to_be_made_are_durable_too(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    replace_file(tmp_path / "one" / "two" / "a", b"new")
    made = [tmp_path / "one" / "two", tmp_path / "one", tmp_path]
    assert {path for kind, path in calls if kind == "folder"} == set(map(str, made))
