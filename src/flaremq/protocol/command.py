"""RemotingCommand: one request or reply, whatever its header encoding on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import count
from typing import Final

from flaremq.errors import RequestError as RequestError  # part of what this module offers
from flaremq.protocol.codes import OWN_LANGUAGE, VERSION

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2
JSON_HEADER: Final = 0
BINARY_HEADER: Final = 1

Body = bytes | bytearray | memoryview
ExtValue = str | int | float | bool | None  # None: leave the field out
_NOT_SHOWN: Final = frozenset(("secretKey", "Signature", "SecurityToken"))  # in a repr
_opaque = count(1)


@dataclass(slots=True, eq=False)
class RemotingCommand:
    """A value with two header encodings. ``ext`` holds text only once decoded; numbers and booleans may be put in."""

    code: int
    _: KW_ONLY
    ext: Mapping[str, ExtValue] | None = None
    body: Body | Sequence[Body] = b""
    remark: str | None = None
    flag: int = 0
    opaque: int = 0
    language: str = OWN_LANGUAGE
    version: int = VERSION
    serialize_type: int = JSON_HEADER
    null_fields: tuple[str, ...] = ()  # ext fields that came without a value: not in ``ext``, but they may be signed
    received_at: float = 0.0  # of a request: steady clock of the server that counts how long answers take, else 0
    was_held: bool = False  # of a request: it waited for messages

    @classmethod
    def request(
        cls,
        code: int,
        ext: Mapping[str, ExtValue] | None = None,
        body: Body = b"",
        *,
        oneway: bool = False,
    ) -> RemotingCommand:
        """A request with a number of its own."""
        opaque = next(_opaque) & 0x7FFFFFFF
        return cls(code, ext=ext, body=body, flag=ONEWAY_FLAG if oneway else 0, opaque=opaque)

    @classmethod
    def response(
        cls,
        code: int = 0,
        remark: str | None = None,
        *,
        ext: Mapping[str, ExtValue] | None = None,
        body: Body | Sequence[Body] = b"",
    ) -> RemotingCommand:
        """A reply; the connection fills in opaque and header type of the request it answers."""
        return cls(code, remark=remark, ext=ext, body=body, flag=RESPONSE_FLAG)

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    @property
    def body_bytes(self) -> bytes:
        """The body in one piece."""
        body = self.body
        if isinstance(body, bytes):
            return body
        if isinstance(body, (bytearray, memoryview)):
            return bytes(body)
        return b"".join(body)

    def field(self, name: str) -> str:
        """A mandatory ext field; RequestError (code 1) names it when it is missing."""
        value = None if self.ext is None else self.ext.get(name)
        if value is None:
            raise RequestError(1, f"the custom field <{name}> is null")
        return str(value)

    def optional_field(self, name: str) -> str | None:
        """An ext field that may be missing."""
        value = None if self.ext is None else self.ext.get(name)
        return None if value is None else str(value)

    def int_field(self, name: str) -> int:
        """A mandatory number."""
        return parse_int(name, self.field(name))

    def __repr__(self) -> str:
        kind = "reply" if self.flag & RESPONSE_FLAG else "request"
        ext = {name: "******" if name in _NOT_SHOWN else value for name, value in (self.ext or {}).items()}
        return f"<{kind} {self.code} opaque={self.opaque} ext={ext or None} remark={self.remark!r}>"


def parse_int(name: str, text: str, bits: int = 64) -> int:
    """A number of an ext field: digits after at most one sign, as Java takes it."""
    try:
        value = int(text)
    except ValueError:
        value = None
    # ``int`` takes blanks and underscores, too.
    if value is None or not (text.isdecimal() or (text[0] in "+-" and text[1:].isdecimal())):
        raise RequestError(1, f"the custom field <{name}> is not a number: {text[:64]!r}")
    if not -1 << (bits - 1) <= value < 1 << (bits - 1):
        raise RequestError(1, f"the custom field <{name}> does not fit {bits} bits: {text[:64]}")
    return value
