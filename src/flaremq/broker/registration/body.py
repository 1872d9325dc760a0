"""What a broker says about its topics when it registers: all of them, or those a name server does not know yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import orjson

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.java_json import write_java_json
from flaremq.protocol.bodies.register import RegisterBrokerBody
from flaremq.protocol.bodies.topic import (
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)

_READ_WRITE = PERM_READ | PERM_WRITE


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of the topics that a name server was sent. A topic that changed is another object."""

    permission: int
    topics: Mapping[str, TopicConfig]

    def changed_since(self, known: TopicState) -> dict[str, TopicConfig] | None:
        """The topics that are new or different since then; None if all of them have to be sent."""
        if self.permission != known.permission:
            return None
        return {name: config for name, config in self.topics.items() if known.topics.get(name) is not config}


class RegistrationBody:
    """The body of REGISTER_BROKER. With thousands of topics and one more, only that one is rendered."""

    def __init__(self, options: BrokerOptions, topics: TopicTable, epoch: Callable[[], int] = lambda: 0) -> None:
        self._options = options
        self._topics = topics
        self._epoch = epoch  # of the master: a name server keeps the higher one, should an old master still register
        self._rendered: dict[str, tuple[TopicConfig, orjson.Fragment]] = {}
        self._rendered_permission = -1

    def state(self) -> TopicState:
        """The topics as they are now."""
        return TopicState(self._options.broker_permission, self._topics.all())

    def render(self, topics: Mapping[str, TopicConfig]) -> bytes:
        """A body that names these topics."""
        return self._render_packed(topics) if self._options.compressed_register else self._render_plain(topics)

    def _render_plain(self, topics: Mapping[str, TopicConfig]) -> bytes:
        if self._rendered_permission != self._options.broker_permission:
            self._rendered_permission = self._options.broker_permission
            self._rendered.clear()
        table = {name: self._fragment(name, config) for name, config in topics.items()}
        if len(self._rendered) > 2 * len(self._topics):
            self._rendered = {name: self._rendered[name] for name in topics}  # most have been deleted since
        wrapper = {"dataVersion": self._version.to_value(), "topicConfigTable": table}
        return write_java_json({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    def _fragment(self, name: str, config: TopicConfig) -> orjson.Fragment:
        known = self._rendered.get(name)
        if known is None or known[0] is not config:
            known = self._rendered[name] = (config, orjson.Fragment(self._announced(config).to_json()))
        return known[1]

    def _render_packed(self, topics: Mapping[str, TopicConfig]) -> bytes:
        """Without attributes: routes do not show them, and a 4.9 name server cannot read topics that have some."""
        table = {name: replace(self._announced(config), attributes={}) for name, config in topics.items()}
        wrapper = TopicConfigSerializeWrapper(data_version=self._version, topic_config_table=table)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode_packed()

    @property
    def _version(self) -> DataVersion:
        version, epoch = self._topics.data_version, self._epoch()
        return replace(version, state_version=epoch) if epoch else version

    def _announced(self, config: TopicConfig) -> TopicConfig:
        """What others shall know about a topic: a broker that is closed for reads or sends says so for each."""
        permission = self._options.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return config
        return replace(config, perm=config.perm & permission)
