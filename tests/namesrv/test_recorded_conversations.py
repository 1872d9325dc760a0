"""Our name server gives the answers that real ones gave to real brokers, clients and mqadmin."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.options import parse_properties
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from tests.namesrv.conversation import Event, SilentNamesrv, events, meaning

COMPLETE = ("json-49", "json-55")
# Here the making of the topics was not recorded; it was the same as in the complete recording of that broker.
WITHOUT_SETUP = {
    "binary-client-49": "json-49",
    "client55-server49": "json-49",
    "binary-client-55": "json-55",
    "binary-all-55": "json-55",
    "client49-server55": "json-55",
}


def replay(namesrv: SilentNamesrv, recording: list[Event]) -> list[tuple[str, RemotingCommand, RemotingCommand]]:
    """Step, request and our reply for every request that was answered; checks each against the recorded reply."""
    pending: dict[tuple[str, int], tuple[RemotingCommand, RemotingCommand]] = {}
    answered = []
    for event in recording:
        command = event.command
        connection = namesrv.connection(event.connection)
        if command is None:
            connection.close()
        elif event.from_client:
            pending[event.connection, command.opaque] = (command, namesrv.ask(command, connection))
        else:
            request, ours = pending.pop((event.connection, command.opaque))
            assert_equal(event.step, request, ours, command)
            answered.append((event.step, request, ours))
    for request, ours in pending.values():  # a tool that ended early, or a request 4.9 does not know
        assert ours.code == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED if request.code == 9999 else ResponseCode.SUCCESS)
    return answered


def assert_equal(step: str, request: RemotingCommand, ours: RemotingCommand, theirs: RemotingCommand) -> None:
    where = f"{step}: {request}"
    assert ours.code == theirs.code, f"{where}: {ours} instead of {theirs}"
    if ours.code == ResponseCode.SUCCESS:
        assert dict(ours.ext or {}) == dict(theirs.ext or {}), where
    if request.code == RequestCode.GET_NAMESRV_CONFIG:
        assert parse_properties(ours.body_bytes.decode())["orderMessageEnable"] == "false"
    elif step == "raw-topics-by-cluster":
        # Frames sent by hand to the broker made two more topics; their registration was not recorded.
        theirs_only = set(meaning(theirs.body_bytes)["topicList"]) - set(meaning(ours.body_bytes)["topicList"])
        assert theirs_only == {"%RETRY%NoSuchGroupYet", "%RETRY%RAWG"}
    else:
        assert meaning(ours.body_bytes) == meaning(theirs.body_bytes), where


def made_topics(complete: str) -> list[RemotingCommand]:
    """The registrations of a broker while its topics were made."""
    commands = [event.command for event in events(complete) if event.step == "setup-topics" and event.from_client]
    return [command for command in commands if command is not None and command.code == RequestCode.REGISTER_BROKER]


@pytest.mark.parametrize("name", [*COMPLETE, *WITHOUT_SETUP])
def test_answers_are_those_of_the_real_name_server(name: str, tmp_path: Path) -> None:
    recording = list(events(name))
    namesrv = SilentNamesrv(tmp_path)
    answered = replay(namesrv, recording[:2])  # the broker registers
    for registration in made_topics(WITHOUT_SETUP[name]) if name in WITHOUT_SETUP else ():
        namesrv.ask(registration, namesrv.connection(recording[0].connection))
    answered += replay(namesrv, recording[2:])
    codes = {request.code for _, request, _ in answered}
    assert {RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.GET_ROUTEINFO_BY_TOPIC} <= codes
    assert namesrv.routes.topics() == []  # the broker has said goodbye


@pytest.mark.parametrize("name", ["json-49", "json-55"])
def test_recordings_cover_the_requests_of_mqadmin(name: str) -> None:
    codes = {event.command.code for event in events(name) if event.command is not None and event.from_client}
    assert codes >= {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 304, 319, 327}


@pytest.mark.parametrize("name", ["ha-49", "ha-55"])
def test_slave_learns_of_its_master_as_from_the_real_name_server(name: str, tmp_path: Path) -> None:
    recording = list(events(name))
    namesrv = SilentNamesrv(tmp_path)
    # The master had registered before the recording began; its next registration says the same.
    master = next(event for event in recording if event.command is not None and _is_master(event.command))
    assert master.command is not None
    namesrv.ask(master.command, namesrv.connection(master.connection))
    answered = replay(namesrv, recording)
    told = [dict(reply.ext or {}) for _, request, reply in answered if _is_slave(request)]
    assert told
    assert all(ext == {"masterAddr": "127.0.0.1:20911", "haServerAddr": "127.0.0.1:20912"} for ext in told)


def _is_master(command: RemotingCommand) -> bool:
    return command.code == RequestCode.REGISTER_BROKER and command.field("brokerId") == "0"


def _is_slave(command: RemotingCommand) -> bool:
    return command.code == RequestCode.REGISTER_BROKER and command.field("brokerId") == "1"


def test_packed_registration_that_denies_it_is_accepted(tmp_path: Path) -> None:
    namesrv = SilentNamesrv(tmp_path)
    requests = [event.command for event in events("compressed-register-55") if event.from_client]
    assert requests[0] is not None and requests[0].field("compressed") == "false"
    assert namesrv.ask(requests[0]).code == ResponseCode.SUCCESS
    assert {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a"} <= set(namesrv.routes.topics())
    route = namesrv.routes.find_route("TBW102")
    assert route is not None and route.queue_datas[0].perm == 7
