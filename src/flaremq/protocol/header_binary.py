"""The compact header, serialize type ROCKETMQ.

size   field
2      code, int16: POP's codes do not fit and wrap
1      language code
2      version, int16
4      opaque
4      flag
4 + n  remark, n bytes of UTF-8; n = 0 is none
4 + m  ext block: entries of int16 + name, int32 + value
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

import cython

from flaremq.errors import LocalProtocolError, RemoteProtocolError
from flaremq.protocol.codes import LANGUAGE_CODES, LANGUAGES
from flaremq.protocol.command import BINARY_HEADER, Body, RemotingCommand
from flaremq.protocol.header_json import text_values

if not cython.compiled:
    from flaremq.core.memory import load_i16, load_i32, view_of

_FIXED = Struct(">hBhiii")  # up to and with the remark's length
_INT = Struct(">i")
_SHORT = Struct(">h")
assert _FIXED.size + _INT.size == 21
_EXT_ENTRIES_MAX = 4096  # no request has more than some twenty


def decode_header(data: bytes, body: Body) -> RemotingCommand:
    """The command of a compact header and its body."""
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(data)
        at = _FIXED.size
        remark = _text(data, at, remark_length) if remark_length else None
        at += remark_length
        (ext_length,) = _INT.unpack_from(data, at)
    except StructError:
        raise RemoteProtocolError(f"a compact header of {len(data)} bytes is too short") from None
    at += 4
    if ext_length < 0 or at + ext_length > len(data):
        raise RemoteProtocolError(f"ext fields of {ext_length} bytes do not fit a header of {len(data)}")
    nulls: list[str] = []
    return RemotingCommand(
        code,
        ext=_decode_ext(data, at, at + ext_length, nulls),
        body=body,
        remark=remark,
        flag=flag,
        opaque=opaque,
        language=LANGUAGES[language] if language < len(LANGUAGES) else "OTHER",
        version=version,
        serialize_type=BINARY_HEADER,
        null_fields=tuple(nulls),
    )


def encode_header(command: RemotingCommand) -> bytes:
    """The compact header of a command; the code is cut to 16 bits as Java does."""
    remark = b"" if command.remark is None else command.remark.encode("utf-8", "replace")
    parts = [b""]
    for name, value in text_values(command.ext or {}).items():
        name_bytes, value_bytes = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        if len(name_bytes) > 32767:
            raise LocalProtocolError(f"an ext field's name of {len(name_bytes)} bytes does not fit 16 bits")
        parts += (_SHORT.pack(len(name_bytes)), name_bytes, _INT.pack(len(value_bytes)), value_bytes)
    ext = b"".join(parts)
    parts = [
        _FIXED.pack(
            _wrap16(command.code),
            LANGUAGE_CODES.get(command.language, LANGUAGE_CODES["OTHER"]),
            _wrap16(command.version),
            command.opaque,
            command.flag,
            len(remark),
        ),
        remark,
        _INT.pack(len(ext)),
        ext,
    ]
    return b"".join(parts)


def _decode_ext(data: bytes, at: int, end: int, nulls: list[str]) -> dict[str, str]:
    """The ext fields; ``nulls`` gets the names of those without a value."""
    ext: dict[str, str] = {}
    view = view_of(data)
    start = at
    try:
        for _ in range(_EXT_ENTRIES_MAX):  # entries without value or with a name seen before count too
            if at >= end:
                return ext
            if end - at < 2:
                break
            length = load_i16(view, at)
            name_at = at + 2
            if length < 0 or length > end - name_at - 4:
                break
            at = name_at + length
            size = load_i32(view, at)
            value_at = at + 4
            if size < 0 or size > end - value_at:
                break
            at = value_at + size
            if size:  # a value of no length is read back as none, as Java does
                ext[data[name_at : name_at + length].decode("utf-8")] = data[value_at:at].decode("utf-8")
            else:
                nulls.append(data[name_at : name_at + length].decode("utf-8"))
    except UnicodeDecodeError:
        pass
    raise _ext_error(data, start, end)


def _ext_error(data: bytes, at: int, end: int) -> RemoteProtocolError:
    """What is wrong with ext fields that cannot be read."""
    try:
        for _ in range(_EXT_ENTRIES_MAX):
            if at + 2 > end:
                return RemoteProtocolError("the ext fields end within a name's length")
            (length,) = _SHORT.unpack_from(data, at)
            _text(data, at + 2, length, end)
            at += 2 + length
            if at + 4 > end:
                return RemoteProtocolError("the ext fields end within a value's length")
            (length,) = _INT.unpack_from(data, at)
            _text(data, at + 4, length, end)
            at += 4 + length
    except RemoteProtocolError as error:
        return error
    return RemoteProtocolError(f"a header with more than {_EXT_ENTRIES_MAX} ext fields")


def _text(data: bytes, at: int, length: int, end: int | None = None) -> str:
    if length < 0 or at + length > (len(data) if end is None else end):
        raise RemoteProtocolError(f"a text of {length} bytes does not fit its header")
    try:
        return data[at : at + length].decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("a text in a compact header is no UTF-8") from None


def _wrap16(value: int) -> int:
    return (value + 0x8000 & 0xFFFF) - 0x8000
