"""What a run is asked for, and what it writes down about the machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as entry
from benchmarks import machine, memory, parts, quiet, results, rounds
from benchmarks.parts import Context, Part
from benchmarks.rounds import Figure, Measurement, Outcome
from benchmarks.settings import FULL, QUICK, with_rounds


def test_parts_are_chosen_by_name_or_group() -> None:
    assert parts.named("wire,put") == ["put", "wire"]
    assert parts.named("store") == ["put", "scan", "query", "recover", "embedded", "startup"]
    with pytest.raises(ValueError, match="'nothing' is not one of store, put"):
        parts.named("nothing")


def test_rounds_are_those_of_every_part() -> None:
    settings = with_rounds(FULL, 7)
    asked = [settings.rounds, settings.recover_rounds, settings.wire_rounds, settings.wire_starts]
    asked += [settings.spark_rounds, settings.spark_latency_rounds, settings.client_rounds]
    assert set(asked) == {7}
    assert settings.put_seconds == FULL.put_seconds


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_number_of_rounds_is_one(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="number of rounds"):
        entry._count(text)


def load(**changes: object) -> dict[str, object]:
    quiet_run: dict[str, object] = {
        "load_before": [0.1, 0.2, 0.3],
        "cores_before": 0.0,
        "is_first": True,
        "load_during": [1.0],
        "cores_during": [0.0],
        "cores_mean": 0.0,
    }
    return quiet.describe(**{**quiet_run, **changes})  # type: ignore[arg-type]


def test_a_quiet_machine_is_not_marked() -> None:
    assert load()["is_loaded"] is False
    assert load(load_before=[2.0, 2.0, 2.0], is_first=False)["is_loaded"] is False, "that load was our own"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"load_before": [0.6, 0.1, 0.1]}, "the load average was 0.60 before the start"),
        ({"cores_before": 0.5}, "others used 0.5 cores before the start"),
        ({"cores_mean": 1.2}, "others used 1.2 cores meanwhile"),
    ],
)
def test_a_loaded_machine_is_marked_with_the_reason(changes: dict[str, object], reason: str) -> None:
    found = load(**changes)
    assert found["is_loaded"] is True and found["reasons"] == [reason]


def test_the_watch_sees_load_and_ends() -> None:
    found = quiet.Watch(is_first=False, look_seconds=0.05).close()
    assert len(found["load_average_before"]) == 3 and found["other_cores_mean"] >= 0


def test_each_run_of_each_side_finds_the_memory_it_will_need_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    def run(side: str) -> dict[str, object]:
        events.append(side)
        return {"rate": 1}

    monkeypatch.setattr(rounds.memory, "touch", events.append)
    monkeypatch.setattr(rounds, "_run_ours", lambda measurement, folder: run("ours"))
    monkeypatch.setattr(rounds, "_run_theirs", lambda measurement, version, folder: run(version))
    measurement = Measurement(name="put", theirs=("put", {}), figures=(), rounds=2, memory_bytes=5)
    list(rounds.run_all([measurement], ("5.5.0",), None))
    assert events == [5, "ours", 5, "5.5.0", 5, "5.5.0", 5, "ours"]


def test_memory_is_made_ready_as_far_as_it_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    before = memory._available_bytes()
    assert before > 0
    memory.touch(1 << 20)
    monkeypatch.setattr(memory, "_available_bytes", lambda: 0)
    memory.touch(1 << 50)  # would fail


def test_the_machine_is_described(tmp_path: Path) -> None:
    described = machine.describe(str(tmp_path))
    assert {"processor", "cores", "memory_GiB", "kernel", "python", "java", "file_system"} <= described.keys()


def test_a_run_writes_machine_load_lines_and_every_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure(label="rate", unit="msg/s", ours="rate", theirs="rate", wanted_ratio=2.0)

    def run(context: Context) -> Iterator[Outcome]:
        assert context.settings.rounds == 2
        ours = [{"round": 1, "rate": 10}, {"round": 2, "rate": 30}]
        theirs = {"java": [{"round": 1, "rate": 5}, {"round": 2, "rate": 10}]}
        yield Outcome(Measurement(name="m", figures=(figure,)), ours, theirs)

    monkeypatch.setattr(entry, "PARTS", {"put": Part("put", "Putting", "One thread.", run)})
    monkeypatch.setattr(entry, "Watch", lambda *, is_first: quiet.Watch(is_first=is_first, look_seconds=0.01))
    out = tmp_path / "result.json"
    assert entry.main(["--quick", "--rounds", "2", "--no-peers", "--out", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["format"] == results.FORMAT and document["mode"] == "quick" and "date" in document
    assert document["machine"]["cores"] > 0 and document["settings"]["rounds"] == 2
    (part,) = document["parts"]
    assert part["load"]["load_average_before"] and "is_loaded" in part["load"] and part["complete"] is True
    assert part["lines"][0]["ratio"] == {"median": 2.5, "low": 2.0, "high": 3.0, "samples": [2.0, 3.0]}
    assert part["runs"][0]["theirs"]["java"][1]["rate"] == 10
    assert "2.00–3.00" in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Context) -> Iterator[Outcome]:
        yield Outcome(Measurement(name="m", figures=()), [{"round": 1, "rate": 10}])
        raise SystemExit(143)

    monkeypatch.setattr(entry, "PARTS", {"put": Part("put", "Putting", "One thread.", run)})
    monkeypatch.setattr(entry, "Watch", lambda *, is_first: quiet.Watch(is_first=is_first, look_seconds=0.01))
    with pytest.raises(SystemExit):
        entry.main(["--smoke", "--no-peers", "--out", str(tmp_path / "result.json")])
    (part,) = json.loads((tmp_path / "result.json").read_text())["parts"]
    assert part["complete"] is False and part["runs"][0]["ours"][0]["rate"] == 10


def test_a_part_that_cannot_run_is_a_note(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def never(_: Context) -> Iterator[Outcome]:
        raise AssertionError("it was run")

    part = Part("wire", "Over the wire", "Loopback.", never, lambda: "no Java")
    monkeypatch.setattr(entry, "PARTS", {"wire": part})
    assert entry.main(["--smoke", "--no-peers"]) == 0
    assert "wire is not measured: no Java" in capsys.readouterr().out


def test_what_needs_peers_says_so_without_them() -> None:
    context = Context(QUICK, (), "/tmp", with_peers=False)
    for name in ("wire", "spark", "clients"):
        assert parts.PARTS[name].reason_against(context) == "there is nothing to measure without peers"
