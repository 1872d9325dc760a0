"""The proxy: the gRPC door before a cluster, ours or RocketMQ's, whose brokers it asks over the remoting protocol.

Owns: where brokers and topics are, the connections on which brokers know each client, and a server of its own.
May import: grpc, access, remoting, protocol, message, options.
Start reading: ``service``, then ``cluster_backend``.
"""

__all__ = ["options", "service"]
