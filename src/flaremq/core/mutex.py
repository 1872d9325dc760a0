"""A lock as C has it: compiled modules take and give it without a call into Python."""

from __future__ import annotations

from threading import Lock as Mutex


def new_mutex() -> Mutex:
    """A lock that nobody holds."""
    return Mutex()


def free_mutex(mutex: Mutex) -> None:
    """Its memory is no longer needed."""


def try_mutex(mutex: Mutex) -> bool:
    """Take it if nobody holds it."""
    return mutex.acquire(False)


def wait_mutex(mutex: Mutex, seconds: float) -> bool:
    """Take it, waiting so long at most (a negative number: for ever), without the GIL."""
    return mutex.acquire(timeout=seconds if seconds >= 0 else -1)


def release_mutex(mutex: Mutex) -> None:
    mutex.release()
