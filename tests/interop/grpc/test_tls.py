"""TLS and plain text on the one port: Java begins with TLS unless told otherwise, Python checks the certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc import clients, doors
from tests.interop.wire.selection import require
from tests.support.certificate import make_certificate

pytestmark = pytest.mark.interop
_SCENARIOS = ("send", "push")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def certified_door(certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[doors.Door]:
    options = {"tlsCertPath": str(certificate[0]), "tlsKeyPath": str(certificate[1])}
    with doors.opened(doors.OURS, tmp_path_factory.mktemp("tls"), options=options) as opened:
        yield opened


def _check(results: dict[str, dict[str, object]]) -> None:
    assert {name: result["error"] for name, result in results.items() if not result["ok"]} == {}
    assert set(results) == set(_SCENARIOS)


def test_java_speaks_tls_to_a_door_without_a_certificate_of_its_own(door: doors.Door, tmp_path: Path) -> None:
    require(clients.why_not(clients.JAVA))
    _check(clients.run(clients.JAVA, door, _SCENARIOS, run="gtlsjava", scratch=tmp_path, settings=["tls=1"]))


@pytest.mark.wire_core
def test_python_speaks_tls_and_checks_who_answers(
    certified_door: doors.Door, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    require(clients.why_not(clients.PYTHON))
    roots = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate[0])}
    _check(
        clients.run(
            clients.PYTHON,
            certified_door,
            _SCENARIOS,
            run="gtlspython",
            scratch=tmp_path,
            settings=["tls=1"],
            environment=roots,
        )
    )


def test_plain_text_goes_over_the_same_port(certified_door: doors.Door, tmp_path: Path) -> None:
    require(clients.why_not(clients.PYTHON))
    _check(clients.run(clients.PYTHON, certified_door, _SCENARIOS, run="gplain", scratch=tmp_path))
