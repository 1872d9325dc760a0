"""How a server runs its event loop: on uvloop where there is one, and with a garbage collector that stays calm."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")
_DESCRIPTORS = 65_536
_YOUNG_OBJECTS = 50_000  # requests come and go by reference counting; cycles are rare


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end on the best loop there is."""
    _raise_descriptor_limit()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def settle_memory() -> None:
    """After start-up: what exists now stays, so the collector need not look at it again and again."""
    gc.collect()
    with suppress(AttributeError):  # not every C library has it
        ctypes.CDLL(None).malloc_trim(0)  # half a megabyte that importing needed
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def _raise_descriptor_limit() -> None:
    """A server has a descriptor for each client and for each queue in use: take all that we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, _DESCRIPTORS) if hard != resource.RLIM_INFINITY else _DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            pass  # then as many as there are
