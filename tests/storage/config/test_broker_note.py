"""The name of the broker, noted in its store."""

from __future__ import annotations

import json
from pathlib import Path

from flaremq.broker.options import BrokerOptions
from flaremq.broker.service import BrokerService
from flaremq.storage.config.broker_note import read_broker_note, write_broker_note


def test_note_is_read_as_written_and_replaced(tmp_path: Path) -> None:
    assert read_broker_note(str(tmp_path)) is None
    write_broker_note(str(tmp_path), "broker-ä")
    assert read_broker_note(str(tmp_path)) == "broker-ä"
    write_broker_note(str(tmp_path), "b")
    assert json.loads((tmp_path / "flaremq.broker").read_text()) == {"brokerName": "b"}


def test_damaged_note_is_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"brokerName": 5}', '{"other": "x"}'):
        (tmp_path / "flaremq.broker").write_text(text)
        assert read_broker_note(str(tmp_path)) is None


def test_directory_that_does_not_take_it_is_no_error(tmp_path: Path) -> None:
    write_broker_note(str(tmp_path / "missing"), "b")


async def _start_and_stop(path: Path) -> None:
    service = BrokerService(path, BrokerOptions(broker_name="noted", listen_port=0))
    await service.start()
    await service.stop()


def test_broker_notes_its_name_at_start(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(_start_and_stop(tmp_path / "store"))
    assert read_broker_note(str(tmp_path / "store")) == "noted"
