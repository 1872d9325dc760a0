"""Stores with bodies that are not what they say: compressed by their flags, garbage or bombs by their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from flaremq.message.compression import compress
from flaremq.message.message import Message
from flaremq.message.sys_flag import CompressionType, with_compression
from flaremq.storage.message_store import MessageStore
from tests.support.store_lab import SMALL

TOPIC = "orders"
INFLATED_MAX = 200_000
_CODECS = (CompressionType.ZLIB_OLD, CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD)


@dataclass(frozen=True)
class Sent:
    """A body as it was sent; ``meant`` is None where nobody can tell what was meant."""

    stored: bytes
    sys_flag: int
    meant: bytes | None

    @property
    def is_bad(self) -> bool:
        return self.meant is None


def plain(body: bytes) -> Sent:
    return Sent(body, 0, body)


def honest(body: bytes, codec: CompressionType) -> Sent:
    return Sent(compress(body, codec), with_compression(0, codec), body)


def bomb(codec: CompressionType) -> Sent:
    """A few bytes that are more than ``INFLATED_MAX`` once inflated."""
    return Sent(compress(bytes(INFLATED_MAX + 1), codec), with_compression(0, codec), None)


def cut_short(body: bytes, codec: CompressionType) -> Sent:
    packed = compress(body, codec)
    return Sent(packed[: len(packed) // 2], with_compression(0, codec), None)


def garbage(body: bytes, type_bits: int) -> Sent:
    """No codec's stream begins with this byte; type bits of 4 and more are nobody's."""
    return Sent(b"\x00" + body, 1 | type_bits << 8, None)


ONE_OF_EACH = (
    plain(b"first"),
    *(garbage(b"not compressed", bits) for bits in range(8)),
    *(honest(b"honest " * 50, codec) for codec in _CODECS),
    *(bomb(codec) for codec in _CODECS),
    *(cut_short(b"cut " * 100, codec) for codec in _CODECS),
    plain(b"last"),
)


def sent_bodies() -> st.SearchStrategy[Sent]:
    """Any of them."""
    data, codec = st.binary(min_size=1, max_size=300), st.sampled_from(_CODECS)
    return st.one_of(
        st.builds(plain, data),
        st.builds(honest, data, codec),
        st.builds(garbage, data, st.integers(0, 7)),
        st.builds(cut_short, data, codec),
        st.builds(bomb, codec),
    )


def put_all(store: MessageStore, sent: tuple[Sent, ...] | list[Sent]) -> None:
    for number, body in enumerate(sent):
        store.put(Message(TOPIC, body.stored, keys=[f"k{number}"], tags="t"), queue_id=0, sys_flag=body.sys_flag)


def forged_store(root: Path, sent: tuple[Sent, ...] | list[Sent]) -> None:
    """A closed store with these bodies in one queue."""
    with MessageStore.open(root, SMALL) as store:
        put_all(store, sent)
