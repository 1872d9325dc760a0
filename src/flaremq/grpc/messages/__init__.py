"""Messages of `apache.rocketmq.v2`, the protocol of the 5.x clients, as protobuf classes in a pool of their own.

Owns: the table of messages, the enums, the list of calls.
May import: protobuf; nothing else of FlareMQ.
Start reading: ``table``, then ``methods``.
"""

__all__ = ["classes", "enums", "methods"]
