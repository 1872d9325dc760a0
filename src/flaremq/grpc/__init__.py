"""The gRPC door: the protocol of RocketMQ's 5.x clients, on a port of its own in the same process and loop.

Owns: the messages of `apache.rocketmq.v2`, HTTP/2 and gRPC as far as a server needs them, the calls and what is
behind them.
May import: remoting, protocol, message, access, metrics, options.
Start reading: ``call``, ``messages``, then ``http2``.
"""

__all__ = ["call", "door", "framing", "guard", "listener", "options", "receipt_key"]
