"""Where a server keeps options that are changed while it runs: in the file it was given, else beside its state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from flaremq.cli import output as out

if TYPE_CHECKING:
    from flaremq.options_file import OptionsFile

# Set for children that were all given one file: what one of them changes must not change the others.
SHARED_FILE: Final = "FLAREMQ_SHARED_FILE"


def kept_options(config_file: str | None, own_path: str) -> tuple[OptionsFile, dict[str, str]]:
    """The file a server keeps, and what it says on top of the one it was given."""
    from flaremq.options_file import OptionsFile

    own = OptionsFile(own_path)
    if config_file is None or SHARED_FILE in os.environ:
        return own, own.read()
    if os.path.exists(own.path) and not os.path.samefile(own.path, config_file):
        out.note(f"flaremq: {own.path} is not read, because -c names {config_file}")
    return OptionsFile(config_file), {}
