"""Names that clients send: of topics, groups and themselves. Judged before anything else is done with a call."""

from __future__ import annotations

import re
from typing import Any, Final

from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.status import Refused
from flaremq.message.topics import GROUP_LENGTH_MAX, LEGAL_NAME, NAME_BYTES_MAX, is_system_topic

CLIENT_ID_MAX: Final = 1024
_SYSTEM_GROUP: Final = "CID_RMQ_SYS_"
_SHOWN: Final = 64
_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f]").search


def topic_of(resource: Any) -> str:
    """The name of a topic that a client may send to or receive from."""
    name: str = resource.name
    if not name.strip():
        raise Refused(Code.ILLEGAL_TOPIC, "the topic name cannot be blank")
    if len(name) > NAME_BYTES_MAX:
        raise Refused(Code.ILLEGAL_TOPIC, f"the topic name has {len(name)} characters, at most {NAME_BYTES_MAX}")
    if not LEGAL_NAME.fullmatch(name):
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name[:_SHOWN]!r} has characters other than % | a-z A-Z 0-9 _ -")
    if len(resource.resource_namespace) > NAME_BYTES_MAX:
        raise Refused(Code.ILLEGAL_TOPIC, f"a namespace has at most {NAME_BYTES_MAX} characters")
    if is_system_topic(name):
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name} belongs to the system")
    return name


def group_of(resource: Any) -> str:
    """The name of a group that a client may consume as."""
    name: str = resource.name
    if not name.strip():
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, "the consumer group cannot be blank")
    if len(name) > GROUP_LENGTH_MAX:
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP, f"the group name has {len(name)} characters, at most {GROUP_LENGTH_MAX}"
        )
    if not LEGAL_NAME.fullmatch(name):
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP, f"group {name[:_SHOWN]!r} has characters other than % | a-z A-Z 0-9 _ -"
        )
    if name.startswith(_SYSTEM_GROUP):
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, f"group {name} belongs to the system")
    return name


def client_id_of(text: str) -> str:
    """The client's own name, which every call must tell."""
    if not text.strip():
        raise Refused(Code.CLIENT_ID_REQUIRED, "the client id (x-mq-client-id) cannot be empty")
    if len(text) > CLIENT_ID_MAX:
        raise Refused(Code.CLIENT_ID_REQUIRED, f"a client id has at most {CLIENT_ID_MAX} characters, not {len(text)}")
    return text


def has_control(text: str) -> bool:
    """Whether Java calls any of the characters a control character."""
    return _CONTROL(text) is not None
