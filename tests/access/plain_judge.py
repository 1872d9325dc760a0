"""A judge for tests: accounts and what each may do, as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from flaremq.access.judge import Account
from flaremq.access.needs import Need, Refusal

Allowed = dict[str, set[tuple[str, str]]]  # account -> {("Topic:a", "PUB"), …}


class DictionaryJudge:
    """Allows what it is told."""

    def __init__(
        self, accounts: Sequence[Account], allowed: Allowed | None = None, trusted: Sequence[str] = ()
    ) -> None:
        self.accounts = {account.name: account for account in accounts}
        self.allowed = allowed or {}
        self.trusted = trusted
        self.asked: list[Need] = []

    def trusts(self, address: str, access_key: str | None) -> bool:
        return address in self.trusted

    def find(self, access_key: str) -> Account | None:
        return self.accounts.get(access_key)

    def decide(self, account: Account, needs: Sequence[Need], address: str) -> Refusal | None:
        self.asked += needs
        for need in needs:
            if not any((str(need), action.name) in self.allowed.get(account.name, ()) for action in need.actions):
                return Refusal(f"no {need}", "no policy")
        return None
