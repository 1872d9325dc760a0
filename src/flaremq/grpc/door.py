"""Door: calls and their port put together for one backend; what a broker and a proxy open to clients of RocketMQ 5."""

from __future__ import annotations

import socket

from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.calls.service import MessagingService
from flaremq.grpc.listener import listen
from flaremq.grpc.options import GrpcOptions
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.server.server import GrpcServer
from flaremq.grpc.server.serving import Guard
from flaremq.remoting.options import RemotingOptions


class Door:
    """One port with everything behind it but the brokers. Use from one event loop."""

    def __init__(
        self,
        backend: Backend,
        options: GrpcOptions,
        remoting: RemotingOptions,
        *,
        body_max: int,
        seal_key: bytes | None = None,
        guard: Guard | None = None,
    ) -> None:
        """``body_max``: bytes of a message; ``seal_key``: see :class:`MessagingService`. Reads the files of TLS."""
        self.service = MessagingService(backend, limits_of(options, body_max), seal_key=seal_key)
        self.server = GrpcServer(
            self.service.handlers, options, remoting, at_once=self.service.at_once, guard=guard, body_max=body_max
        )

    async def start(self, host: str, port: int) -> None:
        """Listen. UnavailableError if the port is taken."""
        await self.serve(listen(host, port))

    async def serve(self, listener: socket.socket) -> None:
        """Take the connections of a socket that listens; it is ours from now on."""
        await self.server.serve(listener)
        self.service.start()

    @property
    def port(self) -> int:
        return self.server.port

    async def stop(self) -> None:
        """Take no more calls, end those that wait, let go of what clients hold."""
        await self.server.stop()
        await self.service.stop()


def limits_of(options: GrpcOptions, body_max: int) -> CallLimits:
    """What the options say about calls."""
    return CallLimits(
        max_message_size=body_max,
        max_user_property_size=options.max_user_property_size,
        user_property_max_num=options.user_property_max_num,
        max_message_group_size=options.max_message_group_size,
        max_delay_time_ms=options.max_delay_time_mills,
        max_transaction_recovery_seconds=options.max_transaction_recovery_second,
        enable_topic_message_type_check=options.enable_topic_message_type_check,
        min_invisible_time_ms=options.min_invisible_time_mills_for_recv,
        max_invisible_time_ms=options.max_invisible_time_mills,
        default_invisible_time_ms=options.default_invisible_time_mills,
        invisible_time_when_clear_ms=options.invisible_time_millis_when_clear,
        min_long_polling_ms=options.grpc_client_consumer_min_long_polling_timeout_millis,
        max_long_polling_ms=options.grpc_client_consumer_max_long_polling_timeout_millis,
        receive_batch_size=options.grpc_client_consumer_long_polling_batch_size,
        enable_auto_renew=options.enable_proxy_auto_renew,
        renew_ahead_ms=options.renew_ahead_time_millis,
        renew_period_ms=options.renew_schedule_period_millis,
        renew_max_ms=options.renew_max_time_millis,
        producer_max_attempts=options.grpc_client_producer_max_attempts,
        producer_backoff_initial_ms=options.grpc_client_producer_backoff_initial_millis,
        producer_backoff_max_ms=options.grpc_client_producer_backoff_max_millis,
        producer_backoff_multiplier=options.grpc_client_producer_backoff_multiplier,
        clients_max=options.grpc_clients_max,
    )
