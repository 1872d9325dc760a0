"""Requests about what operators set: key-value configuration, and the options of the server itself."""

from __future__ import annotations

from flaremq.namesrv.kv_config import KVConfig
from flaremq.namesrv.options import NamesrvOptions
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
from flaremq.server.live_options import LiveOptions
from flaremq.server.option_requests import OptionRequests


class ConfigHandlers:
    """Reads and changes configuration."""

    def __init__(self, kv_config: KVConfig, options: NamesrvOptions, file: OptionsFile | None = None) -> None:
        self._kv_config = kv_config
        self._options = OptionRequests(LiveOptions(options.layers, options.ONLY_IN_ROCKETMQ, file=file))

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.PUT_KV_CONFIG, self.put_kv_config)
        table.register(RequestCode.GET_KV_CONFIG, self.get_kv_config)
        table.register(RequestCode.DELETE_KV_CONFIG, self.delete_kv_config)
        table.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.get_kv_list)
        table.register(RequestCode.UPDATE_NAMESRV_CONFIG, self._options.change)
        table.register(RequestCode.GET_NAMESRV_CONFIG, self._options.show)

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
