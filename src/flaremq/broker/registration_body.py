"""What a broker sends when it registers: all its topics, rendered once for each state of them."""

from __future__ import annotations

from dataclasses import replace

import orjson

from flaremq.broker.options import BrokerOptions
from flaremq.broker.topics import TopicTable
from flaremq.java_json import write_java_json
from flaremq.protocol.bodies import (
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)

_READ_WRITE = PERM_READ | PERM_WRITE


class RegistrationBody:
    """The body of REGISTER_BROKER. With thousands of topics and one more, only that one is rendered."""

    def __init__(self, options: BrokerOptions, topics: TopicTable) -> None:
        self._options = options
        self._topics = topics
        self._state: tuple[DataVersion, int] | None = None
        self._body = b""
        self._rendered: dict[str, tuple[TopicConfig, orjson.Fragment]] = {}
        self._rendered_permission = -1

    def render(self) -> bytes:
        """The body for the topics as they are now."""
        permission = self._options.broker_permission
        state = (self._topics.data_version, permission)
        if state != self._state:
            self._body = self._render_packed() if self._options.compressed_register else self._render_plain()
            self._state = state
        return self._body

    def _render_plain(self) -> bytes:
        if self._rendered_permission != self._options.broker_permission:
            self._rendered_permission = self._options.broker_permission
            self._rendered = {}
        previous, self._rendered = self._rendered, {}
        for name, config in self._topics.all().items():
            known = previous.get(name)
            if known is None or known[0] is not config:
                known = (config, orjson.Fragment(self._announced(config).to_json()))
            self._rendered[name] = known
        wrapper = {
            "dataVersion": self._topics.data_version.to_value(),
            "topicConfigTable": {name: fragment for name, (_, fragment) in self._rendered.items()},
        }
        return write_java_json({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    def _render_packed(self) -> bytes:
        """Without attributes: routes do not show them, and a 4.9 name server cannot read topics that have some."""
        table = {name: replace(self._announced(config), attributes={}) for name, config in self._topics.all().items()}
        wrapper = TopicConfigSerializeWrapper(data_version=self._topics.data_version, topic_config_table=table)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode_packed()

    def _announced(self, config: TopicConfig) -> TopicConfig:
        """What others shall know about a topic: a broker that is closed for reads or sends says so for each."""
        permission = self._options.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return config
        return replace(config, perm=config.perm & permission)
