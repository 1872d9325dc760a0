"""``store verify``: everything a store says held against everything else it says.

``verifier`` makes one check of one store: ``files`` for what needs no walk, then the log with its queues and index.
``chain`` has pieces of the log checked by ``piece`` (``log``, and bytes that the core makes compared with queues and
``index_entries``) and index files by ``index_soundness``, here as one piece or elsewhere as many. What is in doubt
goes, record by record, to ``queues`` and ``index`` (``doubts``), which say what it means.

Owns: findings, and the check of a store at rest.
May import: ``at_rest``, ``arrow``, ``dispatch``, ``files``, ``index``, ``log``, ``queue``.
Start reading: ``finding``, ``verifier``, then ``chain``.
"""

__all__ = ["chain", "finding", "index_entries", "index_soundness", "piece", "verifier"]
