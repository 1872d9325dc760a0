"""Loads every kernel of the store; ``python -m flaremq.storage.kernels.preload`` compiles and caches them.

Whoever will call kernels of several subjects imports this module, and ``loaded.kernels_are_loaded`` tells that it is
there. It costs half a second, Numba itself mostly, so everybody imports it inside the function that needs it.
"""

from __future__ import annotations

from flaremq.storage.kernels import (  # noqa: F401
    crc,
    frame,
    record,
    table,
    text,
)

if __name__ == "__main__":
    print("flaremq: kernels are compiled and cached")
