"""Messages that wait: delay levels, timers, and where a message goes that does not go straight to its queue.

Owns: their queues, indexes and deliveries.
May import: ``statistics``, ``store_loop``.
Start reading: ``message_rules``, ``levels``, ``timer``.
"""

__all__ = ["clock_steps", "levels", "message_rules", "timer", "timer_figures"]
