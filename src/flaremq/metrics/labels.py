"""Labels as text: names in alphabetical order, values escaped. A template for each set of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pairs = tuple[tuple[str, str], ...]


def escaped(value: str) -> str:
    """A label's value between its quotes."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    if "\n" in value:
        value = value.replace("\n", "\\n")
    return value


class Labeller:
    """Writes labels, those that all samples share among them."""

    def __init__(self, common: Mapping[str, str]) -> None:
        self._common = dict(common)
        self._templates: dict[tuple[tuple[str, ...], Pairs], tuple[str, tuple[int, ...]]] = {}

    def text(self, names: tuple[str, ...], values: Sequence[str | None], constant: Pairs = ()) -> str:
        """``a="1",b="2"``; a label whose value is None is left out."""
        if None in values:
            kept = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
            names, values = tuple(name for name, _ in kept), [value for _, value in kept]
        found = self._templates.get((names, constant))
        if found is None:
            found = self._templates[names, constant] = self._template(names, constant)
        template, order = found
        return template % tuple([escaped(values[at]) for at in order])  # type: ignore[arg-type]  # none is None

    def _template(self, names: tuple[str, ...], constant: Pairs) -> tuple[str, tuple[int, ...]]:
        """The text with ``%s`` for the values, and which of them stands where."""
        fixed = {name: value for name, value in {**self._common, **dict(constant)}.items() if name not in names}
        every = sorted([*fixed, *names])
        parts = [
            f'{name}="%s"' if name in names else f'{name}="{escaped(fixed[name])}"'.replace("%", "%%") for name in every
        ]
        return ",".join(parts), tuple(names.index(name) for name in every if name in names)
