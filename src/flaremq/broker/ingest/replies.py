"""SendReplies: what a broker adds to the messages it takes, and how it answers their senders.

A send that is stored is answered with bytes put together from pieces, without a command object; the compiled sends
(``ingest.ingest``) are given the same pieces. Everything else is answered with a RemotingCommand.
"""

from __future__ import annotations

from struct import Struct

import orjson

from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.put_status import code_of
from flaremq.message.properties import find_property
from flaremq.protocol.codes import OWN_LANGUAGE, VERSION, ResponseCode
from flaremq.protocol.command import JSON_HEADER, ExtValue, RemotingCommand
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_WORDS = Struct(">II")
_COMPACT = Struct(">hBhiiii")  # a compact header without remark up to its ext fields
_COMPACT_FRAME = Struct(">iIhBhiiii")
_pack_int = Struct(">i").pack

UNACKNOWLEDGED_MAX = 200_000  # appends that may wait for the disk; a client hears "busy" beyond that


class SendReplies:
    """The replies of one broker to sends. ``derive`` again when options change."""

    def __init__(self, options: BrokerOptions, store: MessageStore, store_host: bytes) -> None:
        self._options = options
        self._store = store
        self.store_host = store_host
        self.host_text = store_host.hex().upper()
        self.derive()

    def derive(self) -> None:
        """What every message and every reply gets, as the options are now."""
        options = self._options
        trace = "true" if options.trace_on else "false"
        # Appended to the properties of a message, whose last pair is closed.
        self.stamp = (
            f"MSG_REGION\x01{options.region_id}\x02CLUSTER\x01{options.broker_cluster_name}\x02TRACE_ON\x01{trace}\x02"
        )
        self.raw_stamp = self.stamp.encode("utf-8", "replace")
        self.traits: dict[str, str] = {"MSG_REGION": options.region_id, "TRACE_ON": trace}
        # Between the pieces: queue id, message id, queue offset, opaque.
        self.json_pieces = (
            '{"code":0,"extFields":{"queueId":"',
            '","msgId":"',
            '","queueOffset":"',
            f'",{orjson.dumps(self.traits).decode()[1:-1]}}},"flag":1,"language":"{OWN_LANGUAGE}","opaque":',
            f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}',
        )
        # After each of the first three its value, with its length before it.
        self.compact_pieces = (
            b"\0\7queueId",
            b"\0\5msgId",
            b"\0\x0bqueueOffset",
            b"".join(
                len(name).to_bytes(2, "big") + name.encode() + len(value).to_bytes(4, "big") + value.encode()
                for name, value in self.traits.items()
            ),
        )

    def acknowledgement(self, request: RemotingCommand, queue_id: int, queue_offset: int, message_id: str) -> bytes:
        """The frame that answers a send, or a batch, which is stored as durably as asked."""
        if request.serialize_type != JSON_HEADER:
            queue_name, id_name, offset_name, traits = self.compact_pieces
            encoded_id = message_id.encode()
            number, offset = b"%d" % queue_id, b"%d" % queue_offset
            ext = b"%b%b%b%b%b%b%b%b%b%b" % (
                queue_name,
                _pack_int(len(number)),
                number,
                id_name,
                _pack_int(len(encoded_id)),
                encoded_id,
                offset_name,
                _pack_int(len(offset)),
                offset,
                traits,
            )
            size = _COMPACT.size + len(ext)
            return _COMPACT_FRAME.pack(size + 4, 1 << 24 | size, 0, 3, VERSION, request.opaque, 1, 0, len(ext)) + ext
        first, second, third, fourth, last = self.json_pieces
        header = (f"{first}{queue_id}{second}{message_id}{third}{queue_offset}{fourth}{request.opaque}{last}").encode()
        size = len(header)
        return _WORDS.pack(size + 4, size) + header

    def stored(self, status: PutMessageStatus, queue_id: int, result: PutResult, properties: bytes) -> RemotingCommand:
        """The reply about one or more messages that are in the log; ``properties`` are those of the request."""
        unique_key = find_property(properties, b"UNIQ_KEY")
        transaction_id = None if unique_key is None else unique_key.decode("utf-8", "replace")
        return self.stored_at(status, queue_id, result.queue_offset, result.message_id, transaction_id)

    def stored_at(
        self,
        status: PutMessageStatus,
        queue_id: int,
        queue_offset: int,
        message_id: str,
        transaction_id: str | None = None,
    ) -> RemotingCommand:
        code = code_of(status)
        ext: dict[str, ExtValue] = {"queueId": queue_id, "msgId": message_id, "queueOffset": queue_offset}
        ext |= self.traits
        if transaction_id is not None:
            ext["transactionId"] = transaction_id
        remark = None if code == ResponseCode.SUCCESS else self._store.health_state.refusal or status.name
        return RemotingCommand.response(code, remark, ext=ext)

    def refused(self, result: PutResult) -> RemotingCommand:
        """The reply about a message that the store did not take."""
        code = code_of(result.status)
        if code == ResponseCode.MESSAGE_ILLEGAL:
            remark = f"{self.illegal_remark} {result.detail or ''}".rstrip()
        elif code == ResponseCode.SYSTEM_BUSY:
            remark = f"[PC_SYNCHRONIZED]broker busy, start flow control for a while: {result.detail}"
        elif code == ResponseCode.SERVICE_NOT_AVAILABLE:
            remark = f"service not available now: {result.detail}"
        elif result.status is PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH:
            remark = result.detail or result.status.name
        else:
            remark = f"{result.status.name}: {result.detail}"
        return RemotingCommand.response(code, remark, ext=self.traits)

    @property
    def illegal_remark(self) -> str:
        return (
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._store.options.max_message_size}B, msg properties length limit 32KB."
        )


def busy(unacknowledged: int) -> RemotingCommand:
    remark = f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while: {unacknowledged} wait for the disk"
    return RemotingCommand.response(ResponseCode.SYSTEM_BUSY, remark)
