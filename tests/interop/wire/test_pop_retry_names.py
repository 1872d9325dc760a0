"""A Java client consumes by POP while the broker names its retry topics the newer way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.wire import java_client, programs, servers
from tests.interop.wire.selection import require

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("pop-retry-names")]


def test_refused_message_comes_back_under_the_newer_name(tmp_path: Path) -> None:
    require(programs.why_no_java("5.5.0"))
    folder = tmp_path / "servers"
    with servers.started("flaremq+flaremq", folder, options={"enableRetryTopicV2": "true"}) as started:
        results = java_client.run(started, "5.5.0", programs.JSON, ("pop",), run="v2", scratch=tmp_path)
    assert results["pop"]["ok"], results["pop"]["error"]
    assert [path for path in folder.rglob("%RETRY%*+*") if path.parent.name == "consumequeue"]
