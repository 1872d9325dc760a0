"""What is known of the cluster: one state, kept by one sampler for all pages.

Owns: requests of the sampler, rates, short histories.
May import: ``client.admin``, bodies of the protocol.
Start reading: ``state``, ``sampler``.
"""

__all__ = [
    "broker_state",
    "files",
    "group_state",
    "names",
    "reader",
    "reasons",
    "ring",
    "sampler",
    "state",
    "topic_state",
]
