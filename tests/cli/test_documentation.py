"""The pages that are made from the code cover all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.cli.mqadmin.table import ABSENT, COMMANDS
from flaremq.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from flaremq.namesrv.options import NamesrvOptions
from flaremq.options import rows
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.option_names import OTHER_LAYERS_OWN
from flaremq.storage.options import StoreOptions, unknown_names

DOCS = Path(__file__).resolve().parents[2] / "docs"
LAYERS = (
    StoreOptions,
    BrokerOptions,
    RemotingOptions,
    NamesrvOptions,
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
    own = {row.key for kind in (BrokerOptions, RemotingOptions) for row in rows(kind) if not row.is_rocketmq}
    assert own == OTHER_LAYERS_OWN
    names = [row.key for kind in (BrokerOptions, RemotingOptions) for row in rows(kind)]
    assert unknown_names(names) == []
