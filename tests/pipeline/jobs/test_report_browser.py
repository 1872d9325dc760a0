"""The page in a real browser: nothing is blocked, nothing complains, charts have a size, a phone needs no scrolling."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flaremq.pipeline.jobs.report.html import render_page
from tests.pipeline.report_samples import HOSTILE, full_document

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here"),
]

# What the page looks like to a reader, written into the page by a probe that the test adds: every chart's size, the
# width of the content, whether the style sheet was applied.
_PROBE = """
<script>
addEventListener("load", () => {
  const charts = [...document.querySelectorAll("svg[role=img]")].map(svg => {
    const box = svg.getBoundingClientRect();
    const bars = [...svg.querySelectorAll("rect:not(.hit)")].filter(bar => bar.getBoundingClientRect().height > 0);
    return `${Math.round(box.width)}x${Math.round(box.height)}:${bars.length}`;
  });
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const colour = getComputedStyle(document.body).backgroundColor;
  document.title = JSON.stringify({ charts, wide, colour });
});
</script>
"""


def browse(page: str, folder: Path, *arguments: str) -> tuple[str, str]:
    """The page's document as the browser has it after loading, and what went to the console."""
    assert BROWSER is not None
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    done = subprocess.run(
        [*command, f"--user-data-dir={folder / 'profile'}", *arguments, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.parametrize("name", ["orders", HOSTILE[0], HOSTILE[1]])
def test_the_page_loads_without_a_complaint(name: str, tmp_path: Path) -> None:
    document, console = browse(render_page(full_document(name)), tmp_path)
    assert console == ""
    assert "<script" not in document and "onload=" not in re.sub(r"&lt;.*?&gt;|title=\"[^\"]*\"", "", document)
    assert document.count("<section") == 11


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.parametrize(("scheme", "colour"), [(1, "rgb(245, 246, 248)"), (0, "rgb(18, 21, 27)")])
def test_charts_are_visible_in_both_themes_and_nothing_overflows(
    width: int, scheme: int, colour: str, tmp_path: Path
) -> None:
    page = render_page(full_document())
    # The probe needs script, which the page itself forbids; everything else stays forbidden.
    page = page.replace(
        "default-src &#x27;none&#x27;;", "default-src &#x27;none&#x27;; script-src &#x27;unsafe-inline&#x27;;"
    )
    page = page.replace("</body>", _PROBE + "</body>")
    document, console = browse(
        page, tmp_path, f"--window-size={width},2000", f"--blink-settings=preferredColorScheme={scheme}"
    )
    assert console == ""
    found = re.search(r"<title>(.*?)</title>", document)
    assert found is not None
    seen = json.loads(html.unescape(found.group(1)))
    assert seen["colour"] == colour
    assert seen["wide"] <= 0
    assert len(seen["charts"]) == 4
    for chart in seen["charts"]:
        size, bars = chart.split(":")
        chart_width, height = map(int, size.split("x"))
        assert chart_width > 250 and height >= 20 and int(bars) >= 1, chart
