"""Planted secrets: texts that stand nowhere else, and a search for them in whatever form they might come out."""

from __future__ import annotations

import base64
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

# Of one length in bytes for each kind, so that a base64 of them is easy to tell from chance.
INITIAL = "planted-initial-7Qx2vN9k"
INNER = "planted-inner-4Kd8sW1p"
PLAIN = "planted-plain-9Zt3mB6r"
HA = "planted-ha-secret-5Hc7yL2e"
TLS = "planted-tls-key-1Vg4nJ8q"
CLIENT = "planted-client-6Rw9fT3x"
TOKEN = "planted-token-2Ps5uE7h"
ALL = (INITIAL, INNER, PLAIN, HA, TLS, CLIENT, TOKEN)


def forms(secret: str) -> Iterator[bytes]:
    """The bytes by which a secret shows, also inside of what is base64, UTF-16 or hex."""
    raw = secret.encode()
    yield raw
    for shift in range(3):  # wherever it begins among the groups of three bytes, this part is always the same
        coded = base64.b64encode(b"\0" * shift + raw)
        yield coded[(shift * 8 + 5) // 6 : len(raw) * 8 // 6 - 2]
    yield raw.hex().encode()
    yield secret.encode("utf-16-le")
    if quote(secret, safe="") != secret:
        yield quote(secret, safe="").encode()


def found_in(data: bytes | str, secrets: Iterable[str] = ALL) -> list[str]:
    """The secrets that can be read in some data; what is compressed is looked into as well."""
    content = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    for unpacked in (content, *_inflated(content)):
        if found := [secret for secret in secrets if any(form in unpacked for form in forms(secret))]:
            return found
    return []


def files_with(folder: Path, secrets: Iterable[str] = ALL) -> list[str]:
    """The files below a folder in which secrets can be read."""
    wanted = tuple(secrets)
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return sorted(str(path.relative_to(folder)) for path in paths if path.is_file() and _has(path, wanted))


def _has(path: Path, secrets: tuple[str, ...]) -> bool:
    try:
        return bool(found_in(path.read_bytes(), secrets))
    except FileNotFoundError:  # gone since the folder was read
        return False


def _inflated(content: bytes) -> Iterator[bytes]:
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            yield unpack(content)
        except (OSError, EOFError, zlib.error):
            continue
