"""Object stores to test against: the model in this process, and a real server where it was built (``make interop``)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from tests.support.ports import free_ports
from tests.support.s3_lab import BUCKET, S3Server

_GATEWAYS = Path(__file__).parents[3] / ".cache" / "versitygw"


@pytest.fixture(scope="module", params=["model", pytest.param("versitygw", marks=pytest.mark.interop)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A store with one bucket, and faults before it."""
    if request.param == "model":
        with S3Server() as found:
            yield found
        return
    program = max(_GATEWAYS.glob("*/versitygw"), default=None)
    if program is None:
        pytest.skip("no versitygw: run .ci/versitygw .cache/versitygw, which needs Go")
    folder = tmp_path_factory.mktemp("gateway")
    address = f"127.0.0.1:{free_ports()}"
    with (folder / "log").open("w") as log:
        environment = {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "testsecret"}
        (folder / "data").mkdir()
        command = [str(program), "--port", address, "posix", str(folder / "data")]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _make_bucket(address, process)
        with S3Server(address) as found:
            yield found
    finally:
        process.kill()
        process.wait()


def _make_bucket(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            files = fs.S3FileSystem(
                access_key="test",
                secret_key="testsecret",
                endpoint_override=address,
                scheme="http",
                region="us-east-1",
                allow_bucket_creation=True,
            )
            files.create_dir(BUCKET)
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Server]:
    """The store, known by the environment as Amazon's tools have it; no fault is left over."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "testsecret",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    server.fail()
    yield server
