"""The record of the commit log as bytes: layout, writing, checking.

Owns: how one stored message lies in the log, the same for writer, reader and checker.
May import: the property and flag words of ``message``.
Start reading: ``layout``.
"""

__all__ = ["check", "codec", "crc", "layout"]
