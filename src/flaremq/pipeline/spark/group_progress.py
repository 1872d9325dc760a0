"""Progress of a stream under a consumer group's name, so that ``consumerProgress`` and ``flaremq group progress`` show
its lag.

Spark's checkpoint alone decides where a stream goes on. The group is told afterwards and may therefore be behind by one
batch after a failure, never ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from flaremq.client.blocking import LoopThread
from flaremq.client.scan.group_commits import GroupCommits
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.topics import validate_group
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.planning.offsets import NestedOffsets
from flaremq.storage.config.group_offsets import commit_offsets, lock_closed_store


class ProgressWriter:
    """Reports for one group: over the wire, or into a store that no broker has open. One thread."""

    def __init__(self, spec: SourceSpec, group: str, *, commit_name_server: str | None = None) -> None:
        validate_group(group)
        self._group = group
        self._spec = spec
        self._loop: LoopThread | None = None
        self._commits: GroupCommits | None = None
        name_server = commit_name_server or spec.name_server
        if not name_server:
            if not spec.paths:
                raise InvalidArgumentError(
                    f"progress of group {group!r} has no place: it is kept by brokers, so set commitNameServer"
                )
            return
        self._commits = GroupCommits(name_server, group, options=spec.wire.client)
        self._loop = LoopThread("flaremq-wire")
        try:
            self._loop.call(self._commits.start())
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise if progress could not be reported, before a query starts. A missing group is made."""
        if self._loop is not None and self._commits is not None:
            self._loop.call(self._commits.check([name for name, _ in self._spec.paths]))
            return
        for _, root in self._spec.paths:
            try:
                lock_closed_store(root).release()
            except UnavailableError as error:
                raise _in_use(root, self._group, error) from error

    def commit(self, offsets: NestedOffsets) -> None:
        """Report the next offsets of the group; returns when whoever keeps them has them."""
        if self._loop is not None and self._commits is not None:
            numbered = {
                topic: {broker: _numbered(queues) for broker, queues in brokers.items()}
                for topic, brokers in offsets.items()
            }
            self._loop.call(self._commits.commit(numbered))
            return
        for name, root in self._spec.paths:
            here = {topic: _numbered(brokers[name]) for topic, brokers in offsets.items() if name in brokers}
            if here:
                try:
                    commit_offsets(root, self._group, here)
                except UnavailableError as error:
                    raise _in_use(root, self._group, error) from error

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._commits is not None:
            try:
                loop.call(self._commits.close())
            finally:
                loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _numbered(queues: Mapping[str, int]) -> dict[int, int]:
    return {int(queue_id): offset for queue_id, offset in queues.items()}


def _in_use(root: str, group: str, error: UnavailableError) -> UnavailableError:
    return UnavailableError(
        f"progress of group {group!r} cannot be kept in {root}, a broker has it open: "
        f"set commitNameServer to the name server of that broker ({error})"
    )
