"""Whether the compiled kernels are at hand. Asking must not load them: that takes half a second."""

from __future__ import annotations

import sys

_KERNELS = "flaremq.storage.kernels.preload"


def kernels_are_loaded() -> bool:
    """True once the kernels can be called; not while another thread is still importing them."""
    module = sys.modules.get(_KERNELS)
    return module is not None and not getattr(module.__spec__, "_initializing", False)
