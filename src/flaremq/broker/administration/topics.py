"""Administration of topics."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.names import check_topic
from flaremq.broker.catalog.table_saver import Run, run_inline
from flaremq.broker.catalog.topic_attributes import MESSAGE_TYPE, MIXED, changed_attributes, check_attributes
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import PacedTable
from flaremq.message.topics import pop_retry_topic, pop_retry_topic_v2
from flaremq.protocol.bodies.topic import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
)
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
)

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class TopicHandler:
    """Create, change, delete and show topics."""

    _options: BrokerOptions
    _topics: TopicTable
    _offsets: ConsumerOffsets
    _delete_queues: Callable[[str], Awaitable[None]]  # of a topic, so that a new one of its name starts at 0
    _run_long: Run = run_inline  # StoreLoop.run_long: renders whole tables

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.UPDATE_AND_CREATE_TOPIC, self.update)
        table.register(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.update_list)
        table.register(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete)
        table.register(RequestCode.GET_TOPIC_CONFIG, self.get)
        table.register(RequestCode.GET_ALL_TOPIC_CONFIG, self.get_all)
        table.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics)

    async def update(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = CreateTopicRequestHeader.decode(request.ext)
        old = self._topics.find(header.topic)
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        self._check(config)
        attributes = changed_attributes({} if old is None else old.attributes, header.attributes, is_new=old is None)
        self._check_message_type(attributes)
        config = replace(config, attributes=attributes)
        self._topics.update(config)
        _log.info("%s sets topic %s", connection.peer, config.to_value())
        await self._topics.save_changes()
        return RemotingCommand.response()

    async def update_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Several topics, all or none."""
        configs = []
        for config in CreateTopicListRequestBody.from_json(request.body_bytes).topic_config_list:
            old = self._topics.find(config.topic_name)
            self._check(config)
            current = {} if old is None else old.attributes
            attributes = check_attributes(current, config.attributes, is_new=old is None)
            self._check_message_type(attributes)
            configs.append(replace(config, attributes=attributes))
        self._topics.update_all(configs)
        _log.info("%s sets %d topics", connection.peer, len(configs))
        await self._topics.save_changes()
        return RemotingCommand.response()

    async def delete(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Forget a topic with all that hangs on it. Its messages stay in the log until they are old."""
        topic = DeleteTopicRequestHeader.decode(request.ext).topic
        if not topic.strip():
            raise RequestError(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
        self._check_not_system(topic)
        names = [topic]
        if self._options.clear_retry_topic_when_delete_topic:
            for group in sorted(self._offsets.groups_of(topic)):
                both = (pop_retry_topic(group, topic), pop_retry_topic_v2(group, topic))
                names += [name for name in both if self._topics.find(name) is not None]
        for name in names:
            self._topics.delete(name)
            self._offsets.remove_topic(name)
            await self._delete_queues(name)
        _log.info("%s deletes %s", connection.peer, ", ".join(names))
        await self._topics.save_changes()
        await self._offsets.persist_if_changed()
        return RemotingCommand.response()

    def get(self, connection: Connection, request: RemotingCommand) -> Outcome:
        topic = GetTopicConfigRequestHeader.decode(request.ext).topic
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic[:255]}")
        return RemotingCommand.response(body=config.to_json())

    async def get_all(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """All in one reply; a client that could take pages sees that there are none."""
        return RemotingCommand.response(body=await self._run_long(_render, self._topics.wrapper()))

    def system_topics(self, connection: Connection, request: RemotingCommand) -> Outcome:
        return RemotingCommand.response(body=TopicList(topic_list=tuple(self._topics.system_topics())).to_json())

    # What an administrator may ask for

    def _check(self, config: TopicConfig) -> None:
        check_topic(config.topic_name)
        self._check_not_system(config.topic_name)
        most = self._options.queues_per_topic_max
        for count in (config.read_queue_nums, config.write_queue_nums):
            if not 0 <= count <= most:
                raise _invalid(f"a topic has 0 to {most} queues, not {count}")
        if not 0 <= config.perm <= 7:
            raise _invalid(f"perm {config.perm} is no sum of 4 (read), 2 (write) and 1 (inherit)")
        if config.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
            raise _invalid(f"topicFilterType {config.topic_filter_type[:64]!r} is neither SINGLE_TAG nor MULTI_TAG")

    def _check_not_system(self, topic: str) -> None:
        if self._options.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            raise _invalid(f"The topic[{topic}] is conflict with system topic.")

    def _check_message_type(self, attributes: dict[str, str]) -> None:
        if attributes.get(MESSAGE_TYPE) == MIXED and not self._options.enable_mixed_message_type:
            raise _invalid("MIXED message type is not supported.")


def _render(topics: TopicConfigSerializeWrapper) -> bytes:
    """Any thread but the loop's."""
    return replace(topics, topic_config_table=PacedTable(topics.topic_config_table)).to_json()


def _invalid(sentence: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, sentence)
