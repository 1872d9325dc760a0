"""The demo's numbers agree and are checked; benchmarks print what the documentation promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flaremq.cli.bench.report import latency_micros
from flaremq.cli.demo import demo as demo_module
from flaremq.cli.demo.spark import DemoSpark
from flaremq.cli.servers.child import ServerProcess
from flaremq.pipeline.jobs.session import _stderr_aside
from tests.support.cli import flaremq


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_runs_the_whole_product_and_all_numbers_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flaremq", "demo", "--messages", "3000", "--out", tmp_path / "demo", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # Spark in a process of its own
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["agrees"] is True and all(check["agrees"] for check in result["checks"])
    checks = {check["check"]: check["found"] for check in result["checks"]}
    assert checks["messages acknowledged"] == 3000
    assert checks["lag of group spark-demo"] == 0 and checks["findings of verify"] == 0
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1000
    assert flaremq("store", "verify", tmp_path / "demo" / "store").code == 0


def test_the_demo_fails_if_numbers_do_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "_run", lambda summary, *_: summary.check("messages in the archive", 2, 3))
    done = flaremq("demo", "--out", tmp_path / "demo")
    assert done.code == 1
    assert "DO NOT AGREE" in done.out and "messages in the archive" in done.out


def test_what_ends_the_demo_is_told_though_spark_is_still_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    is_starting, goes_on, has_started = threading.Event(), threading.Event(), threading.Event()

    def start(_: DemoSpark) -> None:
        with _stderr_aside():
            is_starting.set()
            goes_on.wait(60)
        has_started.set()

    def interrupted(server: ServerProcess) -> float:
        assert is_starting.wait(60)
        server._errors.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(DemoSpark, "start", start)
    monkeypatch.setattr(ServerProcess, "start", interrupted)
    monkeypatch.setattr(demo_module, "_START_SECONDS", 0.01)
    done = flaremq("demo", "--out", tmp_path / "demo")
    os.write(2, b"seen\n")
    goes_on.set()
    assert has_started.wait(60)
    assert done.code == 130 and "seen" in capfd.readouterr().err


def test_the_demo_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    done = flaremq("demo", "--out", tmp_path)
    assert done.code == 2 and str(tmp_path) in done.err
    assert os.listdir(tmp_path) == ["precious"]


def test_the_demo_empties_the_folder_of_an_earlier_demo_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "_run", lambda summary, path, *_: Path(path, "store").mkdir())
    assert flaremq("demo", "--out", tmp_path / "demo").code == 0
    assert flaremq("demo", "--out", tmp_path / "demo").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "--flush", "ASYNC_FLUSH"),
        ("put", "--threads", "2", "--batch", "5", "--set", "enabledAppendPropCRC=true"),
        ("get", "--as", "views"),
        ("get", "--as", "decoded", "--count", "7"),
        ("get", "--as", "arrow"),
        ("query", "--queries", "20"),
        ("recover", "--after", "kill", "--rounds", "1"),
        ("recover", "--after", "lost-views", "--rounds", "1"),
    ],
    ids=" ".join,
)
def test_a_benchmark_prints_settings_machine_rate_and_latency(arguments: tuple[str, ...], tmp_path: Path) -> None:
    sizes = ("--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000")
    done = flaremq("bench", *arguments, "--messages", 60, "--body-size", 100, "--path", tmp_path, *sizes)
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["benchmark"] == arguments[0]
    assert result["settings"]["bodySize"] == 100
    assert {"cores", "memoryBytes", "python", "flaremq"} <= result["machine"].keys()
    assert result["messagesPerSecond"] > 0
    assert list(result["latencyMicros"]) == ["p50", "p99", "p99.9", "max"]
    assert os.listdir(tmp_path) == []  # it cleans up


def test_percentiles_are_taken_by_rank() -> None:
    assert latency_micros(range(1000, 1_001_000, 1000)) == {"p50": 501.0, "p99": 991.0, "p99.9": 1000.0, "max": 1000.0}
    assert latency_micros([5000]) == {"p50": 5.0, "p99": 5.0, "p99.9": 5.0, "max": 5.0}
    assert latency_micros([]) == {"p50": 0.0, "p99": 0.0, "p99.9": 0.0, "max": 0.0}


@pytest.mark.parametrize(("name", "messages"), [("send", 500), ("consume", 1500)])
def test_benchmark_over_the_wire_reports_rate_and_latency(name: str, messages: int, tmp_path: Path) -> None:
    done = flaremq("bench", name, "--messages", messages, "--body-size", 64, "--path", tmp_path)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["benchmark"] == name and report["messages"] == messages and report["messagesPerSecond"] > 0
    assert report["latencyMicros"]["p50"] > 0
    assert list(tmp_path.iterdir()) == []
