"""Bodies of Protobuf as columns, with the types that Spark's ``from_protobuf`` has for them.

A body is one message of a type that a descriptor set describes. Like Spark, a field that is not in the body is null,
unless it has a default of its own (proto2); so is a number or text of proto3 that is zero or empty, which is not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.decoded import Decoded, column_of

TIMESTAMP: Final = "google.protobuf.Timestamp"
_UTC: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.int64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
Value = Callable[[Any], Any]


class ProtobufDecoder:
    """Decodes wanted fields of a message."""

    def __init__(self, descriptors: bytes, message: str, fields: pa.Schema) -> None:
        descriptor = descriptor_of(descriptors, message)
        self._make = message_factory.GetMessageClass(descriptor)
        self._fields = fields
        self._read = [_reader(descriptor.fields_by_name[field.name]) for field in fields]

    def decode(self, bodies: pa.Array) -> Decoded:
        values: list[list[Any]] = [[] for _ in self._fields]
        reasons: list[str | None] = []
        parse = self._make.FromString
        for body in bodies.to_pylist():
            reason, row = None, None
            if body is not None:
                try:
                    message = parse(body)
                    row = [read(message) for read in self._read]
                except (DecodeError, ValueError) as error:
                    reason = f"no Protobuf of this message: {error}"
            reasons.append(reason)
            for column, value in zip(values, row or [None] * len(values), strict=True):
                column.append(value)
        columns = [column_of(column, field.type, reasons) for column, field in zip(values, self._fields, strict=True)]
        return Decoded(len(bodies), columns, reasons if any(reasons) else None)


def schema_of_message(descriptors: bytes, message: str) -> pa.Schema:
    """The columns of a message."""
    return pa.schema(_fields(descriptor_of(descriptors, message), ()))


def descriptor_of(descriptors: bytes, message: str) -> Descriptor:
    """A message among those that a set describes."""
    found = descriptor_pb2.FileDescriptorSet()
    try:
        found.ParseFromString(descriptors)
    except DecodeError as error:
        raise InvalidArgumentError(
            "bodySchema is no descriptor set; protoc --include_imports --descriptor_set_out=FILE writes one"
        ) from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in found.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except (KeyError, TypeError) as error:
        names = sorted(f"{file.package}.{each.name}".lstrip(".") for file in found.file for each in file.message_type)
        if message in names:
            raise InvalidArgumentError(
                f"bodySchema lacks a file that {message} needs; write it with protoc --include_imports"
            ) from error
        raise InvalidArgumentError(
            f"bodySchema describes no message {message!r}; there are {', '.join(names[:20]) or 'none'}"
        ) from error


def _fields(descriptor: Descriptor, within: tuple[str, ...]) -> list[pa.Field]:
    if descriptor.full_name in within:
        raise InvalidArgumentError(f"the message {descriptor.full_name} holds itself, which no column can")
    inside = (*within, descriptor.full_name)
    return [pa.field(field.name, _type(field, inside)) for field in descriptor.fields]


def _type(field: FieldDescriptor, within: tuple[str, ...]) -> pa.DataType:
    if is_map(field):
        key, value = (message_of(field).fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_type(key, within), _type(value, within))
    one = _single_type(field, within)
    return pa.list_(one) if field.is_repeated else one


def _single_type(field: FieldDescriptor, within: tuple[str, ...]) -> pa.DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if message_of(field).full_name == TIMESTAMP:
            return _UTC
        return pa.struct(_fields(message_of(field), within))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _TYPES[field.cpp_type]


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map, which is written as a list of entries."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def message_of(field: FieldDescriptor) -> Descriptor:
    """The message that a field of one is."""
    assert field.message_type is not None
    return field.message_type


def _reader(field: FieldDescriptor) -> Value:
    """What reads a field off its message."""
    name, single = field.name, _single_reader(field)
    if is_map(field):
        value = _single_reader(message_of(field).fields_by_name["value"])
        return lambda message: [(key, value(item)) for key, item in getattr(message, name).items()]
    if field.is_repeated:
        return lambda message: [single(item) for item in getattr(message, name)]
    if field.has_default_value:
        return lambda message: single(getattr(message, name))
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None

    def read(message: Message) -> Any:
        value = getattr(message, name)
        return single(value) if value else None

    return read


def _single_reader(field: FieldDescriptor) -> Value:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if message_of(field).full_name == TIMESTAMP:
            return lambda message: message.seconds * 1_000_000 + message.nanos // 1000
        parts = [(part.name, _reader(part)) for part in message_of(field).fields]
        return lambda message: {name: read(message) for name, read in parts}
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {value.number: value.name for value in (field.enum_type.values if field.enum_type else ())}
        return lambda number: names.get(number, str(number))
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT32:
        return lambda number: number - (1 << 32) if number >= 1 << 31 else number
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return lambda number: number - (1 << 64) if number >= 1 << 63 else number
    return lambda value: value
