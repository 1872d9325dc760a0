"""The message classes: ``classes.SendMessageRequest`` and all others of the table, by their names.

They live in a pool of their own. Protobuf's default pool belongs to the user's program, which may have the published
stubs loaded: a second registration of the same names there would fail.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as DecodeError
from google.protobuf.message import Message as AnyMessage
from google.protobuf.message_factory import GetMessageClass

from flaremq.grpc.messages import enums
from flaremq.grpc.messages.table import MESSAGES, NESTED, PACKAGE, SHORT

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "S": _Field.TYPE_STRING,
    "I": _Field.TYPE_INT32,
    "L": _Field.TYPE_INT64,
    "B": _Field.TYPE_BOOL,
    "Y": _Field.TYPE_BYTES,
    "F": _Field.TYPE_FLOAT,
}
_ENUMS: Final = {
    name: kind
    for name, kind in vars(enums).items()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
}


def describe() -> descriptor_pb2.FileDescriptorProto:
    """The table as the description that protobuf takes."""
    file = descriptor_pb2.FileDescriptorProto(name="flaremq/apache_rocketmq_v2.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend([duration_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    nested = {name: owner for owner, names in NESTED.items() for name in names}
    for name, kind in _ENUMS.items():
        if name not in nested:
            _describe_enum(file.enum_type.add(), kind)
    for line in MESSAGES.strip().splitlines():
        name, *words = line.split()
        message = file.message_type.add(name=name)
        for inner in NESTED.get(name, ()):
            _describe_enum(message.enum_type.add(), _ENUMS[inner])
        _describe_fields(message, words, nested)
    return file


def _describe_enum(target: descriptor_pb2.EnumDescriptorProto, kind: type[IntEnum]) -> None:
    target.name = kind.__name__
    for value in kind:
        target.value.add(name=value.name, number=value.value)


def _describe_fields(message: descriptor_pb2.DescriptorProto, words: list[str], nested: dict[str, str]) -> None:
    optional = []
    in_oneof = False
    for word in words:
        if word.endswith("{"):
            message.oneof_decl.add(name=word[:-1])
            in_oneof = True
            continue
        if word == "}":
            in_oneof = False
            continue
        name, _, kind = word.partition(":")
        field = message.field.add(name=name, number=len(message.field) + 1)
        field.label = _Field.LABEL_REPEATED if kind[-1] == "*" or kind == "map" else _Field.LABEL_OPTIONAL
        if in_oneof:
            field.oneof_index = len(message.oneof_decl) - 1
        if kind[-1] == "?":
            optional.append(field)
        _set_type(message, field, kind.rstrip("*?"), nested)
    for field in optional:  # after the real ones, as protobuf demands
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _set_type(
    message: descriptor_pb2.DescriptorProto,
    field: descriptor_pb2.FieldDescriptorProto,
    kind: str,
    nested: dict[str, str],
) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind == "map":
        entry = message.nested_type.add(name="".join(part.capitalize() for part in field.name.split("_")) + "Entry")
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            entry.field.add(name=name, number=number, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
    elif kind in _ENUMS:
        field.type = _Field.TYPE_ENUM
        owner = f"{nested[kind]}." if kind in nested else ""
        field.type_name = f".{PACKAGE}.{owner}{kind}"
    else:
        field.type = _Field.TYPE_MESSAGE
        full = SHORT.get(kind, kind)
        field.type_name = f".{full}" if "." in full else f".{PACKAGE}.{full}"


def _make() -> dict[str, type[AnyMessage]]:
    pool = DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = describe()
    pool.AddSerializedFile(file.SerializeToString())
    names = {message.name: f"{PACKAGE}.{message.name}" for message in file.message_type}
    names |= {kind: f"google.protobuf.{kind}" for kind in ("Duration", "Timestamp")}
    return {name: GetMessageClass(pool.FindMessageTypeByName(full)) for name, full in names.items()}


globals().update(_make())


def __getattr__(name: str) -> Any:  # tells type checkers that names come from the table
    raise AttributeError(f"the protocol has no message {name}")
