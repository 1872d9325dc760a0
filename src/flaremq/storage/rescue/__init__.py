"""``store rescue``: a new, healthy store from what a damaged one still holds.

Owns: moving records, renumbering queues, taking the configuration along, counting losses.
May import: ``files``, ``log``, ``dispatch``, ``at_rest``, ``verify``, ``message_store``.
Start reading: ``rescue``.
"""

__all__ = ["rescue"]
