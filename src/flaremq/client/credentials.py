"""Credentials: who signs requests. A secret that is named instead of given is looked up in the process that signs."""

from __future__ import annotations

from dataclasses import dataclass, field

from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import secret_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An account: its name, its secret or where that is (``env:NAME``, ``file:PATH``), its token if it is a temporary
    one. The secret signs and is never sent; ``repr`` shows neither."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for what in ("access_key", "secret_key", "security_token"):
            if not isinstance(getattr(self, what), str):  # never shown: it may be a secret all the same
                raise InvalidArgumentError(f"{what} is a text, not a {type(getattr(self, what)).__name__}")
        if not self.access_key or not self.secret_key:
            raise InvalidArgumentError("credentials are an access_key and its secret_key: one of them is empty")

    def resolved(self) -> Credentials:
        """The same with the secrets themselves, looked up in this process."""
        return Credentials(
            access_key=self.access_key,
            secret_key=secret_value(self.secret_key, "secretKey"),
            security_token=secret_value(self.security_token, "securityToken"),
        )
