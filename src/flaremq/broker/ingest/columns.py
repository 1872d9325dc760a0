"""The table that sends are parsed into: one row a send, all numbers. Places are offsets in the read, for properties in
the scratch. Compiled code has the same numbers from ``columns.pxd``; a test holds the two equal."""

from __future__ import annotations

KIND, OPAQUE, FLAG, TOPIC_AT, TOPIC_LENGTH, QUEUE_ID, SYS_FLAG, BORN, MESSAGE_FLAG = range(9)
PROPERTIES_AT, PROPERTIES_LENGTH, BODY_AT, BODY_LENGTH, RECORD_OFFSET, QUEUE_OFFSET = range(9, 15)
# What a signature covers: the account, the properties as they came, and place and length of each field "a" to "n".
RAW_LENGTH, KEY_AT, KEY_LENGTH, SIGNATURE_AT, SIGNATURE_LENGTH, LETTERS = range(15, 21)
MESSAGES = 48  # of a batch; 0: it is none
COLUMN_COUNT = 49
RUN_MESSAGES_MAX = 4096  # of the batches in the table together
