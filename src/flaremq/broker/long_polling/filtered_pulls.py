"""FilteredPulls: held pulls whose filter looks at properties, which is never done on the event loop.

An arrival starts a look on the filter lane; arrivals during it start another one afterwards. A pull whose time is over
is told that there is nothing where it stands, without a look: it comes back and is looked at then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from flaremq.broker.long_polling.pull_request import HeldPull
from flaremq.protocol.codes import ResponseCode
from flaremq.remoting.handlers import error_response
from flaremq.storage.get.pull import PullResult
from flaremq.storage.status import GetMessageStatus

if TYPE_CHECKING:
    from flaremq.broker.long_polling.held_pulls import PullRequestHoldService
    from flaremq.broker.store_loop.store_loop import StoreLoop


class FilteredPulls:
    """Looks for what held pulls with a property filter wait for. Event loop only."""

    def __init__(
        self,
        store_loop: StoreLoop,
        answer: Callable[[HeldPull, PullResult], None],
        code_of: Callable[[PullResult, int], ResponseCode],
    ) -> None:
        self._store_loop = store_loop
        self._answer = answer  # sends what was found
        self._code_of = code_of  # how a result of a pull from an offset is answered
        self._tasks: set[asyncio.Task[None]] = set()

    def attempt(self, holds: PullRequestHoldService, pull: HeldPull, whatever: bool) -> bool:
        """As the hold service asks it: True if the pull was answered."""
        if whatever:
            store = self._store_loop.store
            low, high = store.min_offset(pull.topic, pull.queue_id), store.max_offset(pull.topic, pull.queue_id)
            self._answer(pull, PullResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, pull.offset, low, high, []))
            return True
        pull.is_wanted = True
        if not pull.is_busy:
            pull.is_busy = True
            task = asyncio.ensure_future(self._look(holds, pull))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return False

    async def _look(self, holds: PullRequestHoldService, pull: HeldPull) -> None:
        try:
            while pull.is_wanted and not pull.is_over:
                pull.is_wanted = False
                result = await self._store_loop.run_filter(pull.group, self._pull, pull)
                if pull.is_over:
                    return  # its time is over, or its client is gone
                if result.status is GetMessageStatus.NO_MATCHED_MESSAGE:
                    pull.offset = result.next_offset
                    pull.is_wanted = pull.is_wanted or pull.offset < result.max_offset
                elif self._code_of(result, pull.offset) == ResponseCode.PULL_NOT_FOUND:
                    continue
                elif pull.connection.is_stalled:
                    holds.wait_for_reader(pull.connection)
                else:
                    holds.release(pull)
                    self._answer(pull, result)
        except Exception as error:
            if not pull.is_over:
                holds.release(pull)
                pull.connection.reply(pull.request, error_response(error, pull.request))
        finally:
            pull.is_busy = False

    def _pull(self, pull: HeldPull) -> PullResult:
        """On the filter thread."""
        wanted = pull.wanted
        return self._store_loop.driver.puller.pull(
            pull.topic, pull.queue_id, pull.offset, pull.max_count, pull.max_bytes, wanted.codes, wanted.work()
        )
