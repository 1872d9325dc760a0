"""The scenarios of each client program, and which of them make up the fast core.

The programs know their scenarios too (``list=1`` prints them); a test keeps the two in step.
"""

from __future__ import annotations

# Shared by the Java clients of 4.9 and 5.x.
JAVA = (
    "transaction_checked",
    "transaction_decided",
    "push_retry_to_dead_letters",
    "push_rebalance",
    "push_orderly",
    "push_orderly_to_dead_letters",
    "push_orderly_two_instances",
    "push_broadcast",
    "push_tags",
    "push_sql",
    "push_sql_refused",
    "push_new_groups",
    "push_continues",
    "send_delayed",
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_ordered",
    "send_compressed",
    "send_large",
    "send_refused",
    "send_creates_topic",
    "send_vip_channel",
    "send_with_namespace",
    "pull_offsets",
    "pull_waits_for_messages",
    "lite_pull_subscribe",
    "lite_pull_seek",
    "trace",
    "query_messages",
    "request_reply",
    "reset_offset_of_running_group",
    "look_at_consumers",
)
JAVA_5 = ("pop", "pop_two_instances", "timer", "recall")
# The codes of POP do not fit into a binary header.
JSON_ONLY = ("pop", "pop_two_instances")
# The broker goes away and comes back; run alone, at the end.
JAVA_RESTART = ("broker_restarted", "broker_killed")
# Of the programs in Java, Go and Node; for a master and a slave, see ../replication.
REPLICATED = ("master_lost",)

GO = (
    "transaction",
    "retry_to_dead_letters",
    "rebalance",
    "orderly",
    "broadcast",
    "request_reply",
    "trace",
    "sql",
    "tags",
    "continues",
    "delayed",
    "send_sync",
    "send_async",
    "send_oneway",
    "send_batch",
    "send_compressed",
    "pull",
    "administer",
)
NODE = (
    "retry",
    "rebalance",
    "broadcast",
    "delayed",
    "send_and_receive",
    "tags",
    "sql",
    "compressed",
    "continues",
)

# One of each kind, none that waits long by its nature.
CORE = frozenset(
    {
        "transaction_decided",
        "push_rebalance",
        "push_orderly",
        "push_orderly_to_dead_letters",
        "push_broadcast",
        "push_tags",
        "push_sql",
        "push_continues",
        "push_retry_to_dead_letters",
        "send_delayed",
        "send_sync",
        "send_async",
        "send_oneway",
        "send_batch",
        "send_ordered",
        "send_compressed",
        "pull_offsets",
        "pull_waits_for_messages",
        "lite_pull_subscribe",
        "query_messages",
        "request_reply",
        "pop_two_instances",
        "timer",
        # Go and Node
        "transaction",
        "orderly",
        "tags",
        "send_and_receive",
        "continues",
    }
)
# Enough of everything for a store that another broker is to open.
LOAD = (
    "send_sync",
    "send_batch",
    "send_ordered",
    "send_compressed",
    "send_delayed",
    "transaction_decided",
    "push_continues",
    "push_retry_to_dead_letters",
    "push_sql",
    "lite_pull_subscribe",
)


def java(version: str, header: str) -> tuple[str, ...]:
    """What a client of this release can do with headers of this kind."""
    if version.startswith("4."):
        return JAVA + JAVA_RESTART
    return JAVA + tuple(name for name in JAVA_5 if header == "JSON" or name not in JSON_ONLY) + JAVA_RESTART


def asks_too_much(client: str, broker: str) -> bool:
    """Whether a client of this release is too new for a broker: those of 5.x use requests that 4.9 does not know."""
    return client.startswith("5.") and broker.startswith("4.")
