"""What a broker asks a controller, and what of the answer matters here. The wire forms are made by the caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The requests, by their codes."""

    ALTER_SYNC_STATE_SET = 1001
    ELECT_MASTER = 1002
    REGISTER_BROKER = 1003
    GET_REPLICA_INFO = 1004
    GET_METADATA = 1005
    GET_NEXT_BROKER_ID = 1012
    APPLY_BROKER_ID = 1013


class Code(IntEnum):
    """The answers that are told apart. Any other one is a failure of the request."""

    SUCCESS = 0
    FENCED_MASTER_EPOCH = 2000
    FENCED_SYNC_STATE_SET_EPOCH = 2001
    INVALID_MASTER = 2002
    MASTER_NOT_AVAILABLE = 2004
    NOT_LEADER = 2007
    BROKER_METADATA_NOT_EXIST = 2008
    BROKER_NEED_TO_BE_REGISTERED = 2010
    MASTER_STILL_EXIST = 2011
    ELECT_MASTER_FAILED = 2012
    ALTER_SYNC_STATE_SET_FAILED = 2013
    BROKER_ID_INVALID = 2014


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to one controller. ``token`` comes back with its answer."""

    token: int
    kind: Kind
    to: str
    broker_id: int = 0
    check_code: str = ""
    master_epoch: int = 0
    members: frozenset[int] = frozenset()
    set_epoch: int = 0


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as a controller describes it. ``master_id`` is None while there is no master."""

    master_id: int | None
    master_address: str
    master_epoch: int
    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request: its code and what the request was for."""

    code: int = Code.SUCCESS
    leader: str = ""  # GET_METADATA
    next_id: int = 0  # GET_NEXT_BROKER_ID
    group: GroupView | None = None  # ELECT_MASTER, REGISTER_BROKER, GET_REPLICA_INFO, ALTER_SYNC_STATE_SET
