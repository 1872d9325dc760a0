"""PutLock: the lock of appends, used as ``threading.Lock`` is. Compiled code takes it in a few instructions."""

from __future__ import annotations

import cython

if not cython.compiled:
    from flaremq.core.mutex import free_mutex, new_mutex, release_mutex, try_mutex, wait_mutex


class PutLock:
    """Held by one thread at a time. Methods may be overridden."""

    __slots__ = ("_held", "_mutex")

    def __init__(self) -> None:
        self._mutex = new_mutex()
        self._held = False

    def __dealloc__(self) -> None:
        free_mutex(self._mutex)

    def acquire(self, timeout: float = -1) -> bool:
        """Take it, waiting ``timeout`` seconds at most (a negative number: for ever); False if that was not enough."""
        if not try_mutex(self._mutex) and not wait_mutex(self._mutex, timeout):
            return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("a lock is released that nobody holds")
        self._held = False
        release_mutex(self._mutex)

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
