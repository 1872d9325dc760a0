"""Questions of brokers to clients of gRPC: a half message is shown to who sends to its topic, and to nobody else."""

from __future__ import annotations

from flaremq.grpc.messages.enums import Code
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.consume import CheckTransactionStateRequestHeader
from tests.grpc.door_lab import DoorLab, lab_test, producer_settings


@lab_test
async def test_a_producer_is_not_asked_about_topics_it_has_not_told(lab: DoorLab) -> None:
    """A broker picks a producer by its group, and that of a gRPC client is called as its topic: so may be that of any
    other producer. A proxy is known to its brokers by its own account, which may send everywhere."""
    for topic in ("orders", "billing"):
        lab.topic(topic)
    entry = await lab.send("orders", b"not for everybody")
    (given,) = await lab.receive("orders", "G")
    assert given.system_properties.message_id == entry.message_id
    store = lab.state.store_loop.store
    (found,) = store.query("orders", entry.message_id)
    header = CheckTransactionStateRequestHeader(tran_state_table_offset=0, commit_log_offset=found.physical_offset)
    streams = {}
    for client, topic in (("honest", "orders"), ("other", "billing")):
        streams[client] = await lab.telemetry(producer_settings(topic), client)
        assert (await streams[client].next()).status.code == Code.OK
    for client in streams:
        session = lab.service.sessions.find(lab.new_call("Telemetry", client))
        assert session is not None
        question = RemotingCommand.request(RequestCode.CHECK_TRANSACTION_STATE, header.encode(), bytes(found.record))
        assert await session.asked("broker-a", question) is None
    asked = await streams["honest"].next()
    assert asked.recover_orphaned_transaction_command.message.body == b"not for everybody"
    assert streams["other"].sent.empty()
