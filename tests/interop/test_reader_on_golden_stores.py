"""The Java reader itself: on a golden store it must say what the manifest says.

Everything else in this folder trusts that reader, so it is checked against what was recorded when the stores
were made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop import java_store
from tests.interop.java_store import get_request, key_request, time_request
from tests.support.golden import golden_names, open_golden

pytestmark = pytest.mark.interop

RECORDED = (
    "readBy",
    "abortFilePresent",
    "loadResult",
    "commitLog",
    "checkpoint",
    "messageCount",
    "messages",
    "blanks",
    "queues",
    "offsetsByTime",
    "getMessage",
    "indexQueries",
)


@pytest.mark.parametrize("name", golden_names())
def test_reader_reproduces_the_manifest_of_a_golden_store(
    name: str, tmp_path: Path, require_rocketmq: Callable[[str], None]
) -> None:
    golden = open_golden(name, tmp_path)
    version = golden.manifest["readBy"].rpartition(" V")[2]
    require_rocketmq(version)

    questions = _questions(golden.manifest)
    image = java_store.read(version, golden.root, golden.options, requests=questions, in_place=True)

    for key in RECORDED:
        assert image[key] == golden.manifest[key], key


def _questions(manifest: dict[str, Any]) -> list[str]:
    """The requests whose answers the manifest holds."""
    lines = [key_request(q["topic"], q["key"], q["maxNum"], q["begin"], q["end"]) for q in manifest["indexQueries"]]
    for queue, answers in manifest["getMessage"].items():
        topic, _, queue_id = queue.rpartition("@")
        lines += [get_request(topic, int(queue_id), answer["offset"]) for answer in answers]
    for queue, answers in manifest["offsetsByTime"].items():
        topic, _, queue_id = queue.rpartition("@")
        lines += [time_request(topic, int(queue_id), answer["ts"]) for answer in answers]
    return lines
