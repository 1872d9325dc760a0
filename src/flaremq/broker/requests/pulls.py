"""Pulls: PULL_MESSAGE and LITE_PULL_MESSAGE.

A pull of recent messages is answered on the event loop: the store hands out views of the mapped log and they go to
the socket as they are, in one gathered write. A pull of messages that are likely on disk is read on a worker thread,
one that asks a property filter on the filter lane. One that finds nothing is held (long_polling/held_pulls.py).
"""

from __future__ import annotations

from struct import Struct
from time import perf_counter
from typing import Any

from flaremq.broker.catalog.catalog import Catalog
from flaremq.broker.catalog.groups import check_not_broker_group
from flaremq.broker.long_polling.filtered_pulls import FilteredPulls
from flaremq.broker.long_polling.held_pulls import PullRequestHoldService
from flaremq.broker.long_polling.pull_request import HeldPull, PullFilter, checked_wanted, pull_code
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.role import MASTER_ID, Role
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import Clock
from flaremq.message.topics import RETRY_PREFIX
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import PERM_READ
from flaremq.protocol.codes import (
    LANGUAGE_CODES,
    OWN_LANGUAGE,
    PULL_COMMITS_OFFSET,
    PULL_HAS_SUBSCRIPTION,
    PULL_MAY_SUSPEND,
    VERSION,
    RequestCode,
    ResponseCode,
)
from flaremq.protocol.command import JSON_HEADER, ONEWAY_FLAG, RemotingCommand, RequestError
from flaremq.protocol.headers.consume import PullMessageRequestHeader, decode_pull_header
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, Lane
from flaremq.storage.get.pull import PullResult
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import GetMessageStatus

_SUSPEND_SECONDS_MAX = 60.0
_OWN_CLIENT_FACTOR = 4  # our own client takes larger pulls than RocketMQ's ever get; the limit in bytes is the same
_REPLY_BYTES_MAX = 4 << 20  # whatever the options say: the loop writes it in one go
_REPLY_COUNT_MAX = 65_536
# A reader of ours that says it takes a megabyte reads whole queues: it gets that, also of messages that lie on disk,
# where it would otherwise come for eight at a time.
_BULK_BYTES = 1 << 20
_BULK_COUNT_FACTOR = 32
_BULK_BYTES_FACTOR = 4


def _limits(options: StoreOptions, header: PullMessageRequestHeader, is_cold: bool, is_ours: bool) -> tuple[int, int]:
    """How many messages and bytes one reply carries at most; options may change while the broker runs."""
    if is_cold:
        count_max = options.max_transfer_count_on_message_in_disk
        bytes_max = options.max_transfer_bytes_on_message_in_disk
    else:
        count_max = options.max_transfer_count_on_message_in_memory
        bytes_max = options.max_transfer_bytes_on_message_in_memory
    if is_ours:
        if (header.max_msg_bytes or 0) >= _BULK_BYTES:
            count_max, bytes_max = count_max * _BULK_COUNT_FACTOR, bytes_max * _BULK_BYTES_FACTOR
        elif not is_cold:
            count_max *= _OWN_CLIENT_FACTOR
    return min(count_max, _REPLY_COUNT_MAX), min(bytes_max, _REPLY_BYTES_MAX)


class PullHandler:
    """Gives messages to consumers that ask for a queue and an offset."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreLoop,
        catalog: Catalog,
        consumers: ConsumerTable,
        statistics: BrokerStatistics,
        role: Role | None = None,
    ) -> None:
        self._options = options
        self._role = role or Role(is_master=True, broker_id=MASTER_ID)
        self._store_loop = store_loop
        self._puller = store_loop.driver.puller
        self._topics = catalog.topics
        self._groups = catalog.groups
        self._consumers = consumers
        self._offsets = catalog.offsets
        self._statistics = statistics
        self._clock = clock
        self.holds = PullRequestHoldService(store_loop.dispatching, self._attempt)
        self._filtered = FilteredPulls(store_loop, self._answer_held, self._code)
        self._filter_lane: Lane | None = None

    def register(self, table: HandlerTable) -> None:
        self._filter_lane = table.lanes["filter"]
        table.register(RequestCode.PULL_MESSAGE, self.pull, "pull")
        table.register(RequestCode.LITE_PULL_MESSAGE, self.pull_lite, "lite_pull")

    def pull_lite(self, connection: Connection, request: RemotingCommand) -> Any:
        if not self._options.lite_pull_message_enable:
            raise RequestError(ResponseCode.NO_PERMISSION, "the broker serves no lite pull consumers")
        return self.pull(connection, request)

    def pull(self, connection: Connection, request: RemotingCommand) -> Any:
        header = decode_pull_header(request.ext)
        wanted = self._check(connection, header)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = header.queue_offset
        if header.sys_flag & PULL_COMMITS_OFFSET and self._role.is_master:
            self._offsets.commit(group, topic, queue_id, header.commit_offset)
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            return self._moved(topic, queue_id, reset)
        self._offsets.note_pulled(group, topic, queue_id, offset)
        store_loop = self._store_loop
        if store_loop.driver.undispatched > 0:  # who was acknowledged a moment ago finds it
            store_loop.dispatching.catch_up()
        is_cold = self._puller.is_cold(topic, queue_id, offset)
        count_max, bytes_max = _limits(store_loop.store.options, header, is_cold, request.language == OWN_LANGUAGE)
        max_count = min(max(header.max_msg_nums, 1), count_max)
        max_bytes = min(header.max_msg_bytes or _REPLY_BYTES_MAX, bytes_max)
        is_filtered = wanted.matches is not None and offset < store_loop.store.max_offset(topic, queue_id)
        if is_filtered or is_cold:
            work = self._pull_on_worker(
                connection, request, header, wanted, max_count, max_bytes, is_filtered=is_filtered, is_cold=is_cold
            )
            if not is_filtered or self._filter_lane is None:
                return work
            self._filter_lane.enter(connection, request, work)
            return None
        began = perf_counter()
        result = self._puller.pull(topic, queue_id, offset, max_count, max_bytes, wanted.codes)
        statistics = self._statistics
        statistics.note_get_latency(group, topic, int((perf_counter() - began) * 1000), result.count)
        if statistics.fall_behind.sizes:
            statistics.fall_behind.note_caught_up(group, topic, queue_id)
        return self._answer(connection, request, header, wanted, max_count, max_bytes, result)

    async def _pull_on_worker(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        wanted: PullFilter,
        max_count: int,
        max_bytes: int,
        *,
        is_filtered: bool,
        is_cold: bool,
    ) -> None:
        """Pull off the loop: a filter takes its time, a cold record waits for the disk."""
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        began = perf_counter()

        def pull() -> PullResult:
            work = wanted.work() if is_filtered else None
            return self._puller.pull(topic, queue_id, header.queue_offset, max_count, max_bytes, wanted.codes, work)

        result = await (self._store_loop.run_filter(group, pull) if is_filtered else self._store_loop.run_cold(pull))
        self._answer(connection, request, header, wanted, max_count, max_bytes, result)
        self._statistics.note_get_latency(group, topic, int((perf_counter() - began) * 1000), result.count)
        if is_cold:
            await self._note_behind(group, topic, queue_id, result)
        elif self._statistics.fall_behind.sizes:
            self._statistics.fall_behind.note_caught_up(group, topic, queue_id)

    async def _note_behind(self, group: str, topic: str, queue_id: int, result: PullResult) -> None:
        statistics = self._statistics
        behind = self._puller.bytes_behind(topic, queue_id, result.next_offset)
        statistics.fall_behind.note_size(group, topic, queue_id, behind)
        behind_ms = 0
        if behind > 0:
            stored_ms = await self._store_loop.run_cold(
                self._store_loop.store.inspector.store_time, topic, queue_id, result.next_offset - 1
            )
            behind_ms = 0 if stored_ms is None else max(self._clock.now_ms() - stored_ms, 0)
        statistics.fall_behind.note_time(group, topic, queue_id, behind_ms)

    def _answer(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: PullMessageRequestHeader,
        wanted: PullFilter,
        max_count: int,
        max_bytes: int,
        result: PullResult,
    ) -> None:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        code = self._code(result, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_MAY_SUSPEND:
            options = self._options
            seconds = header.suspend_timeout_millis / 1000
            if not options.long_polling_enable:
                seconds = options.short_polling_time_mills / 1000
            if self.holds.size >= options.held_pulls_max or not self.holds.has_room(connection):
                remark = f"[OVERLOAD]{self.holds.size} pulls are waiting for messages already"
                connection.reply(request, RemotingCommand.response(ResponseCode.SYSTEM_BUSY, remark))
                return
            if seconds > 0:
                pull = HeldPull(
                    connection, request, group, topic, queue_id, result.next_offset, max_count, max_bytes, wanted
                )
                self.holds.hold(pull, min(seconds, _SUSPEND_SECONDS_MAX))
                return
        self._reply(connection, request, group, topic, queue_id, code, result)

    def _attempt(self, pull: HeldPull, whatever: bool) -> bool:
        """Pull again for one that waits; True if it was answered."""
        wanted = pull.wanted
        reset = self._offsets.take_reset(pull.group, pull.topic, pull.queue_id)
        if reset is not None:
            pull.connection.reply(pull.request, self._moved(pull.topic, pull.queue_id, reset))
            return True
        if wanted.matches is not None:
            return self._filtered.attempt(self.holds, pull, whatever)
        result = self._puller.pull(pull.topic, pull.queue_id, pull.offset, pull.max_count, pull.max_bytes, wanted.codes)
        if not whatever:
            if result.status is GetMessageStatus.NO_MATCHED_MESSAGE:
                pull.offset = result.next_offset
                return False
            if self._code(result, pull.offset) == ResponseCode.PULL_NOT_FOUND:
                return False
        self._answer_held(pull, result)
        return True

    def _answer_held(self, pull: HeldPull, result: PullResult) -> None:
        code = self._code(result, pull.offset)
        pull.sent_bytes = result.size
        self._reply(pull.connection, pull.request, pull.group, pull.topic, pull.queue_id, code, result)

    def _code(self, result: PullResult, offset: int) -> ResponseCode:
        """How a pull from an offset is answered.

        A slave that is behind, or has deleted more than its master, does not make its readers jump: they wait for what
        they asked for, as for messages that are not written yet. RocketMQ has them ask again at once, without end.
        """
        code = pull_code(result.status, offset)
        if (
            code != ResponseCode.PULL_OFFSET_MOVED
            or self._role.is_master
            or self._store_loop.store.options.offset_check_in_slave
        ):
            return code
        result.next_offset = offset
        return ResponseCode.PULL_NOT_FOUND

    def _suggested(self, group: str, topic: str, queue_id: int, result: PullResult) -> int:
        """The broker of this group to pull from next: a slave, if the messages have left the master's memory."""
        config = self._groups.get(group)
        if config is None:
            return MASTER_ID
        last = max(result.next_offset - 1, result.min_offset)
        is_slow = result.count > 0 and self._puller.is_cold(topic, queue_id, last)
        return config.which_broker_when_consume_slowly if is_slow else config.broker_id

    def _reply(
        self,
        connection: Connection,
        request: RemotingCommand,
        group: str,
        topic: str,
        queue_id: int,
        code: int,
        result: PullResult,
    ) -> None:
        self._statistics.note_get(group, topic, result.count, result.size)
        if result.count:
            self._offsets.note_pulled(group, topic, queue_id, result.next_offset)
        if result.count and not topic.startswith(RETRY_PREFIX):
            self._statistics.traffic.note_out(topic, group, None, result.count, result.size)
        connection.answered(request, code)
        if request.flag & ONEWAY_FLAG:
            return
        suggested = self._suggested(group, topic, queue_id, result) if self._options.slave_read_enable else MASTER_ID
        if request.serialize_type != JSON_HEADER:
            connection.write([compact_head(code, request.opaque, result, suggested), *result.views])
            return
        header = (
            f'{{"code":{int(code)},"extFields":{{"suggestWhichBrokerId":"{suggested}",'
            f'"nextBeginOffset":"{result.next_offset}",'
            f'"minOffset":"{result.min_offset}","maxOffset":"{result.max_offset}","topicSysFlag":"0",'
            f'"groupSysFlag":"0"}},"flag":1,"language":"{OWN_LANGUAGE}","opaque":{request.opaque},'
            f'"remark":"{result.status.name}","serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        ).encode()
        size = len(header)
        words = (size + 4 + result.size << 32 | size).to_bytes(8, "big")
        connection.write([words + header, *result.views])

    def _moved(self, topic: str, queue_id: int, offset: int) -> RemotingCommand:
        store = self._store_loop.store
        ext = {
            "suggestWhichBrokerId": 0,
            "nextBeginOffset": offset,
            "minOffset": store.min_offset(topic, queue_id),
            "maxOffset": store.max_offset(topic, queue_id),
        }
        return RemotingCommand.response(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", ext=ext)

    # May this consumer pull, and what does it want?

    def _check(self, connection: Connection, header: PullMessageRequestHeader) -> PullFilter:
        options = self._options
        group, topic = header.consumer_group, header.topic
        if not options.broker_permission & PERM_READ:
            remark = f"the broker[{options.broker_ip1}] pulling message is forbidden"
            raise RequestError(ResponseCode.NO_PERMISSION, remark)
        check_not_broker_group(group)
        group_config = self._groups.get(group) or self._new_group(group)
        if group_config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist"
            )
        if not group_config.consume_enable:
            raise RequestError(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if not config.perm & PERM_READ:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < config.read_queue_nums:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[{connection.peer}]",
            )
        if header.sys_flag & PULL_HAS_SUBSCRIPTION:
            return checked_wanted(options, header.expression_type, header.subscription)
        registered = self._consumers.find_group(group)
        if registered is None:
            remark = f"the consumer's group info not exist, group: {group}"
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if registered.is_broadcasting and not group_config.consume_broadcast_enable:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the consumer group[{group}] can not consume by broadcast way"
            )
        subscription = registered.subscriptions.get(topic)
        if subscription is None:
            remark = f"the consumer's subscription not exist, group: {group}, topic:{topic}"
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        # A newer version in the pull than in the heartbeat means only that the heartbeat is on its way: the newest
        # subscription we know is used rather than stalling the client.
        return checked_wanted(options, subscription.expression_type, subscription.sub_string)

    def _new_group(self, group: str) -> SubscriptionGroupConfig | None:
        """A group that comes into being by use, if it may. It is saved meanwhile; the pull does not wait for that."""
        found = self._groups.find(group)
        if found is not None:
            self._groups.save_soon()
        return found


# The ext fields of a compact reply; each number has its length before it.
_COMPACT_EXT = (
    b"\0\x14suggestWhichBrokerId%b%b\0\x0fnextBeginOffset%b%b\0\x09minOffset%b%b\0\x09maxOffset%b%b"
    b"\0\x0ctopicSysFlag\0\0\0\x010\0\x0cgroupSysFlag\0\0\0\x010"
)
_compact_fields = Struct(">iIhBhiii").pack  # a frame up to its remark
_pack_int = Struct(">i").pack
_LANGUAGE = LANGUAGE_CODES[OWN_LANGUAGE]


def compact_head(code: int, opaque: int, result: PullResult, suggested: int = MASTER_ID) -> bytes:
    """A reply with a compact header up to its body, made from pieces as that with a JSON header is."""
    remark = result.status.name.encode()
    following, low, high = b"%d" % result.next_offset, b"%d" % result.min_offset, b"%d" % result.max_offset
    replica = b"%d" % suggested
    ext = _COMPACT_EXT % (
        *(_pack_int(len(replica)), replica),
        *(_pack_int(len(following)), following),
        *(_pack_int(len(low)), low),
        *(_pack_int(len(high)), high),
    )
    size = 21 + len(remark) + len(ext)
    fields = _compact_fields(4 + size + result.size, 1 << 24 | size, code, _LANGUAGE, VERSION, opaque, 1, len(remark))
    return b"%b%b%b%b" % (fields, remark, _pack_int(len(ext)), ext)
