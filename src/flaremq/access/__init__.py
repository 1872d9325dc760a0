"""Access control: who sends a request, what it wants to do to which resource, and whether it may.

Owns: the table of what each request needs, the guard that all requests pass, accounts of RocketMQ 4 and 5, the audit
log.
May import: remoting, protocol, names of message.
Start reading: ``guard``; ``control`` puts everything together for a server.
"""

__all__ = [
    "addresses", "attempts", "audit", "authority", "control", "inner", "judge", "needs", "options", "refusals", "rules",
]  # fmt: skip
