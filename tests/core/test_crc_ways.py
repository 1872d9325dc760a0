"""Each way of ``crc32.h`` to a checksum is right, also those that this machine would not choose."""

from __future__ import annotations

import ctypes
import random
import subprocess
import zlib
from typing import Final

import pytest

from compile_core import ROOT, NoCompiler, NoHeaders, find_compiler

HEADER: Final = ROOT / "src" / "flaremq" / "core" / "crc32.h"
PROGRAM: Final = """
#include "crc32.h"
int can_fold(void) { fmq_crc_prepare(); return fmq_crc_can_fold; }
int can_fold_wide(void) { return fmq_crc_can_fold_wide; }
uint32_t slicing(const uint8_t *data, int64_t length) { return ~fmq_crc_slicing(0xFFFFFFFFu, data, length); }
uint32_t any(const uint8_t *data, int64_t length) { return (uint32_t)fmq_crc32(data, length); }
#if defined(__x86_64__)
uint32_t folding(const uint8_t *data, int64_t length) { return ~fmq_crc_folding(data, length); }
#endif
#ifdef FMQ_HAS_WIDE
uint32_t folding_wide(const uint8_t *data, int64_t length) { return ~fmq_crc_folding_wide(data, length); }
#endif
"""
# A compiler that does not know some functions yet.
OLDER: Final = """
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#undef __GNUC__
#define __GNUC__ {gcc}
#ifdef __clang__
#undef __clang_major__
#define __clang_major__ {clang}
#endif
#pragma GCC poison {unknown}
#endif
"""
LEAST: Final = {"slicing": 0, "any": 0, "folding": 16, "folding_wide": 256}
LENGTHS: Final = (*range(600), *(size + more for size in (768, 1024, 4096) for more in (-1, 0, 1, 15, 63, 64, 65)))


@pytest.fixture(
    scope="module",
    params=[
        "",
        OLDER.format(gcc=9, clang=6, unknown="_mm512_zextsi128_si512"),
        OLDER.format(gcc=7, clang=5, unknown="_mm512_zextsi128_si512 _mm512_clmulepi64_epi128"),
    ],
    ids=["this compiler", "gcc 9", "gcc 7"],
)
def ways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    try:
        compiler = find_compiler()
    except (NoCompiler, NoHeaders) as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("crc")
    source, library = folder / "ways.c", folder / "ways.so"
    source.write_text(request.param + PROGRAM)
    subprocess.run(
        [*compiler, "-O2", "-shared", "-fPIC", f"-I{HEADER.parent}", str(source), "-o", str(library)],
        check=True,
    )
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("name", LEAST)
def test_a_way_makes_the_checksum_of_zlib(ways: ctypes.CDLL, name: str) -> None:
    is_there = {"folding": ways.can_fold(), "folding_wide": ways.can_fold() and ways.can_fold_wide()}
    if not hasattr(ways, name) or not is_there.get(name, True):
        pytest.skip("this compiler or this machine has it not")
    way = getattr(ways, name)
    way.restype, way.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_int64)
    data = random.Random(name).randbytes(max(LENGTHS))
    for length in LENGTHS:
        if length >= LEAST[name]:
            assert way(data[:length], length) == zlib.crc32(data[:length]), length
