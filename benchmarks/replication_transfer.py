"""How log bytes get to a replica: gathered writes of views of the mapping, or sendfile from the log's files.

    python -m benchmarks.replication_transfer [--mib 1024] [--folder DIR]

Sends a log over loopback to a process that reads and forgets it, in frames of a header and data, once with the files in
memory and once after they were dropped from it, and prints gigabytes and processor time of the sender. "keeping" also
asks which ranges were in memory before (mincore) and drops those that were not (posix_fadvise), so that sending old
data leaves the memory to recent ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable

from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

_HEADER = struct.Struct(">qi")
_WINDOW = 16 << 20  # looked at and dropped at once; more than the system reads ahead
_OPTIONS = StoreOptions(flush_disk_type="ASYNC_FLUSH", max_hash_slot_num=1000, max_index_num=1000)
_BODY = bytes(range(256)) * 4


def by_views(driver: StoreDriver, peer: socket.socket, frame: int) -> None:
    """A header and a view of the mapping in one gathered write."""
    offset, end = driver.min_offset, driver.appended
    while (view := driver.transfer_view(offset, end, frame)) is not None:
        parts = [memoryview(_HEADER.pack(offset, len(view))), view]
        offset += len(view)
        while parts:
            sent = peer.sendmsg(parts)
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = parts[0][sent:]


def by_sendfile(driver: StoreDriver, peer: socket.socket, frame: int) -> None:
    """A header by ``send``, the data by ``sendfile``."""
    _send_files(driver, peer, frame, keep=False)


def by_sendfile_keeping(driver: StoreDriver, peer: socket.socket, frame: int) -> None:
    """The same, and what was not in memory before is not afterwards."""
    _send_files(driver, peer, frame, keep=True)


def _send_files(driver: StoreDriver, peer: socket.socket, frame: int, *, keep: bool) -> None:
    offset, end = driver.min_offset, driver.appended
    while offset < end and (file := driver.transfer_file(offset)) is not None:
        with file:
            at, stop = file.file_offset, file.file_offset + file.length
            following = not keep or file.is_resident(at, min(file.length, _WINDOW))
            while at < stop:
                window = min(stop, at + _WINDOW) if keep else stop
                was_resident = following
                following = not keep or file.is_resident(window, min(stop, window + _WINDOW) - window)
                first = at
                while at < window:
                    length = min(frame, window - at)
                    peer.send(_HEADER.pack(offset + at - file.file_offset, length), socket.MSG_MORE)
                    sent = 0
                    while sent < length:
                        sent += os.sendfile(peer.fileno(), file.fileno(), at + sent, length - sent)
                    at += length
                if not was_resident:
                    file.forget(first, window - first)
            offset += file.length


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mib", type=int, default=1024, help="log to send")
    arguments.add_argument("--folder", help="where to put it")
    given = arguments.parse_args()
    root = tempfile.mkdtemp(dir=given.folder)
    try:
        _fill(root, given.mib << 20)
        print(f"{'way':22} {'frame':>8} {'files':>6} {'GB/s':>6} {'CPU s/GB':>9} {'in memory after':>16}")
        for way in (by_views, by_sendfile, by_sendfile_keeping):
            for frame in (32 << 10, 256 << 10, 1 << 20):
                for is_cold in (False, True):
                    _measure(root, way, frame, is_cold)
    finally:
        shutil.rmtree(root)


def _fill(root: str, size: int) -> None:
    with MessageStore.open(root, _OPTIONS) as store:
        while store.max_physical_offset < size:
            assert store.put_many("transfer", [_BODY] * 256).ok


def _measure(root: str, way: Callable[[StoreDriver, socket.socket, int], None], frame: int, is_cold: bool) -> None:
    _warm_or_drop(root, is_cold)
    store = MessageStore.open(root, _OPTIONS, threads=False, driven=True)
    driver = store.driver()
    ours, theirs = _connected()
    reader = os.fork()
    if reader == 0:
        ours.close()
        buffer = bytearray(1 << 20)
        while theirs.recv_into(buffer):
            pass
        os._exit(0)
    theirs.close()
    began, cpu = time.perf_counter(), time.process_time()
    way(driver, ours, frame)
    ours.close()
    used = time.process_time() - cpu
    os.waitpid(reader, 0)
    seconds = time.perf_counter() - began
    sent = driver.appended - driver.min_offset
    store.close()
    name = way.__name__.removeprefix("by_")
    files = "cold" if is_cold else "warm"
    print(
        f"{name:22} {frame >> 10:>5} KiB {files:>6} {sent / seconds / 1e9:6.2f} {used / sent * 1e9:9.2f} "
        f"{_in_memory(root):>15.0%}",
        flush=True,
    )


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def _log_files(root: str) -> list[str]:
    folder = os.path.join(root, "commitlog")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def _warm_or_drop(root: str, is_cold: bool) -> None:
    for path in _log_files(root):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if is_cold:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            else:
                while os.read(descriptor, 1 << 20):
                    pass
        finally:
            os.close(descriptor)


def _in_memory(root: str) -> float:
    """The share of the log's files that is in memory."""
    with MessageStore.open(root, _OPTIONS, threads=False, driven=True) as store:
        driver = store.driver()
        offset, pages, resident = driver.min_offset, 0, 0
        while (file := driver.transfer_file(offset)) is not None:
            with file:
                for at in range(file.file_offset, file.file_offset + file.length, 65536):
                    pages += 1
                    resident += file.is_resident(at, min(65536, file.file_offset + file.length - at))
                offset += file.length
        return resident / max(pages, 1)


if __name__ == "__main__":
    main()
