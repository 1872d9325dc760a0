"""The port of gRPC: sockets, TLS, calls and their handlers; asyncio around `http2`.

Owns: listening, connections and their limits, calls from their first frame to their last, the guard's place.
May import: grpc.call, grpc.framing, grpc.http2, grpc.messages, grpc.options, remoting, errors.
Start reading: ``exchange``, then ``connection`` and ``server``.
"""

__all__ = ["server", "serving"]
