"""Write the pages of docs/ that are made from the code: ``python docs/generate.py [--check]``.

With ``--check`` nothing is written; the exit code is 1 if a page on disk is not what the code says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flaremq.options import markdown_table, rows
from flaremq.storage.option_names import IGNORED_BY_ROCKETMQ, NOT_IMPLEMENTED, OTHER_LAYERS
from flaremq.storage.options import StoreOptions

DOCS = Path(__file__).resolve().parent

HEAD = """\
# Options of the store

<!-- Written by `make docs` from the rows in src/flaremq/storage/options.py; change them there. -->

Names, meaning and defaults are RocketMQ's, so a `broker.conf` serves both; only `flushDiskType` has another
default. In Python the same option is the snake_case of its name, as in
`StoreOptions(mapped_file_size_commit_log=1 << 28)`. A value that is not allowed is refused, and so is a
name that nobody knows.

Options marked **no effect here** are accepted for the sake of existing files; setting one gives a warning.
"""

SECTIONS = (
    ("behaviour", "Behaviour", "What the store does, and what its files look like."),
    ("durability", "Durability", "What survives a crash, a power cut or a damaged disk, and when."),
    ("speed", "Speed", "How fast, at no cost to the above."),
)


def options_page() -> str:
    store_rows = rows(StoreOptions)
    parts = [HEAD]
    for affects, title, sentence in SECTIONS:
        table = markdown_table(row for row in store_rows if row.affects == affects)
        parts.append(f"## {title}\n\n{sentence}\n\n{table}")
    own = ", ".join(f"`{row.key}`" for row in store_rows if not row.is_rocketmq)
    names = "\n".join(f"- {sentence}." for sentence in IGNORED_BY_ROCKETMQ.values())
    parts.append(
        "## Names without a row\n\n"
        f"Ours alone, unknown to RocketMQ and ignored by it: {own}.\n\n"
        f"Accepted and left to other layers of a broker: {len(OTHER_LAYERS)} names, such as `brokerName`, "
        "`namesrvAddr` and `autoCreateTopicEnable`.\n\n"
        f"Accepted with a warning, because what they set does not exist here: {len(NOT_IMPLEMENTED)} names "
        "of RocketMQ's store, such as `timerWheelEnable`, `enableDLegerCommitLog` and `storeType`.\n\n"
        f"Accepted with a warning, because RocketMQ ignores them too:\n\n{names}\n"
    )
    return "\n".join(parts)


PAGES = {"options.md": options_page}


def main(arguments: list[str]) -> int:
    stale = []
    for name, render in PAGES.items():
        page = DOCS / name
        text = render()
        if "--check" not in arguments:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        print(f"out of date, run `make docs`: {', '.join(stale)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
