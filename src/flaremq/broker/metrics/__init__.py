"""What a broker tells Prometheus, and whether it is ready to serve.

Owns: the catalogue of its metrics, how each is read off tables and counters, reasons not to be ready.
May import: ``metrics``, ``parts``, ``ha_service``, ``registration``, ``statistics``.
Start reading: ``catalogue``, ``broker_monitor``.
"""

__all__ = ["broker_monitor"]
