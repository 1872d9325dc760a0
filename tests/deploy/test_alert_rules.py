"""Alert rules and their own tests, by the tool that is made for them; names that brokers really tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.told_metrics import METRIC, told_names

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "flaremq.rules.yml"
TESTS = FOLDER / "flaremq.test.yml"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: object) -> None:
    found = shutil.which("promtool") or shutil.which(ROOT / ".cache" / "promtool" / "usr" / "bin" / "promtool")
    if found is None:
        pytest.skip("there is no promtool: .ci/promtool .cache/promtool fetches it")
    done = subprocess.run(
        [found, *map(str, arguments)], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_configurations_are_ones() -> None:
    promtool("check", "rules", RULES)
    promtool("check", "config", "--syntax-only", FOLDER / "prometheus.yml")
    promtool("check", "config", "--syntax-only", ROOT / "deploy" / "container" / "prometheus.yml")


def test_alerts_fire_when_they_should_and_are_silent_when_not() -> None:
    promtool("test", "rules", TESTS)


def test_each_alert_is_seen_to_fire_and_to_be_silent() -> None:
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    fired = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    assert fired == alerts
    cases = yaml.safe_load(TESTS.read_text())["tests"]
    assert all(check["exp_samples"] is not None for case in cases for check in case["promql_expr_test"])
    assert sum(not check["exp_samples"] for case in cases for check in case["promql_expr_test"]) > 15


def test_each_alert_says_what_it_is_how_bad_and_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}, rule["alert"]
            assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_rules_ask_for_metrics_that_a_broker_tells() -> None:
    asked = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    assert len(asked) > 20
    assert asked - told_names() == set()
