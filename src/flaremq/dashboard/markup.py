"""What templates have at hand beside filters of figures: charts, and text of strangers made harmless.

Every expression of a template goes through ``visible``: a control character or a direction mark in a name, a tag or a
body is spelled out wherever it would be shown. Values that a form sends back, and ids that scripts look up, are marked
``exact`` and stay as they are; both are escaped.
"""

from __future__ import annotations

import jinja2
from markupsafe import Markup, escape

from flaremq.look import charts
from flaremq.visible import visible


def furnish(environment: jinja2.Environment) -> None:
    """Give an environment what our templates use."""
    environment.undefined = jinja2.ChainableUndefined  # a row has some keys only if there is something to say
    environment.finalize = shown
    environment.filters["exact"] = escape
    environment.globals["lines"] = lines
    environment.globals["sparkline"] = lambda points, label="": Markup(charts.sparkline(points, label))
    environment.globals["line_chart"] = lambda series, caption: Markup(charts.line_chart(series, caption))


def shown(value: object) -> object:
    """What an expression of a template puts into the page."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def lines(text: str) -> Markup:
    """A text of several lines, for ``pre``."""
    return escape(visible(text, keep="\n\t"))
