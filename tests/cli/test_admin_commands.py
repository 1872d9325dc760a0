"""Noun and verb: topics, groups, messages, brokers and options of a running cluster."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq import sync
from flaremq.cli.admin.versions import version_text
from flaremq.cli.main import run
from flaremq.cli.parameters import parse_time
from flaremq.testing import EphemeralBroker
from tests.support.admin_cli import Shell, until
from tests.support.cli import flaremq

NOBODY = "127.0.0.1:1"  # a port nobody listens at


@pytest.fixture(scope="module")
def shell(cluster: EphemeralBroker) -> Shell:
    return Shell(cluster)


# --- topics ---------------------------------------------------------------------------------------------------


def test_topics_are_created_listed_by_kind_and_deleted(shell: Shell) -> None:
    created = json.loads(shell.ok("topic", "create", "T1", "--queues", 3, "--perm", "r", "-o", "json"))
    assert created["brokers"] == ["broker-a"] and created["writeQueueNums"] == 3 and created["perm"] == 4
    assert {row["kind"] for row in shell.rows("topic", "list")}.isdisjoint({"system"})
    rows = {row["topic"]: row["kind"] for row in shell.rows("topic", "list", "--all")}
    assert rows["T1"] == "user"
    assert {rows[name] for name in ("TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX")} == {"system"}
    assert [row["topic"] for row in shell.rows("topic", "list", "--kind", "user")].count("T1") == 1
    assert [row["topic"] for row in shell.rows("topic", "list", "--cluster", "DefaultCluster")].count("T1") == 1
    assert shell.ok("topic", "delete", "T1", "-o", "table") == "topic T1 is deleted\n"
    assert "T1" not in {row["topic"] for row in shell.rows("topic", "list")}


def test_deletion_at_a_terminal_asks_first(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.ok("topic", "create", "Precious", "--queues", 1)
    for reply, remains, code in (("n\n", True, 1), ("", True, 130), ("y\n", False, 0)):
        stdin = io.StringIO(reply)
        monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", stdin)
        done = shell.run("topic", "delete", "Precious")
        assert done.code == code and ("nothing was deleted" in done.err) == (code == 1)
        assert ("Precious" in {row["topic"] for row in shell.rows("topic", "list")}) == remains


def test_one_queue_is_one_queue(shell: Shell) -> None:
    assert (
        shell.ok("topic", "create", "Single", "--queues", 1, "-o", "table") == "topic Single has 1 queue on broker-a\n"
    )


def test_a_topic_that_is_not_there_is_not_deleted(shell: Shell) -> None:
    done = shell.run("topic", "delete", "Misspelt")
    assert done.code == 1 and "'Misspelt'" in done.err and done.err.count("\n") == 1


def test_an_illegal_topic_is_wrong_usage(shell: Shell) -> None:
    done = shell.run("topic", "create", "bad name!")
    assert done.code == 2 and "bad name!" in done.err


def test_status_shows_both_ends_of_each_queue(shell: Shell) -> None:
    shell.fill("Status", 5, queues=2)
    rows = shell.rows("topic", "status", "Status")
    assert [(row["queueId"], row["minOffset"], row["maxOffset"], row["messages"]) for row in rows] == [
        (0, 0, 3, 3),
        (1, 0, 2, 2),
    ]
    assert all(row["lastUpdateTimestamp"] > 0 for row in rows)
    table = shell.ok("topic", "status", "Status", "-o", "table").splitlines()
    assert table[0].strip() == "topic Status"
    assert table[1].split() == ["broker", "queue", "min", "max", "messages", "last", "written"]
    assert table[2].split()[:5] == ["broker-a", "0", "0", "3", "3"]


def test_route_names_addresses_by_broker_id(shell: Shell) -> None:
    shell.ok("topic", "create", "Routed", "--queues", 2, "--write-queues", 1)
    (row,) = shell.rows("topic", "route", "Routed")
    assert row == {
        "cluster": "DefaultCluster",
        "broker": "broker-a",
        "addresses": {"0": shell.broker.address},
        "readQueueNums": 2,
        "writeQueueNums": 1,
        "perm": 6,
    }


def test_a_cluster_that_is_not_there_is_answered_with_those_that_are(shell: Shell) -> None:
    for command in (("topic", "list", "--cluster", "Nope"), ("cluster", "list", "Nope")):
        done = shell.run(*command)
        assert done.code == 1 and "DefaultCluster" in done.err


# --- groups ---------------------------------------------------------------------------------------------------


def test_groups_are_created_changed_and_deleted(shell: Shell) -> None:
    shell.ok("group", "create", "G1", "--retry-max", 3, "--no-broadcast")
    shell.ok("group", "create", "G1", "--retry-queues", 2)
    (row,) = [row for row in shell.rows("group", "list") if row["group"] == "G1"]
    assert (row["retryMaxTimes"], row["retryQueueNums"], row["consumeBroadcastEnable"]) == (3, 2, False)
    assert row["brokers"] == ["broker-a"]
    shell.ok("group", "delete", "G1")
    assert shell.run("group", "delete", "G1").code == 1


def test_groups_of_rocketmq_itself_are_listed_on_demand(shell: Shell) -> None:
    assert "TOOLS_CONSUMER" not in shell.ok("group", "list")
    assert "TOOLS_CONSUMER" in shell.ok("group", "list", "--all")


def test_progress_and_reset_move_a_group(shell: Shell) -> None:
    shell.fill("Moved", 6)
    shell.consume("Movers", "Moved", 4)

    def lag() -> int:
        return sum(row["lag"] for row in shell.rows("group", "progress", "Movers", "--topic", "Moved"))

    assert lag() == 2
    (row,) = shell.rows("group", "progress", "Movers", "--topic", "Moved")
    assert (row["brokerOffset"], row["consumerOffset"], row["queueId"]) == (6, 4, 0)
    planned = shell.rows("group", "reset", "Movers", "--topic", "Moved", "--to", "earliest", "--dry-run")
    assert planned == [{"broker": "broker-a", "queueId": 0, "before": 4, "after": 0}]
    assert lag() == 2
    shell.ok("group", "reset", "Movers", "--topic", "Moved", "--to", "earliest")
    assert lag() == 6
    shell.ok("group", "reset", "Movers", "--topic", "Moved", "--to", "latest")
    assert lag() == 0
    (overview,) = [row for row in shell.rows("group", "progress") if row["group"] == "Movers"]
    assert (overview["clients"], overview["lag"]) == (0, 0)
    assert "lag 0, in flight 0" in shell.ok("group", "progress", "Movers", "-o", "table")


def test_progress_of_a_group_that_is_not_there_is_refused(shell: Shell) -> None:
    done = shell.run("group", "progress", "Ghosts")
    assert done.code == 1 and "'Ghosts'" in done.err


def test_a_bad_time_is_wrong_usage(shell: Shell) -> None:
    done = shell.run("group", "reset", "G", "--topic", "T", "--to", "teatime")
    assert done.code == 2 and "'teatime'" in done.err and "earliest" in done.err


def test_connections_show_clients_and_subscriptions(shell: Shell) -> None:
    shell.fill("Watched", 1)
    with sync.Consumer(shell.name_server, group="Watchers", subscribe={"Watched": "A || B"}) as consumer:
        until(lambda: shell.run("group", "connections", "Watchers").code == 0)
        found = json.loads(shell.ok("group", "connections", "Watchers"))
        assert [client["clientId"] for client in found["connections"]] == [consumer.client_id]
        assert {"topic": "Watched", "expressionType": "TAG", "expression": "A || B"} in found["subscriptions"]
        assert (found["consumeType"], found["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert "Watched" in shell.ok("group", "connections", "Watchers", "-o", "table")
    until(lambda: shell.run("group", "connections", "Watchers").code == 1)


# --- messages -------------------------------------------------------------------------------------------------


def test_a_message_is_sent_and_found_by_key_id_and_place(shell: Shell) -> None:
    shell.ok("topic", "create", "Sent", "--queues", 2)
    (sent,) = shell.rows(
        "message", "send", "Sent", "héllo", "--tags", "T", "--key", "one", "--key", "two", "--property", "region=eu",
        "--queue-id", 1,
    )  # fmt: skip
    assert (sent["status"], sent["queueId"], sent["queueOffset"]) == ("SEND_OK", 1, 0)
    until(lambda: shell.run("message", "query", "Sent", "--key", "two").code == 0)
    (found,) = shell.rows("message", "query", "Sent", "--key", "two")
    assert (found["body"], found["tags"], found["keys"]) == ("héllo", "T", "one two")
    assert found["properties"]["region"] == "eu"
    for place in ([sent["messageId"]], [sent["offsetMessageId"]], ["--queue-id", 1, "--offset", 0]):
        got = json.loads(shell.ok("message", "get", "Sent", *place))
        assert (got["messageId"], got["offsetMessageId"]) == (sent["messageId"], sent["offsetMessageId"])
    shell.consume("Readers", "Sent", 1)
    tracked = json.loads(shell.ok("message", "get", "Sent", sent["messageId"], "--track", "--body", "none"))
    assert [track["group"] for track in tracked["tracks"]] == ["Readers"] and "body" not in tracked


def test_the_ids_of_a_message_that_was_sent_are_whole_at_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shell.ok("topic", "create", "Shown", "--queues", 1)
    shown = shell.ok("message", "send", "Shown", "x", "-o", "table")
    (found,) = shell.rows("message", "print", "Shown")
    assert found["messageId"] in shown and found["offsetMessageId"] in shown


def test_a_message_that_is_not_there_is_not_found(shell: Shell) -> None:
    shell.ok("topic", "create", "Empty")
    assert shell.run("message", "get", "Empty", "no-such-id").code == 1
    assert shell.run("message", "get", "Empty", "--queue-id", 0, "--offset", 9).code == 1
    done = shell.run("message", "query", "Empty", "--key", "none")
    assert (done.code, done.err) == (1, "flaremq: no message of topic Empty has the key none\n")
    assert shell.run("message", "get", "Empty").code == 2


def test_lines_of_stdin_are_sent_one_by_one_without_empty_ones(shell: Shell) -> None:
    shell.ok("topic", "create", "Lines", "--queues", 1)
    done = subprocess.run(
        [sys.executable, "-m", "flaremq", "message", "send", "Lines", "--lines", "-n", shell.name_server],
        input=b"one\ntwo\n\nfour\n",
        capture_output=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 3
    assert sorted(row["body"] for row in shell.rows("message", "print", "Lines")) == ["four", "one", "two"]


def test_table_of_sent_lines_shows_ids_whole(shell: Shell) -> None:
    shell.ok("topic", "create", "Told", "--queues", 1)
    done = subprocess.run(
        [sys.executable, "-m", "flaremq", "message", "send", "Told", "--lines", "-o", "table", "-n", shell.name_server],
        input=b"one\ntwo\n",
        capture_output=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    ids = {row["messageId"] for row in shell.rows("message", "print", "Told")}
    assert len(ids) == 2 and ids <= set(done.stdout.decode().split())


def test_lines_are_spread_over_the_queues(shell: Shell) -> None:
    shell.ok("topic", "create", "Spread", "--queues", 4)
    done = subprocess.run(
        [sys.executable, "-m", "flaremq", "message", "send", "Spread", "--lines", "-n", shell.name_server],
        input=b"".join(b"line %d\n" % number for number in range(400)),
        capture_output=True,
        check=True,
    )
    queues = [json.loads(line)["queueId"] for line in done.stdout.splitlines()]
    assert {queue: queues.count(queue) for queue in range(4)} == dict.fromkeys(range(4), 100)


def test_ordered_and_delayed_sends(shell: Shell) -> None:
    shell.ok("topic", "create", "Ordered", "--queues", 4)
    places = {shell.rows("message", "send", "Ordered", "x", "--ordering-key", "o-7")[0]["queueId"] for _ in range(3)}
    assert len(places) == 1
    shell.rows("message", "send", "Ordered", "later", "--delay", "2h")
    shell.rows("message", "send", "Ordered", "later", "--delay-level", 18)
    assert len(shell.rows("message", "print", "Ordered")) == 3
    assert shell.run("message", "send", "Ordered", "x", "--delay", "soon").code == 2
    assert shell.run("message", "send", "Ordered", "x", "--delay", "1s", "--queue-id", 0).code == 2
    assert shell.run("message", "send", "Ordered", "x", "--queue-id", 99).code == 1


def test_print_selects_by_queue_offset_time_tag_and_number(shell: Shell) -> None:
    shell.fill("Printed", 6, queues=2)
    shell.rows("message", "send", "Printed", "odd one", "--tags", "B", "--queue-id", 0, "--property", "amount=12")

    def bodies(*arguments: object) -> list[str]:
        return [row["body"] for row in shell.rows("message", "print", "Printed", *arguments)]

    assert bodies() == ["body 0", "body 2", "body 4", "odd one", "body 1", "body 3", "body 5"]
    assert bodies("--queue-id", 1, "--offset", 1) == ["body 3", "body 5"]
    assert bodies("--max", 2) == ["body 0", "body 2"]
    assert bodies("--tags", "B") == ["odd one"]
    assert bodies("--sql", "amount > 10") == ["odd one"]
    assert bodies("--end", "1h") == []
    assert len(bodies("--begin", "1h")) == 7
    (row,) = shell.rows("message", "print", "Printed", "--tags", "B", "--body", "base64")
    assert row["body"] == "b2RkIG9uZQ=="
    assert "odd one" in shell.ok("message", "print", "Printed", "-o", "table")
    assert shell.run("message", "print", "Printed", "--offset", 1).code == 2
    assert shell.run("message", "print", "Nowhere").code == 1


@pytest.mark.usefixtures("hears_ctrl_c")
def test_tail_shows_what_comes_in_until_ctrl_c(shell: Shell) -> None:
    shell.fill("Tailed", 2)
    command = [sys.executable, "-m", "flaremq", "message", "tail", "Tailed", "-n", shell.name_server]
    with subprocess.Popen(
        [*command, "--from", "earliest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["body"] for _ in range(2)] == ["body 0", "body 1"]
        shell.rows("message", "send", "Tailed", "news")
        assert json.loads(process.stdout.readline())["body"] == "news"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.strip()) == (130, b"interrupted")


def test_tail_ends_after_so_many(shell: Shell) -> None:
    shell.fill("Headed", 3)
    rows = shell.rows("message", "tail", "Headed", "--from", "earliest", "--max", 2)
    assert [row["body"] for row in rows] == ["body 0", "body 1"]
    line = shell.ok("message", "tail", "Headed", "--from", "earliest", "--max", 1, "-o", "table")
    assert line.split()[2:] == ["broker-a/0@0", "A", "k-0", "all", "body", "0"]


# --- brokers and options ----------------------------------------------------------------------------------------


def test_cluster_list_and_status_show_every_broker(shell: Shell) -> None:
    (row,) = shell.rows("cluster", "list")
    assert (row["cluster"], row["broker"], row["brokerId"]) == ("DefaultCluster", "broker-a", 0)
    assert (row["address"], row["reachable"]) == (shell.broker.address, True)
    (status,) = json.loads(shell.ok("cluster", "status"))
    assert status["status"]["brokerVersionDesc"] == row["version"]
    assert "brokerVersionDesc" in shell.ok("cluster", "status", "-o", "table")


def test_config_get_and_set_change_a_running_broker(shell: Shell) -> None:
    before = shell.rows("config", "get", "fileReservedTime")[0]["value"]
    shell.ok("config", "set", "fileReservedTime=71", "--broker", "broker-a")
    assert shell.rows("config", "get", "fileReservedTime")[0] == {
        "server": "broker-a",
        "option": "fileReservedTime",
        "value": "71",
    }
    shell.ok("config", "set", f"fileReservedTime={before}")
    done = shell.run("config", "get", "fileReservedTim")
    assert done.code == 1 and "did you mean fileReservedTime?" in done.err
    names = {row["option"] for row in shell.rows("config", "get", "--of-name-server")}
    assert "scanNotActiveBrokerInterval" in names


def test_what_a_server_refuses_to_change_is_said(shell: Shell) -> None:
    done = shell.run("config", "set", "storePathRootDir=/elsewhere")
    assert done.code in (1, 2, 3) and "storePathRootDir" in done.err and done.err.count("\n") == 1
    assert shell.run("config", "set", "nonsense").code == 2


# --- what they share ----------------------------------------------------------------------------------------------

EVERY_ORDER = [
    ("topic", "list"),
    ("topic", "status", "T"),
    ("group", "list"),
    ("message", "send", "T", "x"),
    ("message", "print", "T"),
    ("message", "tail", "T"),
    ("cluster", "list"),
    ("config", "get"),
    ("mqadmin", "topicList"),
    ("mqadmin", "clusterList"),
]


@pytest.mark.parametrize("order", EVERY_ORDER, ids=" ".join)
def test_a_name_server_that_is_not_there_is_one_sentence_and_code_3(order: tuple[str, ...]) -> None:
    done = flaremq(*order, "-n", NOBODY)
    assert (done.code, done.out) == (3, "")
    assert NOBODY in done.err and "flaremq up" in done.err and done.err.count("\n") == 1


def test_an_address_that_is_none_is_wrong_usage() -> None:
    for order in (("topic", "list"), ("group", "list")):
        done = flaremq(*order, "-n", "nowhere")
        assert done.code == 2 and "'nowhere'" in done.err


def test_the_environment_names_the_name_server(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", shell.name_server)
    assert flaremq("topic", "list").code == 0
    assert flaremq("cluster", "list").code == 0
    monkeypatch.setenv("NAMESRV_ADDR", NOBODY)
    assert flaremq("topic", "list").code == 3


def test_the_first_name_server_that_answers_is_asked(shell: Shell) -> None:
    for order in (("topic", "list"), ("group", "list")):
        assert flaremq(*order, "-n", f"{NOBODY};{shell.name_server}").code == 0


def test_a_server_that_speaks_something_else_is_refused(shell: Shell) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = flaremq("topic", "list", "-n", address)
        thread.join()
    assert done.code == 3 and done.err.count("\n") == 1 and "Traceback" not in done.err


def test_topic_list_loads_neither_the_client_nor_an_event_loop(shell: Shell) -> None:
    code = (
        "import sys; from flaremq.cli.main import run\n"
        "run(sys.argv[1:])\n"
        "heavy = {'asyncio', 'rich', 'flaremq.client.admin.admin', 'flaremq.protocol.bodies.client'}\n"
        "print(*heavy & sys.modules.keys(), file=sys.stderr)\n"
    )
    for command in (["topic", "list", "--all"], ["mqadmin", "topicList"]):
        line = [sys.executable, "-c", code, *command, "-n", shell.name_server]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert done.stderr.split() == [] and "TBW102" in done.stdout


def test_a_broker_conf_with_our_own_names_serves_the_store_commands(tmp_path: Path) -> None:
    from tests.support.store_lab import StoreLab

    lab = StoreLab(tmp_path / "store")
    lab.open()
    lab.put(b"hello")
    lab.close()
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-a\ntopicsMax=500\nconnectionsMax=100\ntlsMode=disabled\n", encoding="utf-8")
    assert run(["store", "info", str(lab.root), "-c", str(conf)]) == 0


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("latest", -1),
        ("now", -1),
        ("earliest", 0),
        ("1700000000000", 1_700_000_000_000),
        ("10m", 99_400_000),
        ("2h ago", 92_800_000),
        ("500ms", 99_999_500),
        ("1970-01-02T00:00:00+00:00", 86_400_000),
    ],
)
def test_times_as_people_write_them(text: str, milliseconds: int) -> None:
    assert parse_time(text, 100_000_000) == milliseconds


@pytest.mark.parametrize("text", ["", "soon", "10", "m", "2026-13-01", "99999-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    if text == "10":
        assert parse_time(text, 0) == 10
    else:
        with pytest.raises(ValueError):
            parse_time(text, 0)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "V3"),
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (317, "V4_5_2"),
        (407, "V4_9_7"),
        (413, "V5_0_0"),
        (414, "V5_0_1_SNAPSHOT"),
        (513, "V5_5_0"),
        (611, "V5_9_9"),
        (612, "HIGHER_VERSION"),
    ],
)
def test_release_numbers_have_names(number: int, text: str) -> None:
    assert version_text(number) == text
