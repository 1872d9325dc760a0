"""The pages that are made from the code cover all of it; the pages about the code name what is there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.cli.mqadmin.table import ABSENT, COMMANDS
from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from flaremq.controller.options import ControllerOptions
from flaremq.grpc.options import GrpcOptions
from flaremq.metrics.options import ControllerMetricsOptions, MetricsOptions, NamesrvMetricsOptions
from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import rows
from flaremq.proxy.options import ProxyOptions
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.option_names import OTHER_LAYERS_OWN
from flaremq.storage.options import StoreOptions, unknown_names

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# A module, package or folder as the pages write it: storage/log/commit_log.py, storage/log/commit_log, broker/delay
PATH = re.compile(
    r"(?<![\w/.-])(?:message|protocol|storage|remoting|namesrv|controller|broker|client|testing|pipeline|cli|tests)/[a-z_]+[\w/]*(?:\.py)?"
)
LAYERS = (
    StoreOptions,
    BrokerOptions,
    RemotingOptions,
    GrpcOptions,
    NamesrvOptions,
    ControllerOptions,
    ProxyOptions,
    MetricsOptions,
    NamesrvMetricsOptions,
    ControllerMetricsOptions,
    ClientOptions,
    ProducerOptions,
    ConsumerOptions,
)


@pytest.mark.parametrize("options", LAYERS, ids=lambda options: options.__name__)
def test_the_options_page_has_a_line_for_every_option_of_a_layer(options: type[Any]) -> None:
    page = (DOCS / "options.md").read_text(encoding="utf-8")
    assert [row.key for row in rows(options) if f"| `{row.key}` |" not in page] == []


def test_the_mqadmin_page_has_every_command_and_every_absent_one() -> None:
    page = (DOCS / "mqadmin.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"## `flaremq mqadmin {name}`\n" not in page] == []
    assert [name for name in ABSENT if f"| `{name}` |" not in page] == []


def test_the_store_knows_the_names_of_every_other_layer_that_shares_its_file() -> None:
    kinds = (BrokerOptions, GrpcOptions, MetricsOptions, RemotingOptions)
    own = {row.key for kind in kinds for row in rows(kind) if not row.is_rocketmq}
    assert own == OTHER_LAYERS_OWN
    names = [row.key for kind in kinds for row in rows(kind)]
    assert unknown_names(names) == []


def test_generated_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_that_the_page_about_them_names_exist() -> None:
    named = set(PATH.findall((DOCS / "architecture.md").read_text(encoding="utf-8")))
    assert len(named) > 10
    assert [path for path in sorted(named) if not _exists(path)] == []


def _exists(path: str) -> bool:
    places = [base / path for base in (ROOT / "src" / "flaremq", ROOT)]
    return any(place.exists() or place.with_suffix(".py").exists() for place in places)


LINK = re.compile(r"\]\(([^)]+)\)")


def _examples(text: str) -> list[str]:
    """What is typed and printed, without remarks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.S | re.M)
    return [re.sub(r" +#.*", "", block) for block in blocks]


def test_the_readme_in_chinese_has_what_the_one_in_english_has() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    assert _examples(chinese) == _examples(english)
    levels = [re.findall(r"^(#+) ", text, re.M) for text in (english, chinese)]
    assert levels[0] == levels[1] and len(levels[0]) > 9
    links = [{link.partition("#")[0] for link in LINK.findall(text)} for text in (english, chinese)]
    assert links[0] - links[1] - {"README.zh-CN.md", ""} == set()
    bullets = [text.count("\n- **") for text in (english, chinese)]
    assert bullets[0] == bullets[1] > 8


@pytest.mark.parametrize(
    "page", [*sorted(page.name for page in DOCS.glob("*.md")), "../README.md", "../README.zh-CN.md"]
)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    places = {link.partition("#")[0] for link in LINK.findall(text) if not link.startswith(("http", "#"))}
    assert [place for place in sorted(places) if place and not (DOCS / page).parent.joinpath(place).exists()] == []


IMPORTS = sorted(
    {
        line.partition("#")[0].strip()
        for page in (ROOT / "README.md", *DOCS.glob("*.md"))
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r" *from flaremq[\w.]* import ", line)
    }
)


@pytest.mark.parametrize("line", IMPORTS)
def test_names_that_examples_import_are_there(line: str) -> None:
    (statement,) = ast.parse(line).body
    assert isinstance(statement, ast.ImportFrom) and statement.module is not None
    module = importlib.import_module(statement.module)
    for alias in statement.names:
        # A function as documented, not the module of the same name that a package would show once it is imported.
        assert callable(getattr(module, alias.name)), alias.name
