"""Files of a store: the seam to the operating system and what is built right on it.

Owns: paths, locks, mapped files and their runs, allocation, atomic writes, the two checkpoints. Knows no message.
May import: nothing of the other rooms.
Start reading: ``filesystem``, ``layout``, ``mapped_file``.
"""

__all__ = [
    "allocation",
    "checkpoint",
    "claim",
    "directory",
    "filesystem",
    "handles",
    "layout",
    "locks",
    "log_place",
    "mapped_file",
    "mapped_file_queue",
    "queue_files",
]
