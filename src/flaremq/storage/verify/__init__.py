"""``store verify``: everything a store says held against everything else it says.

Owns: findings, the serial check and the same check in pieces.
May import: ``at_rest``, ``arrow``, ``dispatch``, ``kernels``.
Start reading: ``finding``, ``verifier``.
"""

__all__ = ["finding", "index_soundness", "piece", "pieces", "verifier"]
