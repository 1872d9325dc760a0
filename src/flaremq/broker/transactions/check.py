"""Asking a producer how its transaction ended: CHECK_TRANSACTION_STATE."""

from __future__ import annotations

from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.message_id import encode_message_id
from flaremq.message.properties import edit_properties, strip_unstored
from flaremq.message.record.codec import encode_record
from flaremq.message.stored_form import real_place
from flaremq.message.topics import HALF_TOPIC
from flaremq.message.transaction import check_times
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.consume import CheckTransactionStateRequestHeader


def check_request(record: MessageExt, *, queue_offset: int, physical_offset: int, broker_name: str) -> RemotingCommand:
    """The question about a half message, which is named by the place of its new copy.

    The client answers with just that place, and gets its message under the topic it sent it to.
    """
    topic, queue_id = real_place(record)
    properties = strip_unstored(bytes(record.raw_properties))
    body = encode_record(
        topic=topic.encode(),
        body=record.stored_body,
        properties=edit_properties(properties, {names.TRANSACTION_CHECK_TIMES: str(check_times(record) + 1)}),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host_bytes,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host_bytes,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=0,
    )
    message_id = encode_message_id(record.store_host_bytes, physical_offset)
    key = record.uniq_key
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=queue_offset,
        commit_log_offset=physical_offset,
        msg_id=key or message_id,
        transaction_id=key,
        offset_msg_id=message_id,
        topic=HALF_TOPIC,
        broker_name=broker_name,
    )
    return RemotingCommand.request(RequestCode.CHECK_TRANSACTION_STATE, header.encode(), body, oneway=True)
