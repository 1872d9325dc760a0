"""Options of the sink, read and checked on the driver before a job starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flaremq.client.options import ProducerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.topics import validate_topic
from flaremq.options import option, rows, rows_by_key, values_from_properties
from flaremq.pipeline.bodies.encoding.encoder import BodyEncoder
from flaremq.pipeline.bodies.format import OPTIONS as BODY_OPTIONS
from flaremq.pipeline.bodies.format import BodyFormat, body_format
from flaremq.pipeline.model.columns import ALL_NAMES
from flaremq.pipeline.options import checked_value, spelled_options
from flaremq.pipeline.sink.names import WRITABLE
from flaremq.pipeline.sink.rows import RowRules
from flaremq.storage.options import StoreOptions

# Spark hands these to every sink; they are not about us.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname", "outputmode", "trigger"))
_CLIENT: Final = rows_by_key(ProducerOptions).keys() - {
    "autoBatch", "sendWindow", "compressType", "compressMsgBodyOverHowmuch", "maxMessageSize"
}  # fmt: skip
_STORE: Final = rows_by_key(StoreOptions).keys() - {"storePathRootDir"}
_REQUEST_TIMEOUT_MS: Final = "15000"  # a broker that flushes a megabyte to a slow disk needs more than a producer's 3 s


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a write was told; picklable. Unset text is empty; exactly one of ``name_server`` and ``path`` is set."""

    # fmt: off
    name_server: str = option(
        "", flaremq="nameServer", affects="behaviour", doc="Name servers of the cluster that rows are sent to.")
    path: str = option(
        "", flaremq="path", affects="behaviour", doc="Directory of the closed store that rows are written into.")
    topic: str = option("", flaremq="topic", affects="behaviour", doc="Topic of rows without one.")
    write_id: str = option(
        "", flaremq="writeId", affects="behaviour", pattern=r"(?s).{0,255}", form="1 to 255 characters",
        doc="A name for a write: run again under the same name it stores only what is missing.")
    producer_group: str = option(
        "flaremq-spark", flaremq="producerGroup", affects="behaviour", doc="The name brokers see.")
    queues: int = option(
        4, flaremq="queues", affects="behaviour", minimum=1, maximum=65_536,
        doc="Queues of a topic that does not exist yet, and those that rows with an `orderKey` go to.")
    reserved_properties: str = option(
        "fail", flaremq="reservedProperties", affects="behaviour", choices=("fail", "drop"),
        doc="What becomes of a row with a property that is RocketMQ's own.")
    on_doubt: str = option(
        "fail", flaremq="onDoubt", affects="behaviour", choices=("fail", "send"),
        doc="What is done with rows where it cannot be told which are stored already.")
    max_message_size: int = option(
        4 << 20, rocketmq="maxMessageSize", affects="behaviour", minimum=1, maximum=1 << 30,
        doc="Bytes of a message at most, with its properties.")
    request_bytes: int = option(
        512 << 10, flaremq="requestBytes", affects="speed", minimum=1 << 10, maximum=1 << 26,
        doc="Bytes of messages that travel together.")
    requests_in_flight: int = option(
        4, flaremq="requestsInFlight", affects="speed", minimum=1, maximum=256,
        doc="Requests on their way at a time, for each partition and topic.")
    retry_timeout_ms: int = option(
        60_000, flaremq="retryTimeoutMs", affects="behaviour", maximum=86_400_000,
        doc="Milliseconds a task goes on trying while brokers take nothing.")
    # fmt: on
    body: BodyFormat = field(default_factory=BodyFormat)  # what columns are made into bodies, and how
    checkpoint: str = ""  # of the query, where Spark tells it
    client: Mapping[str, str] = field(default_factory=dict, repr=False)  # secrets among them
    store: Mapping[str, str] = field(default_factory=dict)

    @property
    def sends_in_doubt(self) -> bool:
        return self.on_doubt == "send"

    @property
    def row_rules(self) -> RowRules:
        """What is asked of rows; delay levels are those of the store's own table if one is given, else RocketMQ's."""
        levels = parse_delay_levels(self.store.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
        return RowRules(
            self.topic,
            self.max_message_size,
            self.reserved_properties == "drop",
            levels.level_max,
            self.queues,
            self.encoder,
        )

    @property
    def encoder(self) -> BodyEncoder | None:
        """What makes bodies of columns; None where rows have bodies."""
        return None if self.body.is_raw else BodyEncoder(self.body, (*WRITABLE, *ALL_NAMES))

    def producer_options(self) -> ProducerOptions:
        given = {"sendMsgTimeout": _REQUEST_TIMEOUT_MS, "defaultTopicQueueNums": str(self.queues), **self.client}
        return ProducerOptions(**values_from_properties(ProducerOptions, given))  # type: ignore[arg-type]


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write; InvalidArgumentError says which is wrong and why."""
    own = rows_by_key(SinkOptions)
    names = {name.lower(): name for name in (*_STORE, *_CLIENT, *BODY_OPTIONS, *own)}
    hint = f" (options of the sink are {', '.join(own)}, …)"
    given = {key: str(text) for key, (_, text) in spelled_options(options, names, _OF_SPARK, hint).items()}
    path, name_server = given.get("path"), given.get("nameServer")
    if (path is None) == (name_server is None):
        what = "both" if path is not None else "neither"
        raise InvalidArgumentError(
            f"{what} of the options nameServer and path given: rows are written either over the wire (nameServer, like "
            "127.0.0.1:9876) or into a store that no broker has open (path, its directory)"
        )
    place, known = ("path", _STORE) if path is not None else ("nameServer", _CLIENT)
    for name in given:
        if name not in own and name not in known and name not in BODY_OPTIONS:
            other = "path" if place == "nameServer" else "nameServer"
            raise InvalidArgumentError(f"option {name} belongs to {other}, which is not given")
    values: dict[str, Any] = {
        row.field_name: checked_value(row, given[row.key]) for row in rows(SinkOptions) if row.key in given
    }
    for name in ("path", "nameServer", "topic", "writeId"):
        if given.get(name, name).strip() == "":
            raise InvalidArgumentError(f"{name} is empty: leave the option out, or give one")
    if path is not None:
        values["path"] = _checked_path(values["path"])
    if "topic" in values:
        validate_topic(values["topic"])
    further = {name: text for name, text in given.items() if name in known}
    checkpoint = next((str(text) for name, text in options.items() if name.lower() == "checkpointlocation"), "")
    values["body"] = body_format(given)
    values |= {"checkpoint": checkpoint, "client" if path is None else "store": further}
    parsed = SinkOptions(**values)
    if path is None:
        parsed.producer_options()
    else:
        StoreOptions.from_properties(parsed.store)
    return replace(parsed, request_bytes=min(parsed.request_bytes, parsed.max_message_size))


def _checked_path(path: str) -> str:
    if "," in path:
        raise InvalidArgumentError(f"path {path!r} names several stores; rows are written into one")
    if path.startswith("file:"):
        path = path.removeprefix("file:").replace("//", "/", 1) if path.startswith("file:///") else path[5:]
    if "://" in path:
        raise InvalidArgumentError(f"path {path!r}: a store is a directory of a file system, not an address")
    return os.path.abspath(path)
