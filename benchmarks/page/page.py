"""``docs/performance.md`` from results: only what was measured, and the words on what limits a line."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.page import values
from benchmarks.page.limits import Limit
from benchmarks.page.merge import Section, Source
from benchmarks.timing import Row

_HEAD = """# Performance

<!-- Written by `python -m benchmarks report`; change what it is made from: results, and `benchmarks/limits.toml`. -->

Everything here was measured by `python -m benchmarks`, ours and the other side in turns on one machine, and is written
as it came out. A **ratio** says how many times better ours is than the best of the others: the median over rounds in
each of which both ran; above 1 we are ahead. **Spread** is the lowest and the highest round. How to repeat it, and how
to compare two trees: [measuring.md](measuring.md).
"""
_GROWTH_COLUMNS = (
    ("put_us", "put", "us"),
    ("pull_us", "pull", "us"),
    ("recovery_s", "open after a kill", "s"),
    ("planning_s", "planning", "s"),
    ("memory_MB", "memory", "MB"),
)
_BUSY = "†"


def render(sections: dict[str, Section], headings: dict[str, tuple[str, str]], limits: list[Limit]) -> str:
    """``headings``: title and a sentence or two about what is measured, by part."""
    titles = {name: title for name, (title, _) in headings.items()}
    shown = [sections[name] for name in titles if name in sections and sections[name].sources]
    pieces = [_HEAD, _summary(shown, titles), *_machines(shown)]
    for section in shown:
        pieces += [f"## {titles[section.name]}\n", headings[section.name][1] + "\n", *_section(section, limits)]
    return "\n".join(pieces)


def unknown_limits(sections: dict[str, Section], limits: list[Limit]) -> list[str]:
    """Lines of measured parts that have words but are not among the results: misspelt, or gone."""
    known = {f"{name}: {key}" for name, section in sections.items() for key in section.lines}
    lines = [line for limit in limits for line in limit.lines if line.partition(": ")[0] in sections]
    return [line for line in lines if line not in known]


def _summary(sections: list[Section], titles: dict[str, str]) -> str:
    rows = ["| part | measured | goals reached | alone on the machine |", "|---|---|---:|---|"]
    for section in sections:
        verdicts = [line["reached"] for line, _ in section.lines.values() if line["reached"] is not None]
        dates = ", ".join(dict.fromkeys(source.date[:10] for source in section.sources))
        alone = "no" if any(_is_loaded(source) for source in section.sources) else "yes"
        modes = ", ".join(dict.fromkeys(source.mode for source in section.sources if source.mode != "full"))
        reached = f"{sum(verdicts)} of {len(verdicts)}" if verdicts else ""
        when = f"{dates} ({modes})" if modes else dates
        rows.append(f"| [{titles[section.name]}](#{_anchor(titles[section.name])}) | {when} | {reached} | {alone} |")
    return "\n".join(rows) + "\n"


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _machines(sections: list[Section]) -> Iterator[str]:
    described = dict.fromkeys(_machine(source.machine) for section in sections for source in section.sources)
    yield "\n".join(described) + "\n"


def _machine(machine: Row) -> str:
    """One line; what differs from run to run of one machine is left out."""
    java = (machine.get("java") or "none").replace('"', "")
    return (
        f"Machine: {machine['cores']} cores of {machine['processor']}, {machine['memory_GiB']:g} GiB, "
        f"{machine['file_system']}, Linux {machine['kernel']}, Python {machine['python']}, Java: {java}."
    )


def _section(section: Section, limits: list[Limit]) -> Iterator[str]:
    sources = section.sources
    marks = {id(source): f" [{number}]" if len(sources) > 1 else "" for number, source in enumerate(sources, 1)}
    for source in sources:
        yield _provenance(source, section, marks[id(source)]) + "\n"
    if section.lines:
        yield "\n".join(_table(section, marks)) + "\n"
        if any(line["busy"] for line, _ in section.lines.values()):
            yield f"{_BUSY} others used more than 0.3 cores during a run of it.\n"
        below = list(_below_goal(section, limits))
        if below:
            yield "Below their goals:\n"
            yield "\n".join(below) + "\n"
    if section.growth:
        yield "\n".join(_growth(section, marks)) + "\n"


def _provenance(source: Source, section: Section, mark: str) -> str:
    """When, what and beside which load."""
    rounds = [
        len(line["ours"]["samples"])
        for line, own in section.lines.values()
        if own is source and line["ours"]["samples"]
    ]
    counted = f", {_range(rounds)} round{'' if set(rounds) == {1} else 's'}" if rounds else ""
    text = f"{mark.strip()} " if mark else ""
    text += (
        f"Measured {source.moment:%Y-%m-%d %H:%M} UTC at commit {source.commit or 'unknown'}, {source.mode} settings"
    )
    text += f"{counted}, {source.seconds / 60:.1f} minutes."
    if not source.is_complete:
        text += " **The run was interrupted:** what is not here was not reached."
    load = source.load
    if load is None:
        return text
    before, meanwhile = load["load_average_before"][0], load["other_cores_mean"]
    text += f" Load average before: {before:.2f}; others used {meanwhile:.2f} cores meanwhile."
    if load["is_loaded"]:
        text += (
            f" **Beside other work:** {'; '.join(load['reasons'])}. Repeat it on a quiet machine before relying on it."
        )
    return text


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _is_loaded(source: Source) -> bool:
    return source.load is None or bool(source.load["is_loaded"])


def _table(section: Section, marks: dict[int, str]) -> Iterator[str]:
    yield "| what | ours | theirs | ratio | spread | goal | reached |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for line, source in section.lines.values():
        best, ratio = line.get("best"), line.get("ratio")
        theirs = f"{values.value(line['theirs'][best]['median'], line['unit'])} ({best})" if best else ""
        label = line["label"].strip()
        label = f"· {label}" if line["label"].startswith(" ") else label
        cells = (
            label + (f" {_BUSY}" if line["busy"] else "") + marks[id(source)],
            values.value(line["ours"]["median"], line["unit"]),
            theirs,
            values.ratio(ratio["median"]) if ratio else "",
            values.spread(line),
            values.goal(line),
            {True: "yes", False: "**no**", None: ""}[line["reached"]],
        )
        yield f"| {' | '.join(cells)} |"


def _below_goal(section: Section, limits: list[Limit]) -> Iterator[str]:
    """Each line once, with those that have the same words."""
    below = [key for key, (line, _) in section.lines.items() if line["reached"] is False]
    by_line = {line: limit for limit in limits for line in limit.lines}
    told: set[int] = set()
    for key in below:
        limit = by_line.get(f"{section.name}: {key}")
        if limit is None:
            yield f"- **{key}**: not looked into yet."
        elif id(limit) not in told:
            told.add(id(limit))
            keys = [other for other in below if f"{section.name}: {other}" in limit.lines]
            tried = f" Tried: {limit.tried}" if limit.tried else ""
            yield f"- **{'; '.join(keys)}**: {limit.limits}{tried}"


def _growth(section: Section, marks: dict[int, str]) -> Iterator[str]:
    """A table a kind of growth: absolute at the smallest, then how many times as much."""
    yield "| | " + " | ".join(title for _, title, _ in _GROWTH_COLUMNS) + " |"
    yield "|---|" + "---:|" * len(_GROWTH_COLUMNS)
    for name, (rows, source) in section.growth.items():
        first = rows[0]
        for row in rows:
            cells = [f"{row['count']:,} {name}{marks[id(source)]}"]
            for key, _, unit in _GROWTH_COLUMNS:
                cells.append(_grown(row.get(key), first.get(key), unit, is_first=row is first))
            yield f"| {' | '.join(cells)} |"


def _grown(number: float | None, first: float | None, unit: str, *, is_first: bool) -> str:
    if number is None:
        return ""
    times = "" if is_first or not first else f" (× {values.ratio(number / first)})"
    return values.value(number, unit) + times
