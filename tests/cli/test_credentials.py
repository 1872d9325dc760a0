"""Who a command is: options, environment, tools.yml, in this order; and that no output shows a secret."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flaremq.cli.main import flaremq as front_door
from flaremq.errors import InvalidArgumentError
from tests.support import planted
from tests.support.cli import Outcome, flaremq
from tests.support.guarded_lab import INNER, ROOT, GuardedLab, write_private
from tests.support.planted import found_in

NAMED = ("FLAREMQ_ACCESS_KEY", "FLAREMQ_SECRET_KEY", "FLAREMQ_SECURITY_TOKEN", "ROCKETMQ_HOME", "NAMESRV_ADDR")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedLab]:
    with GuardedLab(tmp_path_factory.mktemp("guarded")) as lab:
        yield lab


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of who runs the tests counts."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    return write_private(tmp_path / "secret", ROOT.secret_key + "\n")


def clusters(lab: GuardedLab, *before: object) -> Outcome:
    """A command that asks name server and broker, with options before it."""
    return flaremq(*before, "cluster", "list", "-o", "json", "-n", lab.name_server)


def is_served(outcome: Outcome) -> bool:
    assert not found_in(outcome.out + outcome.err)
    assert (outcome.code == 0) == ("broker-a" in outcome.out), outcome
    return outcome.code == 0


def test_who_gives_no_name_is_refused_with_a_sentence(lab: GuardedLab) -> None:
    refused = clusters(lab)
    assert refused.code == 3 and not is_served(refused)
    assert refused.err.startswith("flaremq: ") and refused.err.count("\n") == 1
    assert "--access-key and --secret-key-file" in refused.err


def test_options_say_who_a_command_is(lab: GuardedLab, secret_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = ("--access-key", ROOT.access_key)
    assert is_served(clusters(lab, *name, "--secret-key-file", secret_file))
    assert is_served(clusters(lab, *name, "--secret-key", f"file:{secret_file}"))
    monkeypatch.setenv("MY_SECRET", ROOT.secret_key)
    assert is_served(clusters(lab, *name, "--secret-key", "env:MY_SECRET"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(ROOT.secret_key + "\n"))
    assert is_served(clusters(lab, *name, "--secret-key", "-"))


def test_options_may_stand_before_or_behind_the_command(lab: GuardedLab, secret_file: str) -> None:
    who = ("--access-key", ROOT.access_key, "--secret-key-file", secret_file)
    assert is_served(clusters(lab, *who))
    assert is_served(flaremq("cluster", "list", "-o", "json", "-n", lab.name_server, *who))
    assert flaremq("mqadmin", "clusterList", "-n", lab.name_server, *who).code == 0
    assert flaremq("mqadmin", "clusterList", "-n", lab.name_server).code == 3


def test_the_environment_says_who_a_command_is(lab: GuardedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", ROOT.secret_key)
    assert is_served(clusters(lab))
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", planted.CLIENT)
    assert not is_served(clusters(lab))


def test_tools_yml_says_who_a_command_is(lab: GuardedLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_private(
        tmp_path / "home" / "conf" / "tools.yml", f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n"
    )
    assert is_served(clusters(lab, "--tools-yml", file))
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "home"))
    assert is_served(clusters(lab))
    Path(file).unlink()
    assert not is_served(clusters(lab)), "RocketMQ's tools do without, too"
    write_private(Path(file), "# accessKey: x\n")
    assert not is_served(clusters(lab)), "an empty one says nothing"


def test_options_come_before_the_environment_and_that_before_tools_yml(
    lab: GuardedLab, tmp_path: Path, secret_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = f"accessKey: {ROOT.access_key}\nsecretKey: {planted.CLIENT}\n"
    right = f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n"
    write_private(tmp_path / "wrong" / "conf" / "tools.yml", wrong)
    write_private(tmp_path / "right" / "conf" / "tools.yml", right)
    who = ("--access-key", ROOT.access_key, "--secret-key-file", secret_file)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "wrong"))
    assert not is_served(clusters(lab))
    assert is_served(clusters(lab, *who)), "options before tools.yml"
    assert is_served(clusters(lab, "--tools-yml", tmp_path / "right" / "conf" / "tools.yml")), "named before found"
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", ROOT.secret_key)
    assert is_served(clusters(lab)), "the environment before tools.yml"
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "right"))
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", planted.CLIENT)
    assert not is_served(clusters(lab)), "the environment before tools.yml, although it is wrong"
    assert is_served(clusters(lab, *who)), "options before the environment"
    assert is_served(clusters(lab, "--secret-key-file", secret_file)), "the name from the environment, too"


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--access-key", "root", "--secret-key", planted.CLIENT], "--secret-key takes no secret", 2),
        (["--access-key", "root", "--secret-key", "env:A", "--secret-key-file", "x"], "keep one of them", 2),
        (["--access-key", "root"], "without its secretKey", 2),
        (["--secret-key", "env:A"], "without accessKey", 2),
        (["--access-key", "root", "--secret-key", "env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE", 2),
        (["--access-key", "root", "--secret-key-file", "/nowhere/at/all"], "cannot be read", 2),
        (["--tools-yml", "/nowhere/tools.yml"], "cannot be read", 2),
    ],
)
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["sentence", "traceback"])
def test_half_an_account_is_wrong_usage(
    lab: GuardedLab, arguments: list[str], words: str, code: int, debug: tuple[str, ...]
) -> None:
    outcome = flaremq("cluster", "list", "-n", lab.name_server, *arguments, *debug)
    assert outcome.code == code and words in outcome.err
    assert not found_in(outcome.out + outcome.err)


@pytest.mark.parametrize(
    "text",
    [
        f"accessKey: root\nsecretKey: [{planted.CLIENT}",
        f"accessKey: root\n\tsecretKey: {planted.CLIENT}",
        f"- {planted.CLIENT}\n",
        planted.CLIENT,
        f"secretKey: {planted.CLIENT}\n",
        f"accessKey: root\nsecretKey: !!python/name:x {planted.CLIENT}\n",
    ],
)
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["sentence", "traceback"])
def test_a_broken_tools_yml_is_refused_without_its_secret(
    lab: GuardedLab, text: str, debug: tuple[str, ...], tmp_path: Path
) -> None:
    outcome = clusters(lab, *debug, "--tools-yml", write_private(tmp_path / "tools.yml", text))
    assert outcome.code == 2 and "tools.yml" in outcome.err
    assert not found_in(outcome.out + outcome.err)


def test_a_tools_yml_that_others_may_read_is_refused(lab: GuardedLab, tmp_path: Path) -> None:
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    file.chmod(0o644)
    outcome = clusters(lab, "--tools-yml", file)
    assert outcome.code == 2 and "mode 0644: others could read it (chmod 600)" in outcome.err
    assert not found_in(outcome.out + outcome.err)


def test_every_command_that_takes_a_name_server_takes_an_account() -> None:
    def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")
            else:
                yield f"{path} {name}", command

    servers = ("flaremq up", "flaremq broker", "flaremq namesrv", "flaremq controller", "flaremq proxy")
    without = []
    for path, command in commands(front_door, "flaremq"):
        flags = {flag for parameter in command.params for flag in parameter.opts}
        asks = flags & {"-n", "--namesrv", "--name-server", "--namesrvAddr"}
        if asks and "--access-key" not in flags and not path.startswith(servers):
            without.append(path)
    assert without == []


# What commands show


def test_no_command_shows_a_secret(
    lab: GuardedLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", ROOT.access_key)
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", ROOT.secret_key)
    monkeypatch.setenv("FLAREMQ_SECURITY_TOKEN", planted.TOKEN)
    export = str(tmp_path / "export")
    shown = {}
    with caplog.at_level(logging.DEBUG):
        for line in (
            "config get",
            "config get --of-name-server -o json",
            "config set initAuthenticationUser=x",
            "user list -o json",
            "user list -o table",
            "acl list",
            "cluster status",
            "cluster list -o table",
            "topic list",
            "group list",
            f"mqadmin getBrokerConfig -b {lab.broker.address}",
            "mqadmin getBrokerConfig -c DefaultCluster",
            "mqadmin getNamesrvConfig",
            f"mqadmin getUser -b {lab.broker.address} -u {ROOT.access_key}",
            f"mqadmin getUser -b {lab.broker.address} -u {INNER.access_key} --showSecrets",
            "mqadmin listUser -c DefaultCluster --show-secrets",
            "mqadmin listAcl -c DefaultCluster",
            f"mqadmin brokerStatus -b {lab.broker.address}",
            f"mqadmin exportConfigs -c DefaultCluster -f {export}",
            f"mqadmin exportMetadata -c DefaultCluster -f {export}",
            f"mqadmin copyUser -f {lab.broker.address} -t {lab.broker.address}",
            f"mqadmin updateBrokerConfig -b {lab.broker.address} -k initAuthenticationUser -v x",
            "mqadmin updateNamesrvConfig -k innerClientAuthenticationCredentials -v x",
        ):
            for debug in ((), ("--debug",)):
                outcome = flaremq(*line.split(), "-n", lab.name_server, *debug)
                shown[line] = outcome.out + outcome.err
                assert not found_in(shown[line]), line
    assert "innerClientAuthenticationCredentials" in shown["config get"] and "******" in shown["config get"]
    assert "******" in shown["mqadmin listUser -c DefaultCluster --show-secrets"]
    assert "cannot be copied" in shown[f"mqadmin copyUser -f {lab.broker.address} -t {lab.broker.address}"]
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == ["configs.json", "metadata.json"]
    assert planted.files_with(tmp_path) == []
    assert not found_in("\n".join(logging.Formatter().format(record) for record in caplog.records))


@pytest.mark.parametrize("server", ["broker", "namesrv", "controller"])
def test_print_options_shows_that_there_is_a_secret_and_not_which(server: str, tmp_path: Path) -> None:
    user = json.dumps({"username": "root", "password": planted.INITIAL})
    inner = json.dumps({"accessKey": "inner", "secretKey": planted.INNER})
    file = write_private(
        tmp_path / "server.conf",
        f"authenticationEnabled=true\ninitAuthenticationUser={user}\ninnerClientAuthenticationCredentials={inner}\n",
    )
    outcome = flaremq(server, "-c", file, "-p")
    assert outcome.code == 0 and not found_in(outcome.out + outcome.err)
    values = {row["option"]: row["value"] for row in map(json.loads, outcome.out.splitlines())}
    assert values["initAuthenticationUser"] == values["innerClientAuthenticationCredentials"] == "******"
    assert values["authenticationEnabled"] is True


def test_a_secret_of_a_server_on_the_command_line_is_warned_of() -> None:
    user = json.dumps({"username": "root", "password": planted.INITIAL})
    outcome = flaremq("namesrv", "-p", "--set", f"initAuthenticationUser={user}")
    assert outcome.code == 0 and not found_in(outcome.out + outcome.err)
    assert outcome.err.startswith("warning: everybody on this machine can read initAuthenticationUser")
    assert flaremq("namesrv", "-p", "--set", "initAuthenticationUser=env:ROOT_OF_ALL").err == ""


# What a job of the pipeline is told


def options_of_a_job(*more: str) -> dict[str, str]:
    from flaremq.cli.pipeline.job import options_of

    with click.Context(front_door):
        return options_of(name_server="127.0.0.1:9876", more=more)


def test_a_job_gets_the_place_of_a_secret_and_not_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret_file: str
) -> None:
    monkeypatch.setenv("FLAREMQ_ACCESS_KEY", "app")
    monkeypatch.setenv("FLAREMQ_SECRET_KEY", planted.CLIENT)
    told = options_of_a_job()
    assert told == {"nameServer": "127.0.0.1:9876", "accessKey": "app", "secretKey": "env:FLAREMQ_SECRET_KEY"}
    told = options_of_a_job("accessKey=other", f"secretKeyFile={secret_file}")
    assert told == {"nameServer": "127.0.0.1:9876", "accessKey": "other", "secretKeyFile": secret_file}
    monkeypatch.delenv("FLAREMQ_ACCESS_KEY")
    monkeypatch.delenv("FLAREMQ_SECRET_KEY")
    tools = f"accessKey: app\nsecretKey: {planted.CLIENT}\n"
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    write_private(tmp_path / "conf" / "tools.yml", tools)
    assert options_of_a_job()["secretKey"] == "env:FLAREMQ_SECRET_KEY", "what Spark starts finds it there"


def test_a_secret_among_the_options_of_a_job_is_refused(secret_file: str) -> None:
    for name in ("secretKey", "SECRETKEY", "securityToken"):
        with pytest.raises(InvalidArgumentError, match="takes no secret") as caught:
            options_of_a_job("accessKey=app", f"{name}={planted.CLIENT}")
        assert not found_in(str(caught.value))
    with pytest.raises(InvalidArgumentError, match="both secretKey and secretKeyFile are given"):
        options_of_a_job("accessKey=app", "secretKey=env:X", f"secretKeyFile={secret_file}")
