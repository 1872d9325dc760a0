"""Figures for Prometheus and questions of health, over HTTP: what brokers, name servers and controllers share.

Owns: families of metrics, the text they are told in, the port that is asked, its options.
May import: ``errors``, ``options``.
Start reading: ``family``, ``samples``, ``endpoint``.
"""

__all__ = [
    "bounded_table",
    "family",
    "histogram",
    "loop_delay",
    "monitor",
    "options",
    "samples",
    "server_monitor",
]
