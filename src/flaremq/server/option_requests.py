"""OptionRequests: what tools ask of a server's options, whatever the codes of the requests are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from flaremq.errors import InvalidArgumentError
from flaremq.protocol.command import RemotingCommand
from flaremq.server.live_options import LiveOptions
from flaremq.visible import visible

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)
_TEXT_LOGGED_MAX: Final = 200


class OptionRequests:
    """Shows the options of one server and changes them."""

    def __init__(self, options: LiveOptions) -> None:
        self._options = options

    def show(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=self._options.to_text().encode())

    async def change(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Change what may be changed; one name or value too many and nothing is. What was asked is not logged as it
        came: a password might be among it."""
        try:
            remark = await self._options.change_by_text(request.body_bytes, by=connection.peer)
        except InvalidArgumentError as error:
            reason = visible(str(error)[:_TEXT_LOGGED_MAX])
            _log.warning("%s may not change options as it asks: %s", connection.peer, reason)
            raise
        return RemotingCommand.response(remark=remark or None)
