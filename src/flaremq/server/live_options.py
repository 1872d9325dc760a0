"""LiveOptions: the options of a running server, to be read as a whole and changed where a row is live.

Changing them over the wire is what several break-ins into RocketMQ were made of: a name server address, a path or a
class name set by anybody who reaches the port. So what may change are plain switches, numbers and choices; a request
with anything else, or with a value its row does not allow, is refused as a whole and changes nothing. What was changed
is written to the server's own file of options, if it has one, and to no file that a request could name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from flaremq.errors import InvalidArgumentError
from flaremq.options import change_live, check_live, live_refusals, parse_properties, properties_of
from flaremq.options_file import OptionsFile
from flaremq.protocol.codes import ResponseCode

_log = logging.getLogger(__name__)
_BODY_BYTES_MAX: Final = 64 << 10
_NAMES_MAX: Final = 100


class NotChangeableError(InvalidArgumentError):
    """An option outside of the list; its reply is NO_PERMISSION."""

    code: ClassVar[int] = ResponseCode.NO_PERMISSION


Applier = Callable[[str], Awaitable[None]]
Listener = Callable[[Mapping[str, str]], None]


class LiveOptions:
    """Options of one server and its parts. Event loop only."""

    def __init__(
        self,
        layers: Sequence[object],
        only_in_rocketmq: Iterable[str],
        *,
        applied: Iterable[str] = (),
        appliers: Mapping[str, Applier] | None = None,
        in_effect: Callable[[], Mapping[str, str]] = dict,
        file: OptionsFile | None = None,
    ) -> None:
        """``applied``: names that need more than a new value, and that cannot be changed where none of ``appliers``
        says how; ``in_effect``: what is other than the options say, because somebody decided it since."""
        self._layers = layers
        self._only_in_rocketmq = only_in_rocketmq
        self._in_effect = in_effect
        self._file = file
        self._appliers = dict(appliers or {})
        self._lacking = frozenset(applied) - self._appliers.keys()
        self.on_change: list[Listener] = []  # called with the changed names and their texts

    def properties(self) -> dict[str, str]:
        """Every option by its RocketMQ name, sorted. Of a secret only whether it is set."""
        merged = {name: text for options in reversed(self._layers) for name, text in properties_of(options).items()}
        merged.update(self._in_effect())
        return dict(sorted(merged.items()))

    def to_text(self) -> str:
        """A line each."""
        return "".join(f"{name}={_escaped(value)}\n" for name, value in self.properties().items())

    async def change_by_text(self, body: bytes, *, by: str = "somebody") -> str:
        """Nothing, or a sentence if the changes do not outlast the server. InvalidArgumentError, and nothing is
        changed, if any of them may not be."""
        if len(body) > _BODY_BYTES_MAX:
            raise InvalidArgumentError(f"{len(body)} bytes of options, at most {_BODY_BYTES_MAX} are read")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError("options must be UTF-8 text") from None
        properties = parse_properties(text)
        if len(properties) > _NAMES_MAX:
            raise InvalidArgumentError(f"{len(properties)} options at once, at most {_NAMES_MAX} are taken")
        return await self.change(properties, by=by)

    async def change(self, properties: Mapping[str, str], *, by: str = "somebody") -> str:
        """Set all of these, or none; nothing, or a sentence if they do not outlast the server."""
        before = self.properties()
        # A tool may send back all that it read: what stays as it is counts for nothing.
        wanted = {name: text.strip() for name, text in properties.items() if before.get(name) != text.strip()}
        self._check_names(wanted)
        check_live(wanted, self._layers)
        # Everything is known to be right now; the one step that may still fail comes first.
        for name, text in wanted.items():
            if name in self._appliers:
                await self._appliers[name](text)
        change_live(wanted, self._layers)
        if not wanted:
            return ""
        told = ", ".join(f"{name}={text!r} (was {before.get(name)!r})" for name, text in wanted.items())
        _log.warning("%s changes options: %s", by, told)
        for listener in self.on_change:
            listener(wanted)
        return "" if self._file is None else await self._file.keep(wanted)

    def _check_names(self, names: Mapping[str, str]) -> None:
        refused = live_refusals(sorted(names), self._layers, self._only_in_rocketmq)
        refused += [f"{name} cannot be changed here" for name in sorted(self._lacking & names.keys())]
        if refused:
            raise NotChangeableError(f"nothing was changed: {'; '.join(refused[:8])}")


def _escaped(value: str) -> str:
    """A value as one line of a properties file; readable as it is unless it has a backslash or a line end in it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
