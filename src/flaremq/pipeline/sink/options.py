"""Options of the sink, read and checked on the driver before a job starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flaremq.client.options import ProducerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.topics import validate_topic
from flaremq.options import find_unknown_names, rows, values_from_properties
from flaremq.storage.options import StoreOptions

# Spark hands these to every sink; they are not about us.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname", "outputmode", "trigger"))
OWN: Final = (
    "path",
    "nameServer",
    "topic",
    "writeId",
    "producerGroup",
    "queues",
    "reservedProperties",
    "onDoubt",
    "requestBytes",
    "requestsInFlight",
    "retryTimeoutMs",
)
_CLIENT: Final = tuple(
    row.key
    for row in rows(ProducerOptions)
    if row.field_name
    not in ("auto_batch", "send_window", "compress_type", "compress_msg_body_over_howmuch", "max_message_size")
)
_STORE: Final = tuple(row.key for row in rows(StoreOptions) if row.key not in ("storePathRootDir",))
_REQUEST_TIMEOUT_MS: Final = "15000"  # a broker that flushes a megabyte to a slow disk needs more than a producer's 3 s


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a write was told; picklable. Exactly one of ``name_server`` and ``path`` is set."""

    name_server: str | None = None
    path: str | None = None
    topic: str | None = None
    write_id: str | None = None
    producer_group: str = "flaremq-spark"
    queues: int = 4
    drop_reserved: bool = False
    sends_in_doubt: bool = False
    checkpoint: str | None = None  # of the query, where Spark tells it
    max_message_size: int = 4 << 20
    request_bytes: int = 512 << 10
    requests_in_flight: int = 4
    retry_timeout_ms: int = 60_000
    client: Mapping[str, str] = field(default_factory=dict)
    store: Mapping[str, str] = field(default_factory=dict)

    @property
    def delay_level_max(self) -> int:
        """The last delay level: of the store's own table if one is given, else of RocketMQ's."""
        return parse_delay_levels(self.store.get("messageDelayLevel", DEFAULT_DELAY_LEVELS)).level_max

    def producer_options(self) -> ProducerOptions:
        given = {"sendMsgTimeout": _REQUEST_TIMEOUT_MS, "defaultTopicQueueNums": str(self.queues), **self.client}
        return ProducerOptions(**values_from_properties(ProducerOptions, given))  # type: ignore[arg-type]


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write; InvalidArgumentError says which is wrong and why."""
    known = {name.lower(): name for name in (*_STORE, *_CLIENT, "maxMessageSize", *OWN)}
    given: dict[str, str] = {}
    checkpoint = None
    for name, text in options.items():
        if name.lower() in _OF_SPARK:
            checkpoint = str(text) if name.lower() == "checkpointlocation" else checkpoint
            continue
        spelled = known.get(name.lower())
        if spelled is None:
            unknown = find_unknown_names([name], known.values())[0]
            raise InvalidArgumentError(f"{unknown} (options of the sink are {', '.join(OWN)}, …)")
        given[spelled] = str(text)
    path, name_server = given.get("path"), given.get("nameServer")
    if (path is None) == (name_server is None):
        what = "both" if path is not None else "neither"
        raise InvalidArgumentError(
            f"{what} of the options nameServer and path given: rows are written either over the wire (nameServer, like "
            "127.0.0.1:9876) or into a store that no broker has open (path, its directory)"
        )
    misplaced = [name for name in given if name not in OWN and name in (_STORE if path is None else _CLIENT)]
    misplaced = [name for name in misplaced if not (name in _STORE and name in _CLIENT) and name != "maxMessageSize"]
    if misplaced:
        raise InvalidArgumentError(
            f"option {misplaced[0]} belongs to {'path' if path is None else 'nameServer'}, which is not given"
        )
    if path is not None:
        path = _checked_path(path)
    topic = given.get("topic")
    if topic is not None:
        validate_topic(topic)
    write_id = given.get("writeId")
    if write_id is not None and not 1 <= len(write_id) <= 255:
        raise InvalidArgumentError(f"writeId has {len(write_id)} characters, 1 to 255 are allowed")
    reserved = given.get("reservedProperties", "fail")
    if reserved not in ("fail", "drop"):
        raise InvalidArgumentError(f"reservedProperties is fail or drop, not {reserved!r}")
    on_doubt = given.get("onDoubt", "fail")
    if on_doubt not in ("fail", "send"):
        raise InvalidArgumentError(f"onDoubt is fail or send, not {on_doubt!r}")
    size_max = _number(given, "maxMessageSize", 4 << 20, 1, 1 << 30)
    parsed = SinkOptions(
        name_server=name_server,
        path=path,
        topic=topic,
        write_id=write_id,
        producer_group=given.get("producerGroup", "flaremq-spark"),
        queues=_number(given, "queues", 4, 1, 65_536),
        drop_reserved=reserved == "drop",
        sends_in_doubt=on_doubt == "send",
        checkpoint=checkpoint,
        max_message_size=size_max,
        request_bytes=min(_number(given, "requestBytes", 512 << 10, 1 << 10, 1 << 26), size_max),
        requests_in_flight=_number(given, "requestsInFlight", 4, 1, 256),
        retry_timeout_ms=_number(given, "retryTimeoutMs", 60_000, 0, 86_400_000),
        client={name: text for name, text in given.items() if name in _CLIENT} if path is None else {},
        store={name: text for name, text in given.items() if name in _STORE} if path is not None else {},
    )
    if path is None:
        parsed.producer_options()
    else:
        StoreOptions.from_properties(parsed.store)
    return parsed


def _checked_path(path: str) -> str:
    if "," in path:
        raise InvalidArgumentError(f"path {path!r} names several stores; rows are written into one")
    if path.startswith("file:"):
        path = path.removeprefix("file:").replace("//", "/", 1) if path.startswith("file:///") else path[5:]
    if "://" in path:
        raise InvalidArgumentError(f"path {path!r}: a store is a directory of a file system, not an address")
    return os.path.abspath(path)


def _number(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise InvalidArgumentError(f"option {name} is a whole number, not {text!r}") from None
    if not low <= value <= high:
        raise InvalidArgumentError(f"option {name} is {value}, allowed are {low} to {high}")
    return value
