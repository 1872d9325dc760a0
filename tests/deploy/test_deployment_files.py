"""Units, container and manifests: each by the tool that knows it where it is there, and by what our servers take."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flaremq import __version__
from tests.support.cli import flaremq

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
VALUES = {"$(POD_NAME)": "flaremq-broker-0", "$(POD_IP)": "10.1.2.3"}


def documents() -> list[dict[str, Any]]:
    texts = (path.read_text(encoding="utf-8") for path in MANIFESTS if path.name != "kustomization.yaml")
    return [document for text in texts for document in yaml.safe_load_all(text)]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in documents() if one["kind"] == kind}


SETS = of_kind("StatefulSet")


def accepted(arguments: list[str]) -> None:
    """The server of these arguments takes its options: it prints them and starts nothing."""
    done = flaremq(*arguments, "-p")
    assert (done.code, done.err) == (0, ""), done


# systemd


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze")
    text = unit.read_text(encoding="utf-8")
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/opt/flaremq/.venv/bin/flaremq", "/bin/true"), encoding="utf-8")
    done = subprocess.run([tool, "verify", copy], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_command_of_a_unit_is_one(unit: Path, tmp_path: Path) -> None:
    (line,) = re.findall(r"^ExecStart=/opt/flaremq/.venv/bin/flaremq (.*)$", unit.read_text(encoding="utf-8"), re.M)
    (tmp_path / "x.conf").write_text("")
    accepted(
        [
            word.replace("/var/lib", str(tmp_path)) if not word.endswith(".conf") else str(tmp_path / "x.conf")
            for word in line.split()
        ]
    )


# Container


COMPOSE = yaml.safe_load((DEPLOY / "container" / "compose.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["namesrv", "broker"])
def test_the_command_of_a_composed_server_is_one(name: str) -> None:
    words = [re.sub(r"\$\{BROKER_IP:.*\}", "192.0.2.10", word) for word in COMPOSE["services"][name]["command"]]
    accepted(words)


def test_compose_understands_its_file() -> None:
    tool = shutil.which("docker")
    if tool is None or subprocess.run([tool, "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("there is no docker compose")
    done = subprocess.run(
        [tool, "compose", "-f", DEPLOY / "container" / "compose.yml", "config", "--quiet"],
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "BROKER_IP": "192.0.2.10", "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_composed_services_name_volumes_and_files_that_are_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / "container" / source).exists(), source
    assert (DEPLOY.parent / COMPOSE["x-server"]["build"]["dockerfile"]).exists()


def test_the_image_is_built_from_files_that_are_there_and_does_not_run_as_root() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    assert (DEPLOY.parent / "requirements" / "core.txt").exists() and "requirements/core.txt" in text
    assert re.search(r"^USER 10001:10001$", text, re.M)
    (command,) = re.findall(r"^CMD (.*)$", text, re.M)
    assert yaml.safe_load(command)[0] == "up"


# Kubernetes


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, found in SETS.items():
        spec = found["spec"]["template"]["spec"]
        for container in spec["containers"]:
            yield name, spec, container


def test_manifests_are_applied_in_one_go() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS if path.name != "kustomization.yaml"]
    tool = shutil.which("kubectl")
    if tool is None:
        pytest.skip("there is no kubectl")
    line = [tool, "kustomize", DEPLOY / "kubernetes"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(list(yaml.safe_load_all(done.stdout))) == len(documents())


def validated(*files: Path) -> tuple[int, str]:
    """What kubernetes-validate says of manifests, by the schemas it brings along."""
    folder = DEPLOY.parent / ".cache" / "manifests"
    if not (folder / "kubernetes_validate").exists():
        pytest.skip("there is no kubernetes-validate: .ci/manifests python .cache/manifests fetches it")
    line = [sys.executable, "-m", "kubernetes_validate", "--strict", *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_manifests_have_the_schema_of_their_kinds() -> None:
    code, told = validated(*(path for path in MANIFESTS if path.name != "kustomization.yaml"))
    assert code == 0, told
    assert told.count(" passed for resource ") == len(documents())


def test_a_misspelt_field_of_a_manifest_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "broker.yaml"
    text = (DEPLOY / "kubernetes" / "broker.yaml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("serviceName:", "servicename:"), encoding="utf-8")
    code, told = validated(wrong)
    assert code == 1 and "'servicename' was unexpected" in told


def test_what_pods_refer_to_is_there() -> None:
    maps, secrets = of_kind("ConfigMap"), of_kind("Secret")
    for name, spec, container in containers():
        found = {volume["name"]: volume for volume in spec["volumes"]}
        claims = {claim["metadata"]["name"] for claim in SETS[name]["spec"]["volumeClaimTemplates"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == found.keys() | claims
        for volume in found.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps
            if "secret" in volume:
                assert volume["secret"]["secretName"] == "flaremq-tls", "made by whoever makes certificates"
        for variable in container["env"]:
            reference = variable["valueFrom"].get("secretKeyRef")
            assert reference is None or reference["key"] in secrets[reference["name"]]["stringData"]
        ports = {port["name"] for port in container["ports"]}
        probes = [container[probe] for probe in container if probe.endswith("Probe")]
        assert len(probes) >= 2
        assert all((probe.get("httpGet") or probe.get("tcpSocket"))["port"] in ports for probe in probes)
        assert container["image"] == f"flaremq:{__version__}"


def test_services_and_budgets_choose_the_pods_they_are_for() -> None:
    services, budgets = of_kind("Service"), of_kind("PodDisruptionBudget")
    for name, found in SETS.items():
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert found["spec"]["selector"]["matchLabels"] == labels
        service = services[found["spec"]["serviceName"]]
        assert service["spec"]["selector"] == labels and service["spec"]["clusterIP"] == "None"
        assert budgets[name]["spec"]["selector"]["matchLabels"] == labels
        ports = {port["name"] for port in found["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_pods_may_do_no_more_than_they_need() -> None:
    for _, spec, container in containers():
        assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", SETS)
def test_the_server_of_a_pod_takes_its_options(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = of_kind("Secret")["flaremq-accounts"]["stringData"]
    monkeypatch.setenv("FLAREMQ_ROOT", secret["root"])
    monkeypatch.setenv("FLAREMQ_INNER", secret["inner"])
    for file, text in of_kind("ConfigMap")["flaremq"]["data"].items():
        (tmp_path / file).write_text(text.replace("/data", str(tmp_path / "data")), encoding="utf-8")
    (container,) = SETS[name]["spec"]["template"]["spec"]["containers"]
    words = [word.replace("/conf/", f"{tmp_path}/") for word in container["args"]]
    for variable, value in VALUES.items():
        words = [word.replace(variable, value) for word in words]
    accepted(words)


def test_name_servers_that_brokers_are_told_are_pods_of_the_set() -> None:
    found = SETS["flaremq-namesrv"]["spec"]
    pods = [f"flaremq-namesrv-{n}.{found['serviceName']}:9876" for n in range(found["replicas"])]
    assert f"namesrvAddr={';'.join(pods)}\n" in of_kind("ConfigMap")["flaremq"]["data"]["broker.conf"]
