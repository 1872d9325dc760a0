"""Dead letters from the command line: which there are, and giving them to their group once more."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from flaremq import sync
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.message.message import Message
from flaremq.testing import EphemeralBroker
from tests.support.admin_cli import Shell, until


@pytest.fixture(scope="module")
def shell(cluster: EphemeralBroker) -> Shell:
    return Shell(cluster)


def give_up(shell: Shell, group: str, topic: str, count: int) -> list[str]:
    """Let a group fail on so many messages of a topic; their ids."""
    with sync.Admin(shell.name_server) as admin:
        admin.create_topic(topic, read_queues=1, write_queues=1)
    with sync.Producer(shell.name_server) as producer:
        message = {"tags": "paid", "properties": {"region": "eu"}}
        sent = [producer.send(Message(topic, b"%d" % n, keys=[f"o-{n}"], **message)) for n in range(count)]
    with sync.Consumer(shell.name_server, group=group, subscribe=topic, start_from="first") as consumer:
        for _ in sent:
            failed = consumer.receive(timeout=20)
            assert failed is not None
            failed.retry(-1)
    until(lambda: len(shell.rows("message", "dead-letters", "--group", group)) == count)
    return [one.message_id for one in sent]


def received(shell: Shell, group: str, topic: str, count: int) -> list[ReceivedMessage]:
    with sync.Consumer(shell.name_server, group=group, subscribe=topic, start_from="first") as consumer:
        found = []
        for _ in range(count):
            message = consumer.receive(timeout=20)
            assert message is not None
            found.append(message)
        return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """A person who answers no."""
    stdin = io.StringIO("n\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)
    yield stdin


def test_dead_letters_are_listed_with_where_they_came_from(shell: Shell) -> None:
    ids = give_up(shell, "listed", "DeadListed", 3)
    rows = shell.rows("message", "dead-letters", "--group", "listed")
    assert [(row["messageId"], row["originTopic"], row["keys"]) for row in rows] == [
        (ids[n], "DeadListed", f"o-{n}") for n in range(3)
    ]
    (row,) = shell.rows("message", "dead-letters", "--group", "listed", "--id", ids[1])
    assert row["body"] == "1" and row["deliveries"] == 1
    assert len(shell.rows("message", "dead-letters", "--group", "listed", "--max", 2)) == 2
    assert shell.rows("message", "dead-letters", "--group", "listed", "--until", "1h") == []


def test_a_resent_dead_letter_comes_to_its_group_alone_as_it_was(shell: Shell) -> None:
    ids = give_up(shell, "again", "DeadAgain", 2)
    received(shell, "bystander", "DeadAgain", 2)
    (result,) = shell.rows("message", "resend", "--group", "again", "--id", ids[1])
    assert (result["messageId"], result["status"], result["topic"]) == (ids[1], "SEND_OK", "%RETRY%again")
    (message,) = received(shell, "again", "DeadAgain", 1)
    assert (message.message_id, message.topic, message.body) == (ids[1], "DeadAgain", b"1")
    assert (message.tags, list(message.keys), message.properties["region"]) == ("paid", ["o-1"], "eu")
    assert message.delivery_attempt == 1
    (queue,) = shell.rows("topic", "status", "DeadAgain")
    assert queue["messages"] == 2, "nothing new for other groups"


def test_a_resent_dead_letter_that_fails_again_is_a_dead_letter_again(shell: Shell) -> None:
    ids = give_up(shell, "twice", "DeadTwice", 1)
    shell.ok("message", "resend", "--group", "twice", "--all")
    with sync.Consumer(shell.name_server, group="twice", subscribe="DeadTwice") as consumer:
        message = consumer.receive(timeout=20)
        assert message is not None
        message.retry(-1)
    until(lambda: len(shell.rows("message", "dead-letters", "--group", "twice")) == 2)
    rows = shell.rows("message", "dead-letters", "--group", "twice")
    assert [(row["messageId"], row["originTopic"]) for row in rows] == [(ids[0], "DeadTwice")] * 2


def test_dead_letters_can_go_to_all_groups_of_their_topic(shell: Shell) -> None:
    give_up(shell, "public", "DeadPublic", 2)
    results = shell.rows("message", "resend", "--group", "public", "--all", "--to", "topic")
    assert [row["topic"] for row in results] == ["DeadPublic"] * 2
    assert len(received(shell, "other-group", "DeadPublic", 4)) == 4


def test_a_dry_run_sends_nothing(shell: Shell) -> None:
    ids = give_up(shell, "dry", "DeadDry", 2)
    rows = shell.rows("message", "resend", "--group", "dry", "--from", "1h", "--dry-run")
    assert [row["messageId"] for row in rows] == ids
    (queue,) = shell.rows("topic", "status", "%RETRY%dry")
    assert queue["messages"] == 0


def test_resending_asks_at_a_terminal(shell: Shell, terminal: io.StringIO) -> None:
    ids = give_up(shell, "asked", "DeadAsked", 1)
    done = shell.run("message", "resend", "--group", "asked", "--all")
    assert done.code == 1 and "nothing was sent" in done.err
    assert f"Send 1 dead letter ({ids[0]}) to group asked?" in done.err
    assert shell.run("message", "resend", "--group", "asked", "--all", "--yes").code == 0


def test_resending_wants_to_know_which(shell: Shell) -> None:
    done = shell.run("message", "resend", "--group", "listed")
    assert done.code == 2 and "--all" in done.err


def test_a_group_without_dead_letters_and_one_that_does_not_exist(shell: Shell) -> None:
    shell.ok("group", "create", "healthy")
    assert shell.rows("message", "dead-letters", "--group", "healthy") == []
    assert shell.run("message", "resend", "--group", "healthy", "--all").code == 1
    done = shell.run("message", "dead-letters", "--group", "nobody")
    assert done.code == 1 and "'nobody' does not exist" in done.err
