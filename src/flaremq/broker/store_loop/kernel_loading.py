"""KernelLoading: the store's kernels are imported, on a worker thread, once there is enough traffic to pay for half a
second of importing."""

from __future__ import annotations

import asyncio
import logging

from flaremq.broker.store_loop.workers import Workers
from flaremq.storage.engine.driver import StoreDriver

_log = logging.getLogger(__name__)
_NEVER = 1 << 62
_KERNELS_BYTES = 1 << 20  # after so many appended bytes the kernels are worth loading
_LARGE_BATCH_BYTES = 256 << 10  # a batch body of this size is not left to plain code


class KernelLoading:
    """When the kernels of one broker are loaded. Event loop only."""

    def __init__(self, driver: StoreDriver, workers: Workers) -> None:
        self._driver = driver
        self._workers = workers
        self.load_at = driver.appended + _KERNELS_BYTES  # offset of the log
        self._task: asyncio.Task[None] | None = None

    def arrived(self, _: object) -> None:
        """After a dispatch: load the kernels if enough was appended."""
        if self._driver.appended >= self.load_at:
            self.load_at = _NEVER
            self._task = asyncio.ensure_future(self.load())

    async def make_ready(self, size_bytes: int) -> None:
        """Load the kernels first if a batch body of this size comes before they were worth loading."""
        if size_bytes >= _LARGE_BATCH_BYTES and self.load_at < _NEVER:
            # Thousands of small messages would keep the loop busy for long in plain code.
            self.load_at = _NEVER
            await self.load()

    async def load(self) -> None:
        try:
            await self._workers.run(_import_storage_kernels)
        except Exception:
            _log.exception("the kernels cannot be loaded; everything goes the plain way")

    async def close(self) -> None:
        if self._task is not None:
            await self._task


def _import_storage_kernels() -> None:
    import flaremq.storage.get.views
    import flaremq.storage.kernels.preload  # noqa: F401
