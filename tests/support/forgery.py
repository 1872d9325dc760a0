"""Forged records: the bytes of a whole, self-located record, to be sent inside the body of an honest message."""

from __future__ import annotations

from flaremq.message.properties import encode_properties
from flaremq.message.record.codec import PREFIX_V4, encode_record

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
STORED = 1_700_000_000_000


def forged_record(
    physical_offset: int,
    *,
    topic: str,
    queue_id: int = 0,
    queue_offset: int = 0,
    body: bytes = b"forged",
    sys_flag: int = 0,
    **properties: str,
) -> bytes:
    """What would be a record of ``topic`` if it stood in the log at ``physical_offset`` as one."""
    return bytes(
        encode_record(
            topic=topic.encode(),
            body=body,
            properties=encode_properties({"UNIQ_KEY": "FORGED"} | properties),
            queue_id=queue_id,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            born_timestamp=STORED,
            born_host=HOST,
            store_timestamp=STORED,
            store_host=HOST,
            flag=0,
            sys_flag=sys_flag,
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )


def body_place(log_end: int) -> int:
    """Where the body of the next record will lie in the log, as anybody can work out who sees one reply."""
    return log_end + PREFIX_V4.size
