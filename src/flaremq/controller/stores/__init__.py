"""Where a controller's state is kept, and which of several controllers may change it.

Owns: the seam (``store``), a folder for one controller, etcd for several.
May import: ``groups`` and ``options``; the file seam of ``storage``.
Start reading: ``store``, ``file_store``, ``etcd_store``.
"""

__all__ = ["opened", "store"]
