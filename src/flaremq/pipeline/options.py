"""What can be set about a scan: :class:`ScanOptions`, one row an option, for Spark and ``flaremq.scan`` alike.

Spark hands options over as text and forgets the case of names, so names are compared without it. A name that nobody
knows is refused: Spark would drop it in silence, and the scan would read something else than was meant.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.compression import INFLATED_SIZE_MAX
from flaremq.message.tags import split_tags
from flaremq.options import (
    OptionRow,
    OptionValue,
    check_values,
    find_unknown_names,
    option,
    rows,
    rows_by_key,
    value_text,
    values_from_properties,
)
from flaremq.pipeline.bodies.columns import ScanColumns, scan_columns
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.format import FORMATS, MODES, PERMISSIVE, RAW, BodyFormat, make_format
from flaremq.pipeline.model.by_queue import ASSIGN_FORM, TIMES_FORM, ByQueue, parse_assign, parse_times, times_text
from flaremq.pipeline.model.object_settings import is_object_secret, is_object_setting, object_settings
from flaremq.pipeline.model.source import ReadRequest, TopicSelector, WireOptions
from flaremq.storage.arrow.bodies import AS_NULL, BAD_BODIES, BodyRule
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.times import UNITS_MS, parse_moment

if TYPE_CHECKING:
    import pyarrow as pa

NO_TIME: Final = -1
_TIME_FORM: Final = "a time: milliseconds since 1970, an ISO date and time, or 2h for so long ago"
_PAUSE_FORM: Final = "milliseconds, or a number with a unit as in 500ms, 30s, 15m, 2h"
_PAUSE = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)")
LONG_MAX: Final = 2**63 - 1
DEFAULT_PARTITION_BYTES: Final = 128 << 20

# Options of the store that say how its files lie; whatever else a broker.conf may hold does not concern a reader.
GEOMETRY: Final = (
    "storePathCommitLog",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
)

# Spellings of Spark's Kafka source and of RocketMQ's own configuration that can only mean one thing here.
ALIASES: Final = {
    "subscribe": "topic",
    "topics": "topic",
    "namesrvAddr": "nameServer",
    "group": "consumerGroup",
    "kafka.group.id": "consumerGroup",
    "tags": "subExpression",
    "key": "keys",
}

# What Spark itself adds to the options of a reader: load([...]), tables of a catalog, streams.
_OF_SPARK: Final = frozenset(
    ("paths", "checkpointlocation", "queryname", "provider", "serialization.format", "owner", "location")
)
# What else Spark's Kafka source has, and what is to be said about it.
_OF_KAFKA: Final = {
    "kafka.bootstrap.servers": "name servers are given as nameServer, host:port joined by ;",
    "includeheaders": "headers are the column properties, which is always there",
    "startingoffsetsbytimestampstrategy": "a time behind the last message is the end of its queue",
    "kafkaconsumer.polltimeoutms": "see fetchRetryMs",
    "fetchoffset.numretries": "see fetchRetryMs",
    "fetchoffset.retryintervalms": "see fetchRetryMs",
}
_LIST_SEPARATOR = re.compile(r"\s*,\s*")
# Empty, these would mean everything, which is the opposite of what an empty list says.
_NOT_EMPTY: Final = ("topic", "subscribePattern", "assign", "keys", "columns")
# What only an expression over properties has: SQL92, which RocketMQ takes as subExpression too, and nobody as a tag.
_SQL92 = re.compile(r"[=<>()'\"]|\s(and|or|is|between|in|not|contains|startswith|endswith)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Where the messages are, which of them, and in what portions. Immutable; unset text is empty."""

    # fmt: off
    path: str = option(
        "", flaremq="path", affects="behaviour",
        doc="Store directory, which every executor must see; several as `name=/dir,name=/dir`.")
    name_server: str = option(
        "", flaremq="nameServer", affects="behaviour",
        doc="Name servers to read a cluster through, `host:port` joined by `;`; instead of `path`.")
    archive: str = option(
        "", flaremq="archive", affects="behaviour",
        doc="Directory of an archive; with `path` or `nameServer` one table over both, alone the archive.")
    broker_name: str = option(
        "", flaremq="brokerName", affects="behaviour",
        doc="Name of the broker whose store `path` is; otherwise what the store says, or the directory's name.")
    topic: str = option(
        "", flaremq="topic", affects="behaviour", doc="Topics, joined by commas; otherwise all but system topics.")
    subscribe_pattern: str = option(
        "", flaremq="subscribePattern", affects="behaviour",
        doc="Regular expression that a topic's whole name must match; instead of `topic`.")
    assign: str = option(
        "", flaremq="assign", affects="behaviour", form=ASSIGN_FORM,
        doc="Single queues instead of whole topics: JSON `{topic: [queue, …]}` for these numbers on every broker, or "
            "`{topic: {broker: [queue, …]}}`.")
    starting_offsets: str = option(
        "", flaremq="startingOffsets", affects="behaviour",
        doc="`earliest`, `latest` or JSON `{topic: {broker: {queue: offset}}}` with -2 for earliest and -1 for latest; "
            "queues not named start at their earliest. A batch starts at earliest, a stream at latest.")
    ending_offsets: str = option(
        "", flaremq="endingOffsets", affects="behaviour",
        doc="Where a batch ends, offset excluded: `latest` or JSON as above; queues not named are read to their end.")
    starting_timestamp: int = option(
        NO_TIME, flaremq="startingTimestamp", affects="behaviour", minimum=NO_TIME, maximum=LONG_MAX, form=_TIME_FORM,
        doc="Messages stored then or later: milliseconds since 1970, an ISO date and time (of the driver's zone unless "
            "it names one), or `2h` for so long ago. Instead of `startingOffsets`.")
    ending_timestamp: int = option(
        NO_TIME, flaremq="endingTimestamp", affects="behaviour", minimum=NO_TIME, maximum=LONG_MAX, form=_TIME_FORM,
        doc="Messages of a batch stored before, in the same forms. Instead of `endingOffsets`.")
    starting_offsets_by_timestamp: str = option(
        "", flaremq="startingOffsetsByTimestamp", affects="behaviour", form=TIMES_FORM,
        doc="Times by queue, in the forms of `startingTimestamp`: JSON `{topic: {queue: time}}`, with the broker as in "
            "`startingOffsets` or without, or `{topic: time}`. Queues not named start at their earliest.")
    ending_offsets_by_timestamp: str = option(
        "", flaremq="endingOffsetsByTimestamp", affects="behaviour", form=TIMES_FORM,
        doc="Where a batch ends, in the same form. Queues not named are read to their end.")
    sub_expression: str = option(
        "*", flaremq="subExpression", affects="behaviour", doc="Tags, `A || B`; `*` means all messages.")
    keys: str = option(
        "", flaremq="keys", affects="behaviour",
        doc="Business keys, joined by commas, found through the index. Batches only.")
    columns: str = option(
        "", flaremq="columns", affects="speed",
        doc="Columns wanted, joined by commas: what is not named is not read, not decoded, not sent.")
    push_filters: bool = option(
        False, flaremq="pushFilters", affects="speed",
        doc="Where Spark's flag for it is on, filters of the DataFrame decide what is read. Only for a DataFrame that "
            "is queried once: see Filters.")
    consumer_group: str = option(
        "", flaremq="consumerGroup", affects="behaviour",
        doc="A stream reports its progress under this group after each batch, so its lag shows in admin tools.")
    group_id_prefix: str = option(
        "", flaremq="groupIdPrefix", affects="behaviour",
        doc="Instead of `consumerGroup`: the group is this, a hyphen, and what is read: the topic, or of several a "
            "name made of them all. The same choice has the same group after a restart.")
    commit_name_server: str = option(
        "", flaremq="commitNameServer", affects="behaviour",
        doc="Name servers of the live broker that keeps the group's progress while the messages come from `path`.")
    fail_on_data_loss: bool = option(
        True, flaremq="failOnDataLoss", affects="behaviour",
        doc="Whether messages that are wanted and gone, or damaged, are an error; otherwise a warning.")
    bad_bodies: str = option(
        AS_NULL, flaremq="badBodies", affects="behaviour", choices=BAD_BODIES,
        doc="What a body becomes that says it is compressed and cannot be inflated: `null`, `raw` (as it is stored) or "
            "`fail` (an error). The column `bodyError`, if it is named, says why.")
    max_inflated_bytes: int = option(
        INFLATED_SIZE_MAX, flaremq="maxInflatedBytes", affects="behaviour", minimum=1,
        doc="Bytes that a compressed body may inflate to; more counts as a body that cannot be inflated.")
    body_format: str = option(
        RAW, flaremq="bodyFormat", affects="behaviour", choices=FORMATS,
        doc="What bodies are: with `json`, `avro` or `protobuf` their fields are columns. See bodies.md.")
    body_schema: str = option(
        "", flaremq="bodySchema", affects="behaviour",
        doc="Fields of bodies: for JSON as Spark writes them, `id string, amount double`; for Avro its schema or a "
            "file with it; for Protobuf the file of a descriptor set.")
    body_message: str = option(
        "", flaremq="bodyMessage", affects="behaviour", doc="Full name of the Protobuf message that bodies are.")
    body_mode: str = option(
        PERMISSIVE, flaremq="bodyMode", affects="behaviour", choices=MODES,
        doc="What becomes of a body that does not fit: a row with what could be read and the body in `_corrupt_body`, "
            "no row, or an error.")
    body_prefix: str = option(
        "", flaremq="bodyPrefix", affects="behaviour",
        doc="Put before the names of body fields, where they have names of other columns.")
    body_time_zone: str = option(
        "UTC", flaremq="bodyTimeZone", affects="behaviour", doc="Zone of times in bodies that name none.")
    property_columns: str = option(
        "", flaremq="propertyColumns", affects="behaviour",
        doc="Properties as columns, joined by commas: `traceparent,x-tenant as tenant`.")
    max_offsets_per_trigger: int = option(
        0, flaremq="maxOffsetsPerTrigger", affects="behaviour", maximum=LONG_MAX,
        doc="Messages of a stream's batch at most, shared out by what waits in each queue; 0 means no limit.")
    max_bytes_per_trigger: int = option(
        0, flaremq="maxBytesPerTrigger", affects="behaviour", maximum=LONG_MAX,
        doc="The same in bytes of stored records; at least one message is read.")
    min_offsets_per_trigger: int = option(
        0, flaremq="minOffsetsPerTrigger", affects="behaviour", maximum=LONG_MAX,
        doc="A stream waits until so many messages are there, at most for `maxTriggerDelay`.")
    max_trigger_delay: int = option(
        900_000, flaremq="maxTriggerDelay", affects="behaviour", form=_PAUSE_FORM,
        doc="Milliseconds that `minOffsetsPerTrigger` waits, or `15m`.")
    parquet_path: str = option(
        "", flaremq="parquetPath", affects="speed",
        doc="Directory, which every executor must see: a stream's tasks write their messages there as Parquet files "
            "themselves, and the rows of the stream are those files. See Streams.")
    min_partitions: int = option(
        0, flaremq="minPartitions", affects="speed", doc="Partitions at least, if there are as many messages.")
    max_records_per_partition: int = option(
        0, flaremq="maxRecordsPerPartition", affects="speed", maximum=LONG_MAX,
        doc="Messages of a partition at most; 0 means no limit.")
    max_bytes_per_partition: int = option(
        DEFAULT_PARTITION_BYTES, flaremq="maxBytesPerPartition", affects="speed", minimum=1, maximum=LONG_MAX,
        doc="Bytes of stored records that a partition should hold, about.")
    fetch_retry_ms: int = option(
        30_000, flaremq="fetchRetryMs", affects="behaviour",
        doc="Milliseconds a read over `nameServer` goes on trying while a broker does not answer.")
    fetch_bytes_in_flight: int = option(
        32 << 20, flaremq="fetchBytesInFlight", affects="speed", minimum=1 << 20,
        doc="Bytes of answers that a task reading over `nameServer` has on their way at most.")
    # fmt: on
    geometry: Mapping[str, str] = field(default_factory=dict)  # of the store, by RocketMQ's names
    client: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the wire client; secrets among them
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)  # fs.s3a.…: how object stores are reached

    def __post_init__(self) -> None:
        check_values(self)
        _check_place(self)
        _check_range(self)
        choices = {"topic": self.topic, "subscribePattern": self.subscribe_pattern, "assign": self.assign}
        given = [name for name, value in choices.items() if value]
        if len(given) > 1:
            raise InvalidArgumentError(f"both {given[0]} and {given[1]} are given; keep one of them")
        if self.consumer_group and self.group_id_prefix:
            raise InvalidArgumentError("both consumerGroup and groupIdPrefix are given; keep one of them")
        _ = self.starting_times, self.ending_times
        _ = self.selector  # refuses a wrong pattern
        _ = self.body  # refuses a schema without a format
        _ = self.wire  # refuses half an account
        if _SQL92.search(self.sub_expression):
            raise InvalidArgumentError(
                f"subExpression {self.sub_expression!r} looks like SQL92; only tags are taken, as in A || B: filter by "
                "properties with where() on what is read"
            )
        folded = [name.lower() for name in self.column_names or ()]
        for name in self.column_names or ():
            if folded.count(name.lower()) > 1:
                raise InvalidArgumentError(f"column {name!r} is named twice in columns")

    @property
    def wire(self) -> WireOptions:
        """How a cluster is read."""
        client = ClientOptions(**values_from_properties(ClientOptions, self.client))  # type: ignore[arg-type]  # by row
        return WireOptions(client, self.group, self.fetch_retry_ms, self.fetch_bytes_in_flight)

    @property
    def selector(self) -> TopicSelector:
        if self.assign:
            queues = parse_assign(self.assign, what="assign")
            return TopicSelector(names=queues.topics, queues=queues)
        return TopicSelector(names=split_list(self.topic), pattern=self.subscribe_pattern or None)

    @property
    def names_topics(self) -> bool:
        """Whether these are not simply all."""
        return bool(self.topic or self.subscribe_pattern or self.assign)

    @property
    def group(self) -> str:
        """The group a stream reports its progress under; empty if none."""
        if not self.group_id_prefix:
            return self.consumer_group
        chosen = self.selector
        if len(chosen.names) == 1 and chosen.queues is None:
            return f"{self.group_id_prefix}-{chosen.names[0]}"
        text = self.assign or self.subscribe_pattern or ",".join(sorted(chosen.names))
        return f"{self.group_id_prefix}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def starting_times(self) -> ByQueue[int] | None:
        return _times(self.starting_offsets_by_timestamp, "startingOffsetsByTimestamp")

    @property
    def ending_times(self) -> ByQueue[int] | None:
        return _times(self.ending_offsets_by_timestamp, "endingOffsetsByTimestamp")

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """As they were spelled; ``columns.schema_of`` knows the real names."""
        return split_list(self.columns) or None

    @property
    def body(self) -> BodyFormat:
        """What bodies are; a file with their schema is read now."""
        return make_format(
            self.body_format,
            self.body_schema,
            self.body_message,
            mode=self.body_mode,
            zone=self.body_time_zone,
            prefix=self.body_prefix,
        )

    @property
    def scan_columns(self) -> ScanColumns:
        """Every column there is."""
        form = self.body
        return scan_columns(None if form.is_raw else BodyDecoder(form), split_list(self.property_columns))

    @property
    def body_rule(self) -> BodyRule:
        return BodyRule(self.bad_bodies, self.max_inflated_bytes)

    @property
    def key_list(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split_list(self.keys)))

    @property
    def tags(self) -> frozenset[str]:
        """The tags wanted; none means all messages."""
        return frozenset(split_tags(self.sub_expression))


def parse_options(given: Mapping[str, str]) -> ScanOptions:
    """The options of a reader as Spark hands them over."""
    from flaremq.storage.options import StoreOptions  # takes 10 ms to load, and tasks get their options parsed

    own, of_client, of_store = rows_by_key(ScanOptions), rows_by_key(ClientOptions), rows_by_key(StoreOptions)
    values: dict[str, Any] = {}
    geometry: dict[str, str] = {}
    client: dict[str, str] = {}
    objects = object_settings(given)
    plain = {name: text for name, text in given.items() if not is_object_setting(name)}
    for key, (name, text) in spelled_options(plain, _known_names(), _OF_SPARK).items():
        if key in _NOT_EMPTY and not split_list(text):
            raise InvalidArgumentError(f"{name} is empty: leave the option out to read all")
        if key in GEOMETRY:
            checked_value(of_store[key], text)
            geometry[key] = text.strip()
        elif key in of_client:
            checked_value(of_client[key], text)
            client[key] = text.strip()
        else:
            row = own[key]
            values[row.field_name] = checked_value(row, _plain_text(row, text))
    paths = next((text for name, text in given.items() if name.lower() == "paths"), None)
    if paths is not None and "path" not in values:
        values["path"] = _joined_paths(paths)
    return ScanOptions(**values, geometry=geometry, client=client, objects=objects)


def is_secret(name: str) -> bool:
    """Whether an option, in whatever case, is one that nobody may be shown."""
    return is_object_secret(name) or any(row.secret and row.key.lower() == name.lower() for row in rows(ClientOptions))


def spelled_options(
    given: Mapping[str, str], known: Mapping[str, str], of_spark: Collection[str], hint: str = ""
) -> dict[str, tuple[str, str]]:
    """What was given of the ``known`` options (by folded name): under the right name the one that was used, and the
    text. Spark's own are left out; a name that nobody knows is refused, and two for the same option."""
    found: dict[str, tuple[str, str]] = {}
    for name, text in given.items():
        folded = name.lower()
        if folded in of_spark or folded.startswith(("__", "spark.")):
            continue
        key = known.get(folded)
        if key is None and (said := _OF_KAFKA.get(folded)):
            raise InvalidArgumentError(f"option {name} is one of Kafka's: {said} (docs/from-spark-sql-kafka.md)")
        if key is None:
            raise InvalidArgumentError(f"{find_unknown_names([name], known.values())[0]}{hint}")
        if key in found:
            raise InvalidArgumentError(f"options {found[key][0]} and {name} mean the same; keep one of them")
        found[key] = name, text
    return found


def checked_value(row: OptionRow, text: str) -> OptionValue:
    """The value of an option, if its row allows it."""
    value = row.parse(text)
    row.check(value)
    return value


def index_geometry(given: Mapping[str, str]) -> IndexGeometry | None:
    """The slots and entries of index files among options of a store; None if neither is given: the files show them."""
    sizes = {name: given[name] for name in ("maxHashSlotNum", "maxIndexNum") if name in given}
    if not sizes:
        return None
    from flaremq.storage.options import StoreOptions

    options = StoreOptions.from_properties(sizes)
    return IndexGeometry(options.max_hash_slot_num, options.max_index_num)


def read_request(options: ScanOptions, schema: pa.Schema) -> ReadRequest:
    """What the options ask of each message."""
    return ReadRequest(
        schema,
        tags=options.tags,
        fail_on_data_loss=options.fail_on_data_loss,
        bodies=options.body_rule,
        shape=options.scan_columns.shape(schema),
    )


def option_rows() -> tuple[OptionRow, ...]:
    """Every option of a reader, for the documentation and its test."""
    return rows(ScanOptions)


def option_table() -> str:
    """The rows as the table of docs/spark-reference.md."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for row in option_rows():
        default = "–" if row.default in ("", NO_TIME) else f"`{value_text(row.default)}`"
        lines.append(f"| `{row.key}` | {default} | " + row.doc.replace("|", "\\|") + " |")
    return "\n".join(lines) + "\n"


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a comma list, without blanks around them, without empty ones."""
    return tuple(part for part in _LIST_SEPARATOR.split(text.strip()) if part)


def _known_names() -> dict[str, str]:
    keys = [row.key for row in (*rows(ScanOptions), *rows(ClientOptions))] + list(GEOMETRY)
    return {key.lower(): key for key in keys} | {alias.lower(): key for alias, key in ALIASES.items()}


def _plain_text(row: OptionRow, text: str) -> str:
    """Times in any of their forms as milliseconds; what cannot be read is left for the row to refuse."""
    if row.form == TIMES_FORM:
        times = _times(text, row.key)
        return text if times is None else times_text(times)
    try:
        if row.form == _TIME_FORM:
            return str(_moment(text))
        if row.form == _PAUSE_FORM and (pause := _PAUSE.fullmatch(text.strip())):
            return str(int(pause[1]) * UNITS_MS[pause[2]])
    except ValueError:
        pass
    return text


def _moment(text: str) -> int:
    return parse_moment(text, int(time.time() * 1000))


def _times(text: str, what: str) -> ByQueue[int] | None:
    return parse_times(text, _moment, what=what) if text.strip() else None


def _joined_paths(text: str) -> str:
    """``load([a, b])``: Spark hands it over as a JSON list."""
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InvalidArgumentError(f"option paths={text!r} is not a JSON list of paths")
    return ",".join(paths)


def _check_place(options: ScanOptions) -> None:
    if options.path and options.name_server:
        raise InvalidArgumentError(
            f"both path ({options.path}) and nameServer ({options.name_server}) are given; keep one of them"
        )
    if not (options.path or options.name_server or options.archive):
        raise InvalidArgumentError(
            "neither path nor nameServer is given: set path to a store directory, or nameServer to host:port"
        )
    if "://" in options.parquet_path:
        raise InvalidArgumentError(
            f"parquetPath {options.parquet_path} is no directory: files are replaced whole, which only a file system "
            "can do; flaremq pipeline archive writes to object stores"
        )
    if options.commit_name_server and not options.group:
        raise InvalidArgumentError("commitNameServer is given without consumerGroup, whose progress it would keep")


def _check_range(options: ScanOptions) -> None:
    for end in ("starting", "ending"):
        said = {
            f"{end}Offsets": getattr(options, f"{end}_offsets"),
            f"{end}Timestamp": getattr(options, f"{end}_timestamp") != NO_TIME,
            f"{end}OffsetsByTimestamp": getattr(options, f"{end}_offsets_by_timestamp"),
        }
        given = [name for name, value in said.items() if value]
        if len(given) > 1:
            raise InvalidArgumentError(f"both {given[0]} and {given[1]} are given; keep one of them")
    start, end_ms = options.starting_timestamp, options.ending_timestamp
    if start != NO_TIME and end_ms != NO_TIME and end_ms < start:
        raise InvalidArgumentError(f"endingTimestamp {end_ms} is before startingTimestamp {start}")
