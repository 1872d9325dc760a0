"""``store verify``: everything a store says held against everything else it says.

``verifier`` makes one check of one store: ``files`` for what needs no walk, then the log with its queues and index, in
one of two ways that give the same findings. ``plain`` walks the log and feeds the plain checkers, one a subject:
``log``, ``queues``, ``index``. For logs that are long enough to load the compiled kernels, ``chain`` has pieces of the
log checked by ``piece`` (``log`` again, and bytes compared with queues and ``index_entries``) and index files by
``index_soundness``, here as one piece or elsewhere as many, and gives what is in doubt to the plain checkers
(``doubts``).

Owns: findings, and the check of a store at rest.
May import: ``at_rest``, ``arrow``, ``dispatch``, ``files``, ``index``, ``kernels``, ``log``, ``queue``.
Start reading: ``finding``, ``verifier``, ``plain``, then ``chain``.
"""

__all__ = ["chain", "finding", "index_entries", "index_soundness", "piece", "verifier"]
