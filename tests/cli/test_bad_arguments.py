"""One rule for bad input on the command line: each argument and option of each command that asks a server or reads a
store, given something odd, is taken or refused in one sentence with its exit code; nothing ends in an internal error.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import pytest

from flaremq.cli.main import flaremq as commands
from flaremq.testing import EphemeralBroker
from tests.support.cli import flaremq

# The others start servers, or Spark.
GROUPS = ("topic", "group", "message", "cluster", "config", "user", "acl", "mqadmin", "store")
ODD = ("", "  ", "x", "²", "9" * 30, "-1", "a b", "{", "../..", "%", "now-1", "1,2", "a=b")
GOOD = {
    "topic": "orders", "topicName": "orders", "group": "readers", "groupName": "readers", "consumerGroup": "readers",
    "brokerName": "broker-a", "queue_id": "0", "queueId": "0", "queue": "0", "offset": "0", "index": "0", "key": "k",
    "to": "first", "timestamp": "now", "perm": "6", "mode": "PULL", "msgId": "AC11000100002A9F0000000000000000",
    "subject": "User:bob", "resource": "Topic:x", "resources": "Topic:x", "actions": "Pub", "decision": "ALLOW",
    "username": "bob", "name": "bob", "body": "hi",
}  # fmt: skip
# Whom to ask, and as whom: the same rows for all, with tests of their own.
SHARED = {"name_servers", "output", "debug", "access_key", "secret_key", "secret_key_file", "tools_yml"}
PYTHON = re.compile(r"internal error|Traceback|<class|object at 0x|NoneType")


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def odd_lines(name_server: str, broker: str, store: Path) -> Iterator[list[str]]:
    """For each parameter and odd value a command line on which all others that are needed are fine."""
    good = GOOD | {"brokerAddr": broker, "controllerAddress": broker, "path": str(store), "config": "none"}
    for path, command in leaves(commands):
        if path[0] not in GROUPS or path == ("message", "tail"):  # tail waits for messages
            continue
        parameters = [each for each in command.params if each.name not in SHARED and "tls" not in str(each.name)]
        for odd_one in parameters:
            if isinstance(odd_one, click.Option) and odd_one.is_flag:
                continue
            for odd in ODD:
                line, places = list(path), []
                for each in parameters:
                    if each is not odd_one and not each.required:
                        continue
                    value = odd if each is odd_one else good.get(str(each.name), "1")
                    if isinstance(each, click.Option):
                        line += [each.opts[0], value]
                    else:
                        places.append(value)
                options = {option for each in command.params for option in each.opts}
                line += ["-n", name_server] if "-n" in options else []
                line += ["--yes"] if "--yes" in options else []
                yield [*line, "--", *places]


def check(lines: Iterator[list[str]]) -> int:
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007
        outcome = flaremq(*line)
        shown = ([word[:40] for word in line], outcome.code, outcome.err[:400])
        assert outcome.code in (0, 1, 2, 3, 4) and not PYTHON.search(outcome.err), shown
        assert outcome.code == 0 or outcome.err.strip(), shown
    return count


@pytest.fixture
def lines(cluster: EphemeralBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert flaremq("topic", "create", "orders", "-n", cluster.name_server).code == 0
    assert flaremq("message", "send", "orders", "hi", "-n", cluster.name_server).code == 0
    (tmp_path / "store").mkdir()
    return odd_lines(cluster.name_server, cluster.address, tmp_path / "store")


def test_odd_arguments_are_taken_or_refused_in_one_sentence(lines: Iterator[list[str]]) -> None:
    assert check(islice(lines, 5, None, 31)) > 150  # 31 shares no divisor with the 13 values: all meet all kinds


@pytest.mark.soak
def test_every_odd_argument_is_taken_or_refused_in_one_sentence(lines: Iterator[list[str]]) -> None:
    assert check(lines) > 5_000
