"""A real etcd for tests: one process, its own folder and ports."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_ports

needs_etcd = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="needs etcd (Debian: apt-get install etcd-server) on the PATH"
)


class Etcd:
    """One member that is the whole cluster."""

    def __init__(self, folder: Path, tls: tuple[str, str] | None = None) -> None:
        self._folder = folder
        first = free_ports(2)
        self._ports = (first, first + 10)
        self._tls = tls  # certificate and key of the port for clients
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._ports[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, again too, with what is in the folder."""
        client, peer = self.url, f"http://127.0.0.1:{self._ports[1]}"
        secured = [] if self._tls is None else ["--cert-file", self._tls[0], "--key-file", self._tls[1]]
        self._process = subprocess.Popen(
            [
                *("etcd", "--name", "one", "--data-dir", str(self._folder / "etcd")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *(
                    "--listen-peer-urls",
                    peer,
                    "--initial-advertise-peer-urls",
                    peer,
                    "--initial-cluster",
                    f"one={peer}",
                ),
                *secured,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert self._process is not None and self._process.poll() is None, "etcd ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._ports[0])) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("etcd does not answer")

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP, and wait until no thread of it runs any more."""
        self.send(signal.SIGSTOP)
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/stat")
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_etcd(folder: Path, tls: tuple[str, str] | None = None) -> Iterator[Etcd]:
    """An etcd that answers, stopped at the end."""
    etcd = Etcd(folder, tls)
    etcd.start()
    try:
        yield etcd
    finally:
        etcd.stop()
