"""What pages for people have in common, the pipeline's report and the dashboard: colours, figures, charts.

Owns: the palette, light and dark; values as a person reads them; charts as SVG.
May import: ``flaremq.visible``.
Start reading: ``palette``, ``format``, ``charts``.
"""

__all__ = ["charts", "format", "palette"]
