"""What a membership wants done. Steps of one call are carried out in order, each to its end before the next."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.replication.membership.requests import Ask


@dataclass(frozen=True, slots=True)
class SaveTemporaryId:
    """Make the id that is about to be applied for durable (``brokerIdentity-temp``)."""

    broker_id: int
    check_code: str


@dataclass(frozen=True, slots=True)
class SaveId:
    """The id is ours: make it durable (``brokerIdentity``), drop the temporary one."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life to each of these, with epoch, log end and confirm offset as they are now; no answer comes."""

    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BecomeMaster:
    """Lead from now on; ``Membership.role_taken`` when done. Same master with a new epoch comes like this too."""

    epoch: int
    members: frozenset[int]
    set_epoch: int


@dataclass(frozen=True, slots=True)
class BecomeSlave:
    """Follow this master; ``Membership.role_taken`` when writes are refused and the old role's work has ended.

    The same epoch comes again if the master of that epoch has another address now.
    """

    epoch: int
    master_id: int
    master_address: str


@dataclass(frozen=True, slots=True)
class SetSettled:
    """The SyncStateSet as it stands at the controller for certain; nothing that was proposed can change it any more."""

    members: frozenset[int]
    set_epoch: int


Step = Ask | SaveTemporaryId | SaveId | Heartbeat | BecomeMaster | BecomeSlave | SetSettled
