"""Digests of rows: archives hold them, so they never change."""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np
import pytest

from flaremq.core.digest import crc_slices, digest_fields, hash_entries

CONTENT = bytes(range(256)) * 5
BOUNDS = np.array([0, 0, 1, 7, 8, 9, 300, 1000, 1280], np.int32)


def crcs() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found = np.empty(8, np.int64)
    crc_slices(CONTENT, BOUNDS, found)
    return found


def test_crcs_are_those_of_records() -> None:
    wanted = [zlib.crc32(CONTENT[start:end]) & 0x7FFFFFFF for start, end in pairwise(BOUNDS)]
    assert crcs().tolist() == wanted


@pytest.mark.parametrize("bounds", [[0, 1281], [-1, 5], [7, 3], [2**31 - 1, 2**31 - 1], [5]])
def test_a_slice_outside_the_bytes_has_no_crc(bounds: list[int]) -> None:
    found = np.zeros(1, np.int64)
    crc_slices(CONTENT, np.array(bounds, np.int32), found)
    assert found.tolist() == [-1]


def test_the_hash_of_entries_is_the_one_in_archives() -> None:
    found = np.empty(3, np.int64)
    hash_entries(np.array([0, 2, 2, 5], np.int32), crcs()[:5].copy(), crcs()[3:].copy(), found)
    assert found.tolist() == [1133201192319433863, 0, -8259568544258086532]


@pytest.mark.parametrize("bounds", [[0, 6], [-1, 2], [3, 2], [0]])
def test_entries_that_are_not_there_count_nothing(bounds: list[int]) -> None:
    found = np.ones(1, np.int64)
    hash_entries(np.array(bounds, np.int32), crcs()[:5].copy(), crcs()[3:].copy(), found)
    assert found.tolist() == [0]


def test_the_digest_of_numbers_is_the_one_in_archives() -> None:
    fields = (np.arange(33, dtype=np.int64) * -(7919**3)).reshape(11, 3).copy()
    assert digest_fields(fields, 11) == (15367328993115122708, 13559397378353271890)
    assert digest_fields(fields, 0) == digest_fields(fields[:, :0].copy(), 11) == (0, 0)
