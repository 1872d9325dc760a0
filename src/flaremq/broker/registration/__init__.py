"""Making a broker known at its name servers, and keeping it known.

Owns: registration and its body.
May import: ``catalog``.
Start reading: ``name_servers``.
"""

__all__ = ["name_servers"]
