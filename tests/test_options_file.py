"""A file of options that a running server keeps: what was typed stays, what was changed is in it."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.options import parse_properties
from flaremq.options_file import OptionsFile, rewritten

TYPED = """# of the shop's broker
brokerName = shop\x20\x20\x20
 fileReservedTime:72
! kept for the auditors
deleteWhen=04;\\
    16

brokerIP1=10.0.0.7"""


def test_only_the_changed_lines_are_rewritten() -> None:
    text = rewritten(TYPED, {"fileReservedTime": "48", "deleteWhen": "05", "maxMessageSize": "1024"})
    assert (
        text
        == TYPED.replace("fileReservedTime:72", "fileReservedTime:48").replace(
            "deleteWhen=04;\\\n    16", "deleteWhen=05"
        )
        + "\nmaxMessageSize=1024\n"
    )


def test_line_ends_of_windows_stay() -> None:
    assert rewritten("a=1\r\nb=2\r\n", {"a": "3", "c": "4"}) == "a=3\r\nb=2\r\nc=4\r\n"


def test_every_line_of_a_name_is_changed_because_the_last_one_counts() -> None:
    assert rewritten("a=1\nb=2\na=3\n", {"a": "9"}) == "a=9\nb=2\na=9\n"


NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
LINES = st.lists(
    st.one_of(
        st.builds("{}={}".format, NAMES, NAMES),
        st.builds("  {} : {}\\\n   {}".format, NAMES, NAMES, NAMES),
        st.builds("{} {}".format, NAMES, NAMES),
        st.builds("# {}={}\\".format, NAMES, NAMES),
        NAMES,
        st.just(""),
    )
).map("\n".join)


@given(LINES, st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"))))
def test_what_is_read_back_is_what_was_there_and_what_was_changed(text: str, values: dict[str, str]) -> None:
    values = {name: value.strip() for name, value in values.items()}
    assert parse_properties(rewritten(text, values)) == {**parse_properties(text), **values}


def keep(path: Path, values: dict[str, str]) -> str:
    return asyncio.run(OptionsFile(path).keep(values))


def test_mode_and_encoding_of_the_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes("# für alle\na=1\n".encode("latin-1"))
    path.chmod(0o640)
    assert keep(path, {"a": "2"}) == ""
    assert path.read_bytes() == "# für alle\na=2\n".encode("latin-1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["broker.conf"], "nothing is left beside it"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.conf").write_text("a=1\n")
    link = tmp_path / "broker.conf"
    link.symlink_to("real.conf")
    keep(link, {"a": "2"})
    assert link.is_symlink() and (tmp_path / "real.conf").read_text() == "a=2\n"


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "broker.conf"
    assert OptionsFile(path).read() == {}
    assert keep(path, {"a": "2"}) == ""
    assert OptionsFile(path).read() == {"a": "2"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("no folder")
    sentence = keep(tmp_path / "config" / "broker.conf", {"a": "2"})
    assert "lasts until the server stops" in sentence and "config/broker.conf" in sentence


@pytest.mark.parametrize("count", [20])
def test_changes_at_once_are_all_in_the_file(tmp_path: Path, count: int) -> None:
    file = OptionsFile(tmp_path / "broker.conf")

    async def main() -> None:
        await asyncio.gather(*(file.keep({f"name{number}": str(number)}) for number in range(count)))

    asyncio.run(main())
    assert file.read() == {f"name{number}": str(number) for number in range(count)}
