"""Both real mqadmins with ``conf/tools.yml`` on our servers: accounts and users are administered, secrets stay inside.

What a step has to print is what the tools printed on RocketMQ's own brokers, but for secrets, which are masks here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.wire import accounts, mqadmin, probe, programs, servers
from tests.interop.wire.access_steps import ACL_STEPS, AUTH_STEPS, Asked
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

_VERSIONS = {accounts.ACL: "4.9.7", accounts.AUTH: "5.5.0"}
_STEPS = {accounts.ACL: ACL_STEPS, accounts.AUTH: AUTH_STEPS}
_SIGNERS: dict[str, probe.Signer | None] = {
    "admin": accounts.ADMIN,
    "app": accounts.APP,
    "wrong": (accounts.ADMIN[0], "wrong-secret-1"),
    "nobody at all": None,
}


def _cases() -> list[object]:
    cases: list[object] = []
    for generation, steps in _STEPS.items():
        for asked in steps:
            marks = [pytest.mark.xdist_group(f"access-mqadmin-{generation}")]
            if generation == accounts.ACL:  # the tool of 5.x waits seconds at the end of many commands
                marks.append(pytest.mark.wire_core)
            cases.append(pytest.param(generation, asked, marks=marks, id=f"{generation}-{asked.step.name}"))
    return cases


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, mqadmin.Mqadmin]]:
    """One running tool a generation, started by the first test that wants it."""
    started: dict[str, mqadmin.Mqadmin] = {}
    yield started
    for tool in started.values():
        tool.close()


@pytest.mark.parametrize(("generation", "asked"), _cases())
def test_mqadmin_that_signs(
    guarded_servers: Callable[[str], servers.Servers],
    tools: dict[str, mqadmin.Mqadmin],
    tmp_path_factory: pytest.TempPathFactory,
    generation: str,
    asked: Asked,
) -> None:
    version = _VERSIONS[generation]
    require(programs.why_no_java(version))
    if generation not in tools:
        folder = tmp_path_factory.mktemp(f"mqadmin-{version}")
        properties = accounts.java_properties()
        tools[generation] = mqadmin.Mqadmin(
            version, guarded_servers(generation), f"wadm{version[0]}", folder, properties=properties
        )
    tool = tools[generation]
    signer = _SIGNERS[asked.by]
    if signer is None:
        tool.sign_nothing()
    else:
        tool.sign(*signer)
    command, *words = asked.step.words(tool.names)
    answer = tool.run(command, words)
    assert answer.has_failed == asked.step.is_refused, answer.text
    complaints = asked.step.complaints(answer.text, tool.names)
    assert not complaints, f"{complaints}\n{answer.text}"
    told = [secret for secret in (*accounts.SECRETS, "new1-secret-1") if secret in answer.text]
    assert not told, answer.text
