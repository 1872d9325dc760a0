"""Transactions: half messages and their outcomes.

Owns: the half and op topics, rounds of checks.
May import: ``catalog``, ``store_loop``, ``members``, ``delay``.
Start reading: ``service``, ``half_table``.
"""

__all__ = ["figures", "service"]
