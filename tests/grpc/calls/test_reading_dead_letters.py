"""Dead letters are read by other groups, however few attempts those make."""

from __future__ import annotations

from flaremq.grpc.messages.enums import Code
from tests.grpc.door_lab import DoorLab, lab_test


@lab_test
async def test_a_group_that_tries_once_reads_the_dead_letters_of_another_one(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    for name in ("G", "READER"):
        lab.group(name, retry_max_times=0)
    sent = await lab.send("T", b"bad", keys=["k"])
    given = await lab.receive_soon("T", "G")
    assert (await lab.change("T", "G", given, 0.2)).status.code == Code.OK
    while lab.state.topics.find("%DLQ%G") is None:
        assert await lab.receive("T", "G") == []
    letter = await lab.receive_soon("%DLQ%G", "READER")
    assert (letter.body, letter.system_properties.message_id) == (b"bad", sent.message_id)
    assert await lab.ack("%DLQ%G", "READER", letter) == Code.OK
    assert lab.state.topics.find("%DLQ%READER") is None
