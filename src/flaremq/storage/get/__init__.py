"""Reading an open store: by offset, key, time, or as the bytes of a pull.

Owns: what a get and a pull are answered with, and log bytes for replicas.
May import: ``log``, ``queue``, ``index``, ``dispatch``, ``kernels``.
Start reading: ``reader``, ``pull``.
"""

__all__ = ["copied", "get_result", "keys", "log_search", "pull", "reader", "transfer"]
