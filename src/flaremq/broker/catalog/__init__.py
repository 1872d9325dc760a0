"""The tables a broker keeps in ``config``: topics, groups, offsets, request modes.

Owns: what is registered, who may register more, and saving it.
May import: ``storage.config``.
Start reading: ``topics``, ``table_saver``.
"""

__all__ = [
    "attribute_limits",
    "catalog",
    "consumer_offsets",
    "groups",
    "names",
    "request_modes",
    "table_saver",
    "topic_attributes",
    "topics",
]
