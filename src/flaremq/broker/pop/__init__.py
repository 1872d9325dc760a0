"""POP: messages handed out without giving anybody a queue.

Owns: taking, receipts, check points, the revive log, settling, redelivery.
May import: ``catalog``, ``delay``, ``store_loop``, ``long_polling``, ``statistics``.
Start reading: ``service``, ``taking``, ``check_point``.
"""

__all__ = ["answer", "check_point", "figures", "order_info", "polling", "receipts", "service"]
