"""Rows as bodies of Protobuf: the reverse of ``protobuf``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from flaremq.pipeline.bodies.protobuf import TIMESTAMP, descriptor_of, is_map, message_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNSIGNED: Final = {FieldDescriptor.CPPTYPE_UINT32: 1 << 32, FieldDescriptor.CPPTYPE_UINT64: 1 << 64}


class ProtobufEncoder:
    """Encodes records of one message type; what is null is not set."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        self._make = message_factory.GetMessageClass(descriptor_of(descriptors, message))

    def __call__(self, record: dict[str, Any]) -> bytes:
        made = self._make()
        _fill(made, record)
        return made.SerializeToString(deterministic=True)


def _fill(message: Any, record: dict[str, Any]) -> None:
    for name, value in record.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        if is_map(field):
            _fill_map(getattr(message, name), message_of(field).fields_by_name["value"], value)
        elif field.is_repeated:
            for item in value:
                _add(getattr(message, name), field, item)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            _fill_message(getattr(message, name), field, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(entries: Any, field: FieldDescriptor, values: dict[Any, Any]) -> None:
    for key, value in values.items():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            _fill_message(entries[key], field, value)
        else:
            entries[key] = _scalar(field, value)


def _add(items: Any, field: FieldDescriptor, value: Any) -> None:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        _fill_message(items.add(), field, value)
    else:
        items.append(_scalar(field, value))


def _fill_message(message: Any, field: FieldDescriptor, value: Any) -> None:
    message.SetInParent()
    if message_of(field).full_name != TIMESTAMP:
        _fill(message, value)
        return
    microseconds = (value - _EPOCH) // _MICROSECOND
    message.seconds, rest = divmod(microseconds, 1_000_000)
    message.nanos = rest * 1000


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.cpp_type in _UNSIGNED and value < 0:
        return value + _UNSIGNED[field.cpp_type]
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value) if field.enum_type else None
        return int(value) if found is None else found.number
    return value
