"""The files in ``config``, which the broker keeps; their form and their safety are the store's business."""

from __future__ import annotations

from flaremq.storage.config_file import ConfigFile, Rendered, render, render_entry, render_integers

__all__ = ["ConfigFile", "Rendered", "render", "render_entry", "render_integers"]
