"""Monitor: the pages of one server: ``/metrics``, ``/healthz``, ``/readyz``.

The server says what there is to tell (``look``) and what keeps it from its work (``reasons``); both may be exchanged
while it starts, changes its role or stops. One look at a time is taken: who asks meanwhile for the same gets the same
answer, who asks for something else waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from flaremq.metrics.bounded_table import SERIES_MAX
from flaremq.metrics.endpoint import Endpoint, Request, Response
from flaremq.metrics.exposition import OPEN_METRICS_TYPE, TEXT_TYPE, is_asked, write
from flaremq.metrics.family import Family, Names, gauge
from flaremq.metrics.options import EndpointSettings, host_of, own_labels
from flaremq.metrics.samples import Samples

_log = logging.getLogger(__name__)

SERIES_CUT = gauge(
    "flaremq_series_cut",
    "Sets of labels without a series of their own, because the metric has as many as metricsOtelCardinalityLimit.",
    "metric",
)
_HELP = b"""/metrics  figures for Prometheus; ?name[]=NAME for one metric only
/healthz  200 while the process works
/readyz   200 while it serves, else 503 and the reasons
"""

Look = Callable[[Samples], Awaitable[None]]
Reasons = Callable[[], list[str]]


class Monitor:
    """Serves figures and health of one server. Event loop only."""

    def __init__(
        self,
        settings: EndpointSettings,
        common: Mapping[str, str],
        *,
        names: Names = Names.WITH_UNIT,
        limit: int = SERIES_MAX,
    ) -> None:
        self._settings = settings
        self._common = {**own_labels(settings), **common}
        self._names = names
        self._limit = limit
        self.look: Look = _nothing
        self.reasons: Reasons = _starting
        self.is_told: Callable[[Family], bool] = _everything
        pages = {"/": self._help, "/metrics": self.metrics, "/healthz": self._health, "/readyz": self._readiness}
        self.endpoint = Endpoint(pages)
        self._turn = asyncio.Lock()
        self._under_way: dict[tuple[frozenset[str], bool], asyncio.Task[Response]] = {}

    async def start(self) -> None:
        """Listen; UnavailableError if the port is taken."""
        host = host_of(self._settings)
        await self.endpoint.start(host, self._settings.port)
        _log.info("metrics and health are served at %s:%d", host, self.endpoint.port)

    async def stop(self) -> None:
        """Close the port."""
        await self.endpoint.stop()
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    @property
    def port(self) -> int:
        return self.endpoint.port

    # Pages

    async def metrics(self, request: Request) -> Response:
        """``/metrics``."""
        asked = frozenset(name for name in request.query.get("name[]", ()) if name)
        key = (asked, "application/openmetrics-text" in request.accept)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.get_running_loop().create_task(self._told(*key))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _told(self, asked: frozenset[str], open_metrics: bool) -> Response:
        async with self._turn:
            samples = self._samples(asked)
            await self.look(samples)
            if not asked or SERIES_CUT.name in asked:
                self._tell_cut(samples)
            body = await write(samples, names=self._names, asked=asked, open_metrics=open_metrics)
        return Response(body, content_type=OPEN_METRICS_TYPE if open_metrics else TEXT_TYPE)

    def _samples(self, asked: frozenset[str]) -> Samples:
        def is_wanted(family: Family) -> bool:
            return is_asked(family, self._names, asked) and self.is_told(family)

        return Samples(self._common, limit=self._limit, is_wanted=is_wanted)

    def _tell_cut(self, samples: Samples) -> None:
        for family, count in list(samples.cut.items()):
            samples.add(SERIES_CUT, count, family.names(self._names)[0])

    async def _health(self, request: Request) -> Response:
        """That this is answered says it: the loop turns."""
        return Response((b"ok\n",))

    async def _readiness(self, request: Request) -> Response:
        reasons = self.reasons()
        if not reasons:
            return Response((b"ready\n",))
        return Response(("".join(f"{reason}\n" for reason in reasons).encode("utf-8", "replace"),), 503)

    async def _help(self, request: Request) -> Response:
        return Response((_HELP,))


async def _nothing(samples: Samples) -> None:
    """There is nothing to tell yet."""


def _everything(family: Family) -> bool:
    return True


def _starting() -> list[str]:
    return ["it is starting"]
