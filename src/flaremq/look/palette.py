"""The colours of our pages, in two sets. Every text stands on its grounds with a contrast of 4.5 or more.

Names: ``ground`` page, ``card`` section, ``ink`` and ``soft`` text, ``link``, ``line``, ``grid`` and ``field`` rules,
``s0`` to ``s5`` the series of charts, and for each severity a text colour and its ground.
"""

from __future__ import annotations

LIGHT = {
    "ground": "#f5f6f8",
    "card": "#ffffff",
    "ink": "#1b1f27",
    "soft": "#59616f",
    "link": "#2259b8",
    "line": "#dfe3e9",
    "grid": "#e8ebf0",
    "s0": "#2f6fde",
    "s1": "#e08a1e",
    "s2": "#2a9d72",
    "s3": "#b0479a",
    "s4": "#5f63c9",
    "s5": "#9aa3b1",
    "critical": "#a8231b",
    "critical-ground": "#fdecea",
    "warning": "#7d5200",
    "warning-ground": "#fff4dc",
    "note": "#2b5797",
    "note-ground": "#e9f0fb",
    "good": "#17694a",
    "good-ground": "#e3f4ec",
    "mark": "#b3261e",
    "field": "#828a98",
    "row": "#f8f9fb",
}
DARK = {
    "ground": "#12151b",
    "card": "#1b1f27",
    "ink": "#e7eaf0",
    "soft": "#a3adbc",
    "link": "#8ab2ff",
    "line": "#2e3541",
    "grid": "#272d38",
    "s0": "#6ea0ff",
    "s1": "#f2b053",
    "s2": "#4fc79a",
    "s3": "#dd82ca",
    "s4": "#9b9ef2",
    "s5": "#6b7584",
    "critical": "#ff9d95",
    "critical-ground": "#3b1c1a",
    "warning": "#f3c46b",
    "warning-ground": "#35290f",
    "note": "#9dc0f5",
    "note-ground": "#182941",
    "good": "#6fd6ae",
    "good-ground": "#12301f",
    "mark": "#ff9d95",
    "field": "#6f7988",
    "row": "#20252e",
}


def declarations(colours: dict[str, str]) -> str:
    """Custom properties of a style sheet."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def switched_sheet() -> str:
    """A style sheet of both sets: the browser's choice, unless the page's ``data-theme`` says otherwise."""
    return (
        f":root {{ color-scheme: light; {declarations(LIGHT)} }}\n"
        "@media (prefers-color-scheme: dark) {\n"
        f":root:not([data-theme=light]) {{ color-scheme: dark; {declarations(DARK)} }}\n}}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {declarations(DARK)} }}\n"
    )
