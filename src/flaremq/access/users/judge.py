"""UsersJudge: decisions by users and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flaremq.access.judge import Account
from flaremq.access.needs import Need, Refusal, ResourceType
from flaremq.access.users.rule_table import Rule, mask_of
from flaremq.access.users.tables import Tables
from flaremq.access.users.user_store import UserStore

_CHAINS_MAX: Final = 4096  # about a megabyte; past that they are found anew


class UsersJudge:
    """Answers from the tables as they are at each call. Event loop only; waits for no file."""

    __slots__ = ("_chains", "_chains_of", "_store")

    def __init__(self, store: UserStore) -> None:
        self._store = store
        self._chains_of: Tables = store.tables
        # By user and resource: finding the rules costs a look-up for each length of prefix, asking them does not.
        self._chains: dict[tuple[str, ResourceType, str], tuple[Rule, ...]] = {}

    def trusts(self, address: str, access_key: str | None) -> bool:
        """Nobody: an address never replaces a signature."""
        return False

    def find(self, access_key: str) -> Account | None:
        return self._store.tables.accounts.get(access_key)

    def decide(self, account: Account, needs: Sequence[Need], address: str) -> Refusal | None:
        tables = self._store.tables
        if tables is not self._chains_of:
            self._chains = {}
            self._chains_of = tables
        for need in needs:
            chain = self._chains.get((account.name, need.type, need.name))
            if chain is None:
                chain = self._find_chain(tables, account.name, need)
            mask = mask_of(need.actions)
            for rule in chain:
                verdict = rule.verdict(mask, address)
                if verdict is not None:
                    break
            else:
                return _refusal(account, need, address, "no matched policies", rule="no policy")
            if not verdict:
                rule_text = f"{rule.type.value} {rule.resource} Deny"
                return _refusal(account, need, address, "the decision is deny", rule=rule_text)
        return None

    def _find_chain(self, tables: Tables, username: str, need: Need) -> tuple[Rule, ...]:
        rules = tables.rules.get(username)
        if rules is None:
            return ()
        chain = rules.chain(need.type, need.name)
        if len(self._chains) >= _CHAINS_MAX:
            self._chains.clear()
        self._chains[username, need.type, need.name] = chain
        return chain


def _refusal(account: Account, need: Need, address: str, reason: str, *, rule: str) -> Refusal:
    return Refusal(f"User:{account.name} has no permission to access {need} from {address}, {reason}.", rule)
