"""Requests about what operators set: key-value configuration, and the options of the server itself."""

from __future__ import annotations

import logging

from flaremq.namesrv.kv_config import KVConfig
from flaremq.namesrv.options import NOT_IMPLEMENTED, NamesrvOptions
from flaremq.options import live_refusals, parse_properties
from flaremq.options_file import OptionsFile
from flaremq.protocol.bodies.topic import KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.namesrv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)


class ConfigHandlers:
    """Reads and changes configuration."""

    def __init__(self, kv_config: KVConfig, options: NamesrvOptions, file: OptionsFile | None = None) -> None:
        self._file = file
        self._kv_config = kv_config
        self._options = options

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.PUT_KV_CONFIG, self.put_kv_config)
        table.register(RequestCode.GET_KV_CONFIG, self.get_kv_config)
        table.register(RequestCode.DELETE_KV_CONFIG, self.delete_kv_config)
        table.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.get_kv_list)
        table.register(RequestCode.UPDATE_NAMESRV_CONFIG, self.update_config)
        table.register(RequestCode.GET_NAMESRV_CONFIG, self.get_config)

    async def put_kv_config(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = PutKVConfigRequestHeader.decode(request.ext)
        await self._kv_config.put(header.namespace, header.key, header.value)
        return RemotingCommand.response()

    async def delete_kv_config(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = DeleteKVConfigRequestHeader.decode(request.ext)
        await self._kv_config.delete(header.namespace, header.key)
        return RemotingCommand.response()

    def get_kv_config(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = GetKVConfigRequestHeader.decode(request.ext)
        value = self._kv_config.find(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, remark)
        return RemotingCommand.response(ext=GetKVConfigResponseHeader(value=value).encode())

    def get_kv_list(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        namespace = GetKVListByNamespaceRequestHeader.decode(request.ext).namespace
        entries = self._kv_config.find_namespace(namespace)
        if entries is None:
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return RemotingCommand.response(body=KVTable(table=dict(entries)).to_json())

    async def update_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Change options that may be changed; one name or value that is not allowed refuses all of them."""
        try:
            properties = parse_properties(request.body_bytes.decode())
        except UnicodeDecodeError:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "the properties are not UTF-8") from None
        refused = live_refusals(
            properties, [self._options, self._options.remoting, self._options.access], NOT_IMPLEMENTED
        )
        if refused:
            raise RequestError(ResponseCode.NO_PERMISSION, f"nothing was changed: {'; '.join(refused[:8])}")
        before = self._options.to_properties()
        wanted = {name: text.strip() for name, text in properties.items() if before.get(name) != text.strip()}
        self._options.change(wanted)
        if not wanted:
            return RemotingCommand.response()
        told = ", ".join(f"{name}={text!r} (was {before.get(name)!r})" for name, text in wanted.items())
        _log.warning("%s changes options: %s", connection.peer, told)
        remark = "" if self._file is None else await self._file.keep(wanted)
        return RemotingCommand.response(remark=remark or None)

    def get_config(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        text = "".join(f"{name}={value}\n" for name, value in sorted(self._options.to_properties().items()))
        return RemotingCommand.response(body=text.encode())
