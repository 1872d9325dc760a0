"""SendableLog: a master's log as its slaves may have it.

A classic master in SYNC_FLUSH sends only what is durable: after a power cut a slave must not be ahead of its master,
for nobody would notice and the two logs would differ from there on. Under a controller epochs tell such histories
apart, so everything appended is sent, and copied while it is being synced here.
"""

from __future__ import annotations

from flaremq.errors import UnavailableError
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.get.transfer import TransferFile


class SendableLog:
    """The log of one driven store. Event loop only."""

    __slots__ = ("_driver", "_has_epochs")

    def __init__(self, driver: StoreDriver, *, has_epochs: bool) -> None:
        self._driver = driver
        self._has_epochs = has_epochs

    @property
    def min_offset(self) -> int:
        return self._driver.min_offset

    @property
    def end_offset(self) -> int:
        """What may be sent ends here."""
        driver = self._driver
        if not driver.sync_mode:
            return driver.committed
        return driver.appended if self._has_epochs else driver.durable

    @property
    def own_end(self) -> int:
        return self._driver.appended

    @property
    def file_size(self) -> int:
        return self._driver.file_size

    def view(self, offset: int, length: int) -> memoryview:
        """Log bytes within one file, without a copy."""
        view = self._driver.transfer_view(offset, offset + length, length)
        if view is None or len(view) != length:
            raise UnavailableError(f"log bytes {offset} to {offset + length} were deleted while they were to be sent")
        return view

    def open_file(self, offset: int) -> TransferFile | None:
        """The file with this byte, for a thread that sends old data. Any thread."""
        return self._driver.transfer_file(offset)
