"""Writing: rows of a DataFrame become messages, each once.

Owns: checking rows, staging, tasks, and the two targets: a store and a cluster.
May import: ``kernels``, ``sources``.
Start reading: ``rows``, ``task``.
"""

__all__ = ["begun", "ledger", "names", "options", "partitions", "rows", "staging", "store", "task", "wire"]
