"""Objects that find their way home: a process that unpickles one may not have FlareMQ on its path.

What plans and runs a stream behind Spark Connect gets none of a session's artifacts (Spark 4.3), though everything else
does. But what it unpickles was pickled by one that did. So where this package was shipped, the pickle first adds the
folder that it was unpacked to, by the standard library alone, and only then names our class.
"""

from __future__ import annotations

import operator
import os
import site
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Folder:
    """Unpickled, it is on the path."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return site.addsitedir, (self.path,)


@dataclass(frozen=True, slots=True)
class _Plain:
    """Unpickled, it is its content."""

    content: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return remade, (type(self.content), self.content.__getstate__())


def remade(kind: type[Any], state: dict[str, Any]) -> Any:
    """An object as it was."""
    content: Any = object.__new__(kind)
    restore = getattr(content, "__setstate__", content.__dict__.update)
    restore(state)
    return content


def reduced(content: Any) -> tuple[Any, ...]:
    """What ``__reduce__`` of an object with a ``__dict__`` says."""
    package = sys.modules["flaremq"]
    if getattr(package, "__shipped__", None) is None:
        return _Plain(content).__reduce__()
    folder = os.path.dirname(package.__path__[0])
    return operator.getitem, ([_Folder(folder), _Plain(content)], 1)
