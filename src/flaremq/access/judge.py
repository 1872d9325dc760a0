"""Judge: what the guard asks of a generation of access control (``plain``: ACL 1.0, ``users``: 2.0).

The guard looks for the account, checks the signature itself, and asks for a decision about each request's needs. What
a judge answers changes only between two calls: a reload swaps its tables in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from flaremq.access.needs import Need, Refusal


@dataclass(frozen=True, slots=True)
class Account:
    """Who signs: a name, the key of the signature, and whether everything is allowed."""

    name: str
    secret: bytes
    is_super: bool = False  # an administrator of 1.0, a Super user of 2.0
    is_enabled: bool = True

    def __repr__(self) -> str:
        return f"<account {self.name!r}>"  # never the secret


class Judge(Protocol):
    """One generation. Event loop only; no call waits for a file."""

    def trusts(self, address: str, access_key: str | None) -> bool:
        """Whether who comes from there (with that key) needs neither signature nor permission."""
        ...

    def find(self, access_key: str) -> Account | None:
        """The account of that name."""
        ...

    def decide(self, account: Account, needs: Sequence[Need], address: str) -> Refusal | None:
        """None if all needs are allowed. Not asked for accounts of which everything is allowed."""
        ...
