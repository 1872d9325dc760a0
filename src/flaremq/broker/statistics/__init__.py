"""What came in and went out.

Owns: counters, windows of time, rates, the table behind brokerStatus.
May import: ``catalog``, ``store_loop``.
Start reading: ``counters``.
"""

__all__ = ["counters", "latencies", "rate", "runtime_info", "slow_consumers", "traffic", "windows"]
