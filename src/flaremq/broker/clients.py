"""The clients that are online, under one roof."""

from __future__ import annotations

from flaremq.broker.client_info import ClientInfo
from flaremq.broker.consumers import ConsumerGroup, ConsumerTable
from flaremq.broker.producers import ProducerTable

__all__ = ["ClientInfo", "ConsumerGroup", "ConsumerTable", "ProducerTable"]
