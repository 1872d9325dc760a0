"""What brokers copy from each other, and the state of that copying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flaremq.java_json import integer_keyed
from flaremq.protocol.bodies.bean import Bean, row
from flaremq.protocol.bodies.bean_rows import (
    bean,
    beans,
    flag,
    integer,
    integer_long_table,
    integer_table_reader,
    long,
    maybe_bean,
    maybe_long,
    maybe_text,
    read_long,
    table_reader,
    text,
    write_bean_table,
)
from flaremq.protocol.bodies.queue import SetMessageRequestModeRequestBody
from flaremq.protocol.bodies.topic import DataVersion


def _write_offset_table(table: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    return {key: integer_keyed(offsets) for key, offsets in table.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOffsetSerializeWrapper(Bean):
    """All offsets, keyed ``topic@group`` and queue: consumerOffset.json and GET_ALL_CONSUMER_OFFSET."""

    offset_table: dict[str, dict[int, int]] = row(
        None, table_reader(integer_table_reader(read_long)), _write_offset_table, make=dict
    )
    data_version: DataVersion | None = maybe_bean(DataVersion)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayOffsetSerializeWrapper(Bean):
    """Offsets by delay level: delayOffset.json and GET_ALL_DELAY_OFFSET."""

    offset_table: dict[int, int] = integer_long_table()
    data_version: DataVersion | None = maybe_bean(DataVersion)


def _write_modes(table: Mapping[str, Mapping[str, SetMessageRequestModeRequestBody]]) -> dict[str, Any]:
    return {topic: write_bean_table(groups) for topic, groups in table.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequestModeSerializeWrapper(Bean):
    """GET_ALL_MESSAGE_REQUEST_MODE: how each group reads each topic, by topic and group."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = row(
        None, table_reader(table_reader(SetMessageRequestModeRequestBody.from_value)), _write_modes, make=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HAClientRuntimeInfo(Bean):
    """A slave's side of replication."""

    master_addr: str | None = maybe_text()
    transferred_byte_in_second: int = long()
    max_offset: int = long()
    last_read_timestamp: int = long()
    last_write_timestamp: int = long()
    master_flush_offset: int = long()
    failure: str | None = maybe_text()  # ours: why nothing comes from the master
    store_timestamp: int | None = maybe_long()  # ours: when the master stored the last record that is here


@dataclass(frozen=True, slots=True, kw_only=True)
class HAConnectionRuntimeInfo(Bean):
    """A master's view of one slave."""

    addr: str = text()
    slave_ack_offset: int = long()
    diff: int = long()
    in_sync: bool = flag()
    transferred_byte_in_second: int = long()
    transfer_from_where: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class HARuntimeInfo(Bean):
    """GET_BROKER_HA_STATUS."""

    master: bool = flag()
    master_commit_log_max_offset: int = long()
    in_sync_slave_nums: int = integer()
    ha_connection_info: tuple[HAConnectionRuntimeInfo, ...] = beans(HAConnectionRuntimeInfo)
    ha_client_runtime_info: HAClientRuntimeInfo = bean(HAClientRuntimeInfo)
    alarm: str | None = maybe_text()  # ours: what an operator should know
