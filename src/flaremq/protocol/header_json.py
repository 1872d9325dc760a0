"""The JSON header: what clients send unless told otherwise.

Reading is tolerant where real clients need it (numbers and booleans as ext values, any text as language); writing is
strict JSON with text values only, because Go drops a reply whose header it cannot decode.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from flaremq.errors import RemoteProtocolError
from flaremq.protocol.codes import VERSION
from flaremq.protocol.command import JSON_HEADER, Body, ExtValue, RemotingCommand

_TEXT_ONLY = {str}
_new = RemotingCommand.__new__
_loads = orjson.loads
_dumps = orjson.dumps


def decode_header(data: Body, body: Body) -> RemotingCommand:
    """The command of a JSON header and its body."""
    try:
        fields = _loads(data)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(f"the header is no JSON: {error}") from None
    command = _new(RemotingCommand)
    try:
        command.code = fields["code"]
        command.opaque = fields["opaque"]
        get = fields.get
        command.flag = get("flag", 0)
        command.version = get("version", 0)
        command.language = get("language") or "OTHER"
        command.remark = get("remark")
        ext = get("extFields")
    except (KeyError, TypeError, AttributeError):
        raise RemoteProtocolError("the header is no object with code and opaque") from None
    if type(command.code) is not int or type(command.opaque) is not int or type(command.flag) is not int:
        raise RemoteProtocolError("code, opaque and flag of a header must be numbers")
    if type(command.version) is not int or type(command.language) is not str:
        raise RemoteProtocolError("version must be a number and language a text")
    if command.remark is not None and type(command.remark) is not str:
        raise RemoteProtocolError("the remark of a header must be a text")
    if not -0x80000000 <= command.opaque <= 0x7FFFFFFF or not -0x80000000 <= command.code <= 0x7FFFFFFF:
        raise RemoteProtocolError("code and opaque of a header must fit 32 bits")
    command.null_fields = ()
    command.received_at = 0.0
    command.was_held = False
    if ext is None:
        ext = {}
    elif type(ext) is not dict:
        raise RemoteProtocolError("extFields must be an object")
    elif ext and set(map(type, ext.values())) != _TEXT_ONLY:
        command.null_fields = tuple(name for name, value in ext.items() if value is None)
        ext = _as_text(ext)
    command.ext = ext
    command.body = body
    command.serialize_type = JSON_HEADER
    return command


def encode_header(command: RemotingCommand) -> bytes:
    """The JSON header of a command."""
    fields: dict[str, object] = {"code": command.code}
    ext = command.ext
    if ext is not None:
        fields["extFields"] = text_values(ext)
    fields["flag"] = command.flag
    fields["language"] = command.language
    fields["opaque"] = command.opaque
    if command.remark is not None:
        fields["remark"] = command.remark
    fields["serializeTypeCurrentRPC"] = "JSON"
    fields["version"] = command.version or VERSION
    try:
        return _dumps(fields)
    except (TypeError, ValueError):  # a lone surrogate in a remark or value
        return _dumps(_without_surrogates(fields))


def text_values(ext: Mapping[str, ExtValue]) -> Mapping[str, str]:
    """Ext fields as the texts the wire carries; booleans as Java and JavaScript print them."""
    if not ext or set(map(type, ext.values())) == _TEXT_ONLY:
        return ext  # type: ignore[return-value]  # just checked
    return {name: as_text(value) for name, value in ext.items() if value is not None}


def as_text(value: object) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return str(int(value))  # as JavaScript prints it
    return str(value)


def _as_text(ext: dict[str, object]) -> dict[str, str]:
    texts = {}
    for name, value in ext.items():
        if isinstance(value, (dict, list)):
            raise RemoteProtocolError(f"the ext field {name[:64]!r} is neither text, number nor boolean")
        if value is not None:
            texts[name] = as_text(value)
    return texts


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    return value
