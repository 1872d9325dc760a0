"""Catalog: the tables that nearly every request looks at, as one collaborator."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.topics import TopicTable


@dataclass(frozen=True, slots=True)
class Catalog:
    """Topics, subscription groups and how far the groups have come. Event loop only."""

    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
