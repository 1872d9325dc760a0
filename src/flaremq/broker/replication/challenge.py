"""Both ends of an HA connection prove that they know the shared secret, before the first byte of replication.

::

    slave  -> master   HELLO   magic, version, broker id, nonce, name of the group
    master -> slave    NONCE   magic, nonce
    slave  -> master   PROOF   magic, HMAC-SHA256(secret, "slave",  transcript)
    master -> slave    PROOF   magic, HMAC-SHA256(secret, "master", transcript)

The transcript is HELLO and NONCE as they went over the wire, so a proof is good for one connection, one end, one
broker id and one group only. The slave proves first: a stranger who connects to a master learns nothing that depends
on the secret. What follows is not encrypted; TLS does that.

A slave cannot know beforehand that its master is one of ours. A RocketMQ master takes every eight bytes for a report,
the last ones of a read for the newest, and version 4.9 believes a report above its log for good. So each eight bytes
of a HELLO are negative as an i64, which acknowledges nothing, and none are -1: behind a mark of one byte they carry
seven. A RocketMQ slave's first report is never negative, so it is not mistaken for a HELLO.

No I/O here: bytes in, bytes out.
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Callable
from typing import Final

from flaremq.errors import InvalidArgumentError, RemoteProtocolError

# HELLO: this, then ``groups`` times a mark and seven bytes of what is said, the last ones filled up with zeros.
#
#   at  size  field    note
#    0     8  magic
#    8     1  mark     0x9C
#    9     1  version  1
#   10     2  groups
#   12     4  zeros
HELLO: Final = struct.Struct(">qBBH4x")
# What is said.
#
#    0     8  broker_id
#    8    32  nonce
#   40     2  name_size
#   42     -  name          cluster/brokerName, UTF-8
SAID: Final = struct.Struct(">q32sH")
# The other messages.
#
#    0     8  magic
#    8    32  nonce or proof
ANSWER: Final = struct.Struct(">q32s")
assert HELLO.size == 16 and SAID.size == 42 and ANSWER.size == 40

HELLO_MAGIC: Final = -0x464C_4D51_4841_0001
_NONCE_MAGIC: Final = HELLO_MAGIC - 1
_PROOF_MAGIC: Final = HELLO_MAGIC - 2
_MARK: Final = 0x9C
_VERSION: Final = 1
_NAME_MAX: Final = 512
_GROUPS_MAX: Final = -(-(SAID.size + _NAME_MAX) // 7)
_SECRET_MIN: Final = 16
_OPTIONS: Final = "haSecretFile, or with access control innerClientAuthenticationCredentials"

Random = Callable[[int], bytes]


def begins_hello(first: bytes) -> bool:
    """Whether the first eight bytes of a connection are those of a HELLO."""
    return first == HELLO_MAGIC.to_bytes(8, "big", signed=True)


def check_secret(secret: bytes) -> bytes:
    """The secret itself; InvalidArgumentError if it could be guessed from one recorded handshake."""
    if len(secret) < _SECRET_MIN:
        raise InvalidArgumentError(f"a shared secret of {len(secret)} bytes is too short: take {_SECRET_MIN} or more")
    return secret


class SlaveProof:
    """The slave's end: ``hello`` goes out first, then whatever ``receive`` returns, until ``is_done``."""

    def __init__(self, secret: bytes, *, group: str, broker_id: int, random: Random = os.urandom) -> None:
        name = group.encode()
        if len(name) > _NAME_MAX:
            raise InvalidArgumentError(f"the name {group[:64]!r}… has {len(name)} bytes, {_NAME_MAX} are allowed")
        self._secret = secret
        self._held = bytearray()
        self._transcript = b""
        self.hello = _hello(SAID.pack(broker_id, random(32), len(name)) + name)
        self.is_done = False
        self.rest = b""  # bytes behind the master's proof: the stream

    def receive(self, data: bytes) -> bytes:
        """Bytes of the master in, bytes for it out. RemoteProtocolError: close."""
        self._held += data
        out = b""
        if not self._transcript and len(self._held) >= ANSWER.size:
            nonce = self._take(_NONCE_MAGIC)
            self._transcript = self.hello + nonce
            out = ANSWER.pack(_PROOF_MAGIC, _proof(self._secret, b"slave", self._transcript))
        if self._transcript and len(self._held) >= ANSWER.size:
            proof = self._take(_PROOF_MAGIC)[8:]
            if not hmac.compare_digest(proof, _proof(self._secret, b"master", self._transcript)):
                raise RemoteProtocolError(f"the master does not know the shared secret ({_OPTIONS})")
            self.is_done = True
            self.rest = bytes(self._held)
        elif len(self._held) >= 8:
            self._check_magic(_PROOF_MAGIC if self._transcript else _NONCE_MAGIC)
        return out

    def _take(self, magic: int) -> bytes:
        self._check_magic(magic)
        taken = bytes(self._held[: ANSWER.size])
        del self._held[: ANSWER.size]
        return taken

    def _check_magic(self, magic: int) -> None:
        if int.from_bytes(self._held[:8], "big", signed=True) != magic:
            raise RemoteProtocolError(
                "the master answers the HELLO with other bytes: it has no shared secret, or is a RocketMQ broker "
                "(which haPeerAllow must name)"
            )


class MasterProof:
    """The master's end: takes a HELLO and the slave's proof; ``is_done`` when the slave may have the log."""

    def __init__(self, secret: bytes, *, group: str, random: Random = os.urandom) -> None:
        self._secret = secret
        self._group = group.encode()
        self._random = random
        self._held = bytearray()
        self._transcript = b""
        self.broker_id = 0
        self.is_done = False
        self.rest = b""  # bytes behind the slave's proof: the stream

    @property
    def was_asked_for(self) -> bool:
        """Whether what comes next is the slave's proof."""
        return bool(self._transcript)

    def receive(self, data: bytes) -> bytes:
        """Bytes of the slave in, bytes for it out. RemoteProtocolError: close."""
        self._held += data
        if not self._transcript:
            return self._take_hello()
        if len(self._held) < ANSWER.size:
            return b""
        magic, proof = ANSWER.unpack_from(self._held)
        expected = _proof(self._secret, b"slave", self._transcript)
        if magic != _PROOF_MAGIC or not hmac.compare_digest(proof, expected):
            raise RemoteProtocolError(f"the slave does not know the shared secret ({_OPTIONS})")
        self.is_done = True
        self.rest = bytes(self._held[ANSWER.size :])
        return ANSWER.pack(_PROOF_MAGIC, _proof(self._secret, b"master", self._transcript))

    def _take_hello(self) -> bytes:
        if len(self._held) < HELLO.size:
            return b""
        magic, mark, version, groups = HELLO.unpack_from(self._held)
        if (magic, mark, version) != (HELLO_MAGIC, _MARK, _VERSION) or groups > _GROUPS_MAX:
            raise RemoteProtocolError(f"no HELLO of version {_VERSION}: version {version}, {groups} groups")
        end = HELLO.size + 8 * groups
        if len(self._held) < end:
            return b""
        if len(self._held) > end:
            raise RemoteProtocolError("bytes behind a HELLO that was not answered yet")
        said = b"".join(bytes(self._held[at + 1 : at + 8]) for at in range(HELLO.size, end, 8))
        if len(said) < SAID.size:
            raise RemoteProtocolError(f"a HELLO that says {len(said)} bytes, no less than {SAID.size} are needed")
        self.broker_id, _, name_size = SAID.unpack_from(said)
        name = said[SAID.size : SAID.size + name_size]
        if name != self._group:
            raise RemoteProtocolError(f"a slave of {name.decode(errors='replace')!r}, not of {self._group.decode()!r}")
        answer = ANSWER.pack(_NONCE_MAGIC, self._random(32))
        self._transcript = bytes(self._held) + answer
        self._held.clear()
        return answer


def _hello(said: bytes) -> bytes:
    parts = [said[at : at + 7].ljust(7, b"\0") for at in range(0, len(said), 7)]
    return HELLO.pack(HELLO_MAGIC, _MARK, _VERSION, len(parts)) + b"".join(bytes([_MARK]) + part for part in parts)


def _proof(secret: bytes, end: bytes, transcript: bytes) -> bytes:
    return hmac.digest(secret, b"flaremq-ha " + end + b"\0" + transcript, "sha256")
