"""``flaremq dashboard`` and its neighbours ``up --dashboard`` and ``broker --dashboard``."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flaremq.dashboard.service import check_installed
from flaremq.errors import UnavailableError
from flaremq.testing import ephemeral_broker
from tests.support.dashboard_lab import Browser, token_file
from tests.support.guarded_lab import write_private
from tests.support.ports import free_ports
from tests.support.source_tree import modules


@contextmanager
def _running(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command and the line with which it says that it is ready."""
    command = [sys.executable, "-m", "flaremq", *arguments, "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            if process.poll() is None:
                process.kill()


def _url(line: str) -> str:
    return next(word.rstrip(",") for word in line.split() if word.startswith("http://"))


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_command_serves_a_cluster_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    with (
        ephemeral_broker() as broker,
        _running("dashboard", "-n", broker.name_server, "--listen", "127.0.0.1:0", cwd=tmp_path) as (process, line),
    ):
        assert line.startswith("FlareMQ dashboard is ready at http://127.0.0.1:")
        assert _get(_url(line) + "api/overview")["cluster"]["brokers_up"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.slow
def test_up_starts_its_dashboard_beside_it_and_stops_it(tmp_path: Path) -> None:
    port = free_ports(2)
    listen, broker = f"127.0.0.1:{port}", f"127.0.0.1:{port + 10}"
    token = token_file(tmp_path)
    arguments = (
        "--listen",
        listen,
        "--broker-listen",
        broker,
        "--dashboard",
        "127.0.0.1:0",
        "--dashboard-token",
        token,
    )
    with _running("up", "--data", "store", *arguments, cwd=tmp_path) as (process, line):
        url = _url(line)
        assert "FlareMQ is ready" in line and "dashboard http://" in line
        names = {row["address"] for row in _get(url + "api/brokers")["items"]}
        assert names == {broker}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        with pytest.raises(OSError):
            _get(url + "healthz")


@pytest.mark.slow
def test_beside_servers_that_ask_who_one_is_it_looks_as_they_do_and_asks_too(tmp_path: Path) -> None:
    port = free_ports(2)
    addresses = ("--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}")
    accounts = {
        "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    }
    settings = ["authenticationEnabled=true", "authorizationEnabled=true"]
    settings += [f"{name}=file:{write_private(tmp_path / name, text)}" for name, text in accounts.items()]
    options = ["--dashboard", "127.0.0.1:0", *(part for one in settings for part in ("--set", one))]
    with _running("up", "--data", "store", *addresses, *options, cwd=tmp_path) as (_, line):
        browser = Browser(_url(line).rstrip("/"))

        async def run() -> None:
            assert (await browser.get("/api/overview")).status == 401
            assert (await browser.post_form("/login", access_key="root", secret_key="root-secret")).status == 303
            overview = await browser.json("/api/overview")
            assert (overview["cluster"]["brokers_up"], overview["cluster"]["access_control"]) == (1, True)

        asyncio.run(run())


def test_what_cannot_be_is_said_in_one_sentence(tmp_path: Path) -> None:
    readable = tmp_path / "open"
    readable.write_text("a token that anybody can read")
    readable.chmod(0o644)
    for arguments, code, words in (
        (("dashboard", "--listen", "0.0.0.0:0"), 2, "--token-file"),
        (("dashboard", "--listen", "nowhere"), 2, "is not an address"),
        (("dashboard", "--listen", "127.0.0.1:0", "--token-file", str(readable)), 2, "mode 0644"),
        (("dashboard", "--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "none")), 2, "cannot be read"),
        (("up", "--dashboard-token", "x"), 2, "--dashboard"),
        (("up", "--data", "d", "--dashboard", "nowhere"), 2, "is not an address"),
        (("broker", "--dashboard", "--data", "d", "--set", "listenPort=0"), 2, "needs name servers"),
    ):
        command = [sys.executable, "-m", "flaremq", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
        assert (done.returncode, words in done.stderr) == (code, True), (arguments, done.stderr)
        assert "Traceback" not in done.stderr and not (tmp_path / "d" / "commitlog").exists()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "starlette" else found(name))
    with pytest.raises(UnavailableError, match=r"pip install starlette \(the extra \[dashboard\] of flaremq"):
        check_installed()


def test_the_extra_is_imported_by_the_dashboard_alone() -> None:
    """And by nothing that its options and its service need: the command answers without it."""
    extra = {"starlette", "uvicorn", "jinja2", "markupsafe"}
    wrong = [
        f"{module.file_name} imports {name}"
        for module in modules().values()
        for name in module.imports
        if name.split(".")[0] in extra and not module.name.startswith("flaremq.dashboard")
    ]
    for name in ("options", "service"):
        module = modules()[f"flaremq.dashboard.{name}"]
        assert not extra & {name.split(".")[0] for name in module.imports_when_imported()}
    assert wrong == []
