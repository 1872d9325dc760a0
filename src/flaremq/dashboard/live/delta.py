"""What changed between two looks at a page: values by path, points behind series. Pure."""

from __future__ import annotations

from typing import Any, Final

_SERIES: Final = {"step_ms", "from_ms", "points"}
Change = dict[str, Any]


def delta(old: Any, new: Any) -> tuple[Change, dict[str, list[list[Any]]]]:
    """``set`` and ``append``: new values by path, new points by the path of their series."""
    changed: Change = {}
    appended: dict[str, list[list[Any]]] = {}
    _compare(old, new, "", changed, appended)
    return changed, appended


def _compare(old: Any, new: Any, path: str, changed: Change, appended: dict[str, list[list[Any]]]) -> None:
    if old == new and type(old) is type(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        if new.keys() == _SERIES == old.keys():
            points = _new_points(old, new)
            if points is not None:
                if points:
                    appended[path] = points
                return
            changed[path] = new
            return
        for key, value in new.items():
            if key not in old:
                changed[f"{path}/{_escaped(key)}"] = value
            else:
                _compare(old[key], value, f"{path}/{_escaped(key)}", changed, appended)
        for key in old.keys() - new.keys():
            changed[f"{path}/{_escaped(key)}"] = None
        return
    if isinstance(old, list) and isinstance(new, list):
        ids = _ids(new)
        if ids is not None and ids == _ids(old):
            for name, before, after in zip(ids, old, new, strict=True):
                _compare(before, after, f"{path}/{_escaped(name)}", changed, appended)
            return
    changed[path] = new


def _ids(rows: list[Any]) -> list[str] | None:
    """The ids of rows, if all have one."""
    if not rows:
        return None
    ids = [row.get("id") if isinstance(row, dict) else None for row in rows]
    return [str(name) for name in ids] if None not in ids else None


def _new_points(old: dict[str, Any], new: dict[str, Any]) -> list[list[Any]] | None:
    """What came behind a series; None if it is not the same series going on."""
    step = new["step_ms"]
    if old["step_ms"] != step or not old["points"] or not new["points"] or new["from_ms"] < old["from_ms"]:
        return None
    last = old["from_ms"] + (len(old["points"]) - 1) * step
    first = (last - new["from_ms"]) // step  # the last point may have been told again
    if first < 0 or first >= len(new["points"]):
        return None
    found = [[new["from_ms"] + at * step, new["points"][at]] for at in range(first, len(new["points"]))]
    return found[1:] if found[0][1] == old["points"][-1] else found


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
