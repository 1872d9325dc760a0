"""The board: sound as Grafana wants it, and about metrics that brokers tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.told_metrics import METRIC, told_names

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "flaremq.json").read_text(encoding="utf-8")
)
PANELS: list[dict[str, Any]] = BOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]


def expressions() -> list[str]:
    asked = [target["expr"] for panel in GRAPHS for target in panel["targets"]]
    asked += [one["query"]["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"]
    return asked


def test_every_metric_that_the_board_shows_is_told_by_a_broker() -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(asked) > 30
    assert asked - told_names() == set()


def test_the_board_has_what_grafana_needs_of_one() -> None:
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "annotations"} <= BOARD.keys()
    assert "id" not in BOARD, "an import gives it a number"
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize("panel", GRAPHS, ids=lambda panel: panel["title"])
def test_a_panel_is_explained_and_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".") and panel["fieldConfig"]["defaults"]["unit"]
    letters = [target["refId"] for target in panel["targets"]]
    assert letters and len(set(letters)) == len(letters)
    for asked in (panel, *panel["targets"]):
        assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["expr"].count("(") == target["expr"].count(")") for target in panel["targets"])


def test_panels_lie_beside_each_other_and_not_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells


def test_every_variable_that_is_used_is_offered() -> None:
    offered = {one["name"] for one in BOARD["templating"]["list"]}
    text = json.dumps(BOARD["panels"])
    assert offered == {"datasource", "cluster", "broker", "topic", "group"}
    assert all(f"${name}" in text or f"${{{name}}}" in text for name in offered)
