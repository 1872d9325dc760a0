"""Write the pages of docs/ that are made from the code: ``python docs/generate.py [--check]``.

With ``--check`` nothing is written; the exit code is 1 if a page on disk is not what the code says.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flaremq.access import authority
from flaremq.access.options import AccessOptions
from flaremq.broker.metrics.catalogue import CATALOGUE as BROKER_FAMILIES
from flaremq.broker.options import BrokerOptions
from flaremq.cli.mqadmin.table import ABSENT, COMMANDS, AdminCommand, Flag
from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from flaremq.controller.figures import CATALOGUE as CONTROLLER_FAMILIES
from flaremq.controller.options import ControllerOptions
from flaremq.grpc.guard import NEEDS, SETTINGS_NEEDS
from flaremq.grpc.options import GrpcOptions
from flaremq.metrics.family import Family, Kind, Names
from flaremq.metrics.monitor import SERIES_CUT
from flaremq.metrics.options import ControllerMetricsOptions, MetricsOptions, NamesrvMetricsOptions
from flaremq.metrics.server_monitor import SERVER_FAMILIES
from flaremq.namesrv.figures import CATALOGUE as NAMESRV_FAMILIES
from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import OptionRow, markdown_table, rows
from flaremq.proxy.options import ProxyOptions
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.option_names import IGNORED_BY_ROCKETMQ, NOT_IMPLEMENTED, OTHER_LAYERS
from flaremq.storage.options import StoreOptions

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "src" / "flaremq"

HEAD = """\
# Options

<!-- Written by `make docs` from the rows in src/flaremq/*/options.py; change them there. -->

Names, meaning and defaults are RocketMQ's, so one `broker.conf` serves both; where a default differs, the row says so.
In Python the same option is the snake_case of its name, as in `StoreOptions(mapped_file_size_commit_log=1 << 28)`. A
value that is not allowed is refused, and so is a name that nobody knows.

Options marked **no effect here** are accepted for the sake of existing files; another value than the default gives a
warning at the start.

A broker reads the options of the store, of the broker and of the network from one file (`flaremq broker -c FILE`) or
from `--set KEY=VALUE`; `-p` prints all of them with their values. Those that are **live** can be changed while a server
runs, by `flaremq config set`, `mqadmin updateBrokerConfig` and `updateNamesrvConfig`; the others say why not. A change
is written to the server's file, or beside its state ([operations.md](operations.md#changing-options)).
"""

STORE_SECTIONS = (
    ("behaviour", "What the store does, and what its files look like."),
    ("durability", "What survives a crash, a power cut or a damaged disk, and when."),
    ("speed", "How fast, at no cost to the above."),
)

# title, what to say, options class, class whose options are told elsewhere
LAYERS: tuple[tuple[str, str, type[Any], type[Any] | None], ...] = (
    ("Broker", "What a broker does with messages, topics, groups and clients.", BrokerOptions, StoreOptions),
    (
        "Network",
        "Connections of brokers and name servers. They stand in the same file as the options of the server.",
        RemotingOptions,
        None,
    ),
    (
        "gRPC",
        "The port for clients of RocketMQ 5 in all languages; see [grpc.md](grpc.md). Brokers read them from their own "
        "file, and `flaremq proxy`.",
        GrpcOptions,
        None,
    ),
    (
        "Access control",
        "Who may do what; see [security.md](security.md). Brokers, name servers and controllers read them from their "
        "own file.",
        AccessOptions,
        None,
    ),
    (
        "Metrics of a broker",
        "What it tells Prometheus, and where; see [metrics.md](metrics.md). They stand in the same file.",
        MetricsOptions,
        None,
    ),
    ("Name server", "`flaremq namesrv -c FILE` reads them.", NamesrvOptions, None),
    ("Metrics of a name server", "They stand in the same file.", NamesrvMetricsOptions, None),
    ("Controller", "`flaremq controller -c FILE` reads them.", ControllerOptions, None),
    ("Metrics of a controller", "They stand in the same file.", ControllerMetricsOptions, None),
    (
        "Proxy",
        "`flaremq proxy -c FILE` reads them, and those of gRPC, of the network and of access control.",
        ProxyOptions,
        None,
    ),
    ("Clients", "Arguments of `ClientOptions`; producers and consumers have them too.", ClientOptions, None),
    ("Producer", "Arguments of `ProducerOptions`.", ProducerOptions, ClientOptions),
    ("Consumer", "Arguments of `ConsumerOptions`.", ConsumerOptions, ClientOptions),
)


def options_page() -> str:
    store_rows = rows(StoreOptions)
    parts = [HEAD, "## Store\n"]
    for affects, sentence in STORE_SECTIONS:
        table = markdown_table(row for row in store_rows if row.affects == affects)
        parts.append(f"### {affects.capitalize()}\n\n{sentence}\n\n{table}")
    for title, sentence, kind, base in LAYERS:
        told = {row.key for row in rows(base)} if base is not None else set()
        parts.append(f"## {title}\n\n{sentence}\n\n{markdown_table(row for row in rows(kind) if row.key not in told)}")
    names = "\n".join(f"- {sentence}." for sentence in IGNORED_BY_ROCKETMQ.values())
    server_rows = [*store_rows, *rows(BrokerOptions), *rows(RemotingOptions), *rows(NamesrvOptions)]
    server_rows += [*rows(ControllerOptions), *rows(AccessOptions), *rows(MetricsOptions), *rows(GrpcOptions)]
    server_rows += rows(ProxyOptions)
    parts.append(
        "## Names without a row\n\n"
        f"Ours alone, unknown to RocketMQ and ignored by it: {_own_names(server_rows)}.\n\n"
        f"Accepted by the store and left to other layers of a broker: {len(OTHER_LAYERS)} names, such as `brokerName`, "
        "`namesrvAddr` and `autoCreateTopicEnable`. Of those, a broker warns about the ones that only RocketMQ has.\n\n"
        f"Accepted with a warning, because what they set does not exist here: {len(NOT_IMPLEMENTED)} names "
        "of RocketMQ's store, such as `storeType` and `enableCompaction`.\n\n"
        f"Accepted with a warning, because RocketMQ ignores them too:\n\n{names}\n"
    )
    return "\n".join(parts)


def _own_names(option_rows: Iterable[OptionRow]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(row.key for row in option_rows if not row.is_rocketmq))


MQADMIN_HEAD = """\
# `flaremq mqadmin`

<!-- Written by `make docs` from src/flaremq/cli/mqadmin/table.py; change it there. -->

RocketMQ's own commands with the same names, flags and columns, for those who have them in their fingers and in their
scripts; the layout is that of RocketMQ 5.5. Rows are sorted where the original leaves their order to chance. What goes
wrong is said in one sentence with an [exit code](cli.md), where the original prints a Java stack.

`flaremq mqadmin` alone lists the commands, `flaremq mqadmin help COMMAND` explains one. Names may be written in any
case. Every command takes `-n ADDR` (`--namesrvAddr`, also `--namesrv`), the name servers separated by `;`: by default
`$NAMESRV_ADDR`, else 127.0.0.1:9876.
"""


def mqadmin_page() -> str:
    parts = [MQADMIN_HEAD]
    parts += [_command_section(name, COMMANDS[name]) for name in sorted(COMMANDS)]
    absent = "\n".join(f"| `{name}` | {reason} |" for name, reason in sorted(ABSENT.items()))
    parts.append(
        "## What is not here\n\nWhoever calls one of these is told the reason.\n\n"
        f"| command | why |\n|---|---|\n{absent}\n"
    )
    return "\n".join(parts)


def _command_section(name: str, command: AdminCommand) -> str:
    text = f"## `flaremq mqadmin {name}`\n\n{command.summary}"
    if command.one_of:
        text += f" One of {' and '.join(f'`--{flag}`' for flag in command.one_of)} must be given."
    if not command.flags:
        return f"{text}\n"
    lines = "\n".join(f"| {_flag_cell(flag)} | {flag.help.replace('|', chr(92) + '|')} |" for flag in command.flags)
    return f"{text}\n\n| flag | meaning |\n|---|---|\n{lines}\n"


def _flag_cell(flag: Flag) -> str:
    value = " ARG" if flag.has_value else ""
    names = f"`-{flag.short}{value}`, `--{flag.long}`" if flag.short else f"`--{flag.long}{value}`"
    return f"{names} (required)" if flag.is_required else names


AUTHORITY_HEAD = """\
# Who may send which request

<!-- Written by `make docs` from src/flaremq/access/authority.py and src/flaremq/grpc/guard.py; change it there. -->

The table that servers with [access control](security.md) go by. `T` is a topic, `G` a group, `C` the cluster; in
brackets stands the field that names it; `+` means both, `|` one of these actions, `?` only where the field is there.
`body(…)`: the names stand in the body. `record(…)`: the topic of the stored message, whatever the request claims.
`Create/Update`: Update where it exists already. `signed`: any account. `super`: Super users, and administrators of ACL
1.0. `inner`: the servers themselves, and Super users. `own`: Super users, or the user whom the request is about.

A retry or dead-letter topic counts as its group, and needs Sub on it; a topic of the system where messages of other
topics wait counts as the cluster. In ACL 1.0 Get needs PUB or SUB; Create, Update, Delete and everything about the
cluster needs an administrator. What is marked **admin** is answered to other machines only with a verified client
certificate or from `adminAllowedAddresses`. A code that has no row is refused to everybody but Super users.
"""

GRPC_HEAD = """\
## gRPC

A path in brackets leads to the resource in the request; `[]`: in each of several.

| call | needs |
|---|---|"""


def authority_page() -> str:
    parts = [AUTHORITY_HEAD]
    servers = (
        ("Broker", authority.BROKER),
        ("Name server", authority.NAME_SERVER),
        ("Controller", authority.CONTROLLER),
    )
    for title, table in servers:
        lines = [
            f"| {code} | {row.code.name} | `{row.words.replace('|', chr(92) + '|')}` | "
            f"{'**admin**' if row.is_administration else ''} | {'yes' if row.is_change else ''} |"
            for code, row in sorted(table.items())
        ]
        head = "| code | request | needs | | audited |\n|---:|---|---|---|---|"
        parts.append(f"## {title}\n\n{head}\n" + "\n".join(lines) + "\n")
    calls = [(name, words) for name, words in NEEDS.items() if name != "Telemetry"]
    calls += [(f"Telemetry, settings of kind {kind}", words) for kind, words in SETTINGS_NEEDS.items()]
    lines = [f"| {name} | `{words.replace('|', chr(92) + '|')}` |" for name, words in sorted(calls)]
    return "\n".join([*parts, GRPC_HEAD, *lines, ""])


ROOMS_BEGIN = "<!-- rooms: written by `make docs` from the packages; change it there -->\n"
ROOMS_END = "<!-- end of rooms -->\n"
LAYERS_UPWARDS = (
    *("metrics", "message", "protocol", "replication", "storage", "remoting", "access", "grpc", "server"),
    *("proxy", "namesrv", "controller", "broker", "client", "testing", "pipeline", "dashboard", "cli"),
)


def architecture_page() -> str:
    """The page with a fresh tree of rooms: a package a line, with the first line of its docstring."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(ROOMS_BEGIN)
    lines = [line for layer in LAYERS_UPWARDS for line in _room_lines(PACKAGE / layer)]
    return f"{before}{ROOMS_BEGIN}```\n{chr(10).join(lines)}\n```\n{ROOMS_END}{rest.partition(ROOMS_END)[2]}"


def _room_lines(folder: Path) -> list[str]:
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    sentence = (ast.get_docstring(tree) or "").partition("\n")[0].replace("``", "")
    depth = len(folder.relative_to(PACKAGE).parts) - 1
    lines = [f"{'  ' * depth + folder.name + '/':<17} {sentence}"]
    for child in sorted(folder.glob("*/__init__.py")):
        lines += _room_lines(child.parent)
    return lines


METRICS_BEGIN = "<!-- metrics: written by `make docs` from the catalogues in the code; change them there -->\n"
METRICS_END = "<!-- end of metrics -->\n"


def metrics_page() -> str:
    """The page with fresh tables of all metrics."""
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(METRICS_BEGIN)
    broker = (*BROKER_FAMILIES, SERIES_CUT)
    tables = (
        ("RocketMQ's, of a broker", [family for family in broker if family.name.startswith("rocketmq_")]),
        ("Ours, of a broker", [family for family in broker if not family.name.startswith("rocketmq_")]),
        ("Name server", [*NAMESRV_FAMILIES, *SERVER_FAMILIES]),
        ("Controller", [*CONTROLLER_FAMILIES, *SERVER_FAMILIES]),
    )
    text = "\n".join(f"### {title}\n\n{_metrics_table(families)}" for title, families in tables)
    return f"{before}{METRICS_BEGIN}\n{text}\n{METRICS_END}{rest.partition(METRICS_END)[2]}"


def _metrics_table(families: Iterable[Family]) -> str:
    lines = ["| name | type | labels | what |", "|---|---|---|---|"]
    for family in sorted(families, key=lambda one: one.name):
        name = family.names(Names.WITH_UNIT)[0] + ("_total" if family.kind is Kind.COUNTER else "")
        what = family.help
        if family.bounds:
            what += (
                f" Buckets {', '.join(f'{bound:g}' if bound < 1000 else str(int(bound)) for bound in family.bounds)}."
            )
        switch = f" `{family.switch}`" if family.switch else ""
        lines.append(f"| `{name}` | {family.kind.value} | {', '.join(family.labels)} | {what}{switch} |")
    return "\n".join(lines) + "\n"


PAGES = {
    "options.md": options_page,
    "mqadmin.md": mqadmin_page,
    "authority.md": authority_page,
    "architecture.md": architecture_page,
    "metrics.md": metrics_page,
}


def main(arguments: list[str]) -> int:
    stale = []
    for name, render in PAGES.items():
        page = DOCS / name
        text = render()
        if "--check" not in arguments:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"out of date, run `make docs`: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
