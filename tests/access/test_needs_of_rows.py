"""What each row of the authority table asks of a request, all of it: the second writing in ``expected_needs``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flaremq.access import authority
from flaremq.access.authority import Row
from flaremq.access.needs import Action, Need, ResourceType
from flaremq.access.rules import Surroundings
from flaremq.protocol.command import RemotingCommand
from tests.access import expected_needs
from tests.access.expected_needs import Sample

_ROWS: tuple[tuple[str, Mapping[int, Row], Mapping[int, Sample]], ...] = (
    ("broker", authority.BROKER, expected_needs.BROKER),
    ("name server", authority.NAME_SERVER, expected_needs.NAME_SERVER),
    ("controller", authority.CONTROLLER, expected_needs.CONTROLLER),
)


@pytest.mark.parametrize(
    ("row", "sample"),
    [
        pytest.param(rows[code], samples[code], id=f"{server}-{code}")
        for server, rows, samples in _ROWS
        for code in samples
    ],
)
def test_a_row_asks_for_all_that_is_expected_and_no_more(row: Row, sample: Sample) -> None:
    if row.who:
        assert sample.needs == (row.who,)
        return
    assert row.rule is not None
    request = RemotingCommand.request(int(row.code), sample.ext, sample.body)
    found = list(row.rule(request, Surroundings(expected_needs.CLUSTER)))
    if row.record is not None:
        found.append(Need(ResourceType.TOPIC, "record", row.record.actions))
    assert sorted(map(_words, found)) == sorted(map(_sorted, sample.needs))


def _words(need: Need) -> str:
    return _sorted(f"{need} {'|'.join(Action(action).name for action in need.actions)}")


def _sorted(need: str) -> str:
    resource, _, actions = need.partition(" ")
    return f"{resource} {'|'.join(sorted(actions.split('|')))}"
