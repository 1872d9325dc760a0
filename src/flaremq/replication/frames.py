"""The bytes of the HA stream. All integers are big-endian and signed; there is no checksum, version or name in them.

A classic peer and one in controller mode misread each other without noticing, so the dialect is settled by
configuration on both sides, never guessed.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct


class HAState(IntEnum):
    """First word of every frame in controller mode."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


# Classic dialect, slave to master: only this.
#
#   at  size  field   note
#    0     8  offset  the slave's end; the first one asks "start here", every one acknowledges and shows life
REPORT = Struct(">q")
assert REPORT.size == 8

# Classic dialect, master to slave: this and the data behind it.
#
#   at  size  field   note
#    0     8  offset  of the first data byte; in a heartbeat the next offset that will be sent
#    8     4  n       data bytes that follow; 0 is a heartbeat
DATA = Struct(">qi")
assert DATA.size == 12

# Controller mode, slave to master: a handshake, again until it is answered, then reports.
#
#   at  size  field           note
#    0     4  state           HANDSHAKE
#    4     2  last file only  1: an empty slave wants the master's last file, not the whole log
#    6     2  learner         1: never becomes a member of the SyncStateSet
#    8     8  broker id
HANDSHAKE = Struct(">ihhq")
assert HANDSHAKE.size == 16
#   at  size  field   note
#    0     4  state   TRANSFER
#    4     8  offset  the slave's end
STATE_REPORT = Struct(">iq")
assert STATE_REPORT.size == 12

# Controller mode, master to slave: the answer to a handshake, its epochs behind it.
#
#   at  size  field       note
#    0     4  state       HANDSHAKE
#    4     4  body size   12 for each epoch
#    8     8  max         end of the master's log
#   16     4  last epoch
HANDSHAKE_REPLY = Struct(">iiqi")
assert HANDSHAKE_REPLY.size == 20
#   at  size  field
#    0     4  epoch
#    4     8  start offset
EPOCH = Struct(">iq")
assert EPOCH.size == 12

# Controller mode, master to slave: this and the data behind it.
#
#   at  size  field           note
#    0     4  state           TRANSFER
#    4     4  n               data bytes that follow; 0 is a heartbeat
#    8     8  offset          of the first data byte
#   16     4  epoch           of the data; Java names the next one already in a frame that ends where it starts
#   20     8  epoch's start
#   28     8  confirm offset  readers may see what lies below
STATE_DATA = Struct(">iiqiqq")
assert STATE_DATA.size == 36

# A Java slave receives into 4 MiB, header included, and hangs on a frame that does not fit.
FRAME_SIZE_MAX = 4 << 20
DATA_MAX = FRAME_SIZE_MAX - STATE_DATA.size

# Epochs in one handshake that a slave is willing to hold; an election a minute makes this in six weeks.
EPOCHS_MAX = 1 << 16
