"""Static files: the palette of the report, nothing from elsewhere, vendored files as published, all in the wheel."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import flaremq.dashboard
from flaremq.look.palette import DARK, LIGHT, switched_sheet

FOLDER = Path(flaremq.dashboard.__file__).parent
STATIC = FOLDER / "static"
ROOT = FOLDER.parents[2]
GROUNDS = ("ground", "card", "row")
TEXTS = ("ink", "soft", "link")
SEVERITIES = ("critical", "warning", "note", "good")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_every_text_can_be_read_on_every_ground(colours: dict[str, str]) -> None:
    pairs = [(text, ground) for text in TEXTS for ground in (*GROUNDS, "grid")]
    pairs += [(name, f"{name}-ground") for name in SEVERITIES] + [("card", "link")]
    assert {
        pair: contrast(*(colours[name] for name in pair))
        for pair in pairs
        if contrast(*(colours[name] for name in pair)) < 4.5
    } == {}
    assert contrast(colours["field"], colours["card"]) >= 3  # the edge of a field


def test_the_style_sheet_has_the_palette_of_the_report_and_names_no_colour_itself() -> None:
    assert (STATIC / "palette.css").read_text(encoding="utf-8").partition("\n")[2] == switched_sheet()
    sheet = (STATIC / "dashboard.css").read_text(encoding="utf-8")
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b", sheet)
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", sheet)) <= set(LIGHT)
    assert LIGHT.keys() == DARK.keys()


def test_nothing_comes_from_elsewhere_and_nothing_is_evaluated() -> None:
    for path in [*STATIC.glob("*"), *(FOLDER / "templates").glob("*.html")]:
        if path.is_dir():
            continue
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|url\(|@import|\bdata:image", text), path.name
        assert not re.search(r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", text), (
            path.name
        )
        assert path.suffix != ".html" or not re.search(r"\sstyle=|<style|\son[a-z]+=|\|\s*safe\b", text), path.name


def test_vendored_files_are_those_that_were_published() -> None:
    notes = (STATIC / "vendor" / "README").read_text(encoding="utf-8")
    named = dict(re.findall(r"sha256\s+([0-9a-f]{64})\s+(\S+)", notes))
    sums = {name: digest for digest, name in named.items()}
    for path in (STATIC / "vendor").glob("*.min.*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sums[path.name]
    assert "MIT License" in (STATIC / "vendor" / "uPlot.LICENSE").read_text(encoding="utf-8")
    assert "uPlot" in (ROOT / "NOTICE").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_wheel_has_templates_and_static_files(tmp_path: Path) -> None:
    """Built without the hook: which files go in does not depend on compiled code."""
    code = (
        "from hatchling.builders.wheel import WheelBuilder\n"
        "import sys\n"
        "builder = WheelBuilder(sys.argv[1])\n"
        "builder.config.target_config.pop('hooks', None)\n"
        "builder.get_build_hooks = lambda directory: {}\n"
        "list(builder.build(directory=sys.argv[2], versions=['standard'], hooks_only=False))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        files = [path for path in (FOLDER / folder).rglob("*") if path.is_file()]
        assert files
        assert {path.relative_to(FOLDER.parents[1]).as_posix() for path in files} <= names
