"""Files that hold accounts, whatever their form.

Owns: whose they must be, and the turns of servers that share a folder of them.
May import: ``atomic_file``, errors.
Start reading: ``private_file``.
"""

__all__ = ["folder_lock", "private_file"]
