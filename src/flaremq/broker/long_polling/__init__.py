"""Requests that found nothing and wait for messages.

Owns: waiting requests of any kind, one pull on its way, the held ones, and those whose filter runs off the loop.
May import: ``filter``, ``store_loop``.
Start reading: ``waiting_room``, ``pull_request``, ``held_pulls``.
"""

__all__ = ["filtered_pulls", "held_pulls", "pull_request", "waiting_room"]
