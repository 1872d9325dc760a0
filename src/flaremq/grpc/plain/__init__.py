"""The short ways of what clients do most: plain messages and acknowledgements, from bytes to bytes.

Owns: what a plain send, acknowledgement or delivery is, and its bytes in either direction.
May import: core, grpc.rules, message.
Start reading: ``sends``, then ``acks`` and ``deliveries``; ``wire`` is what they share.
"""

__all__ = ["acks", "deliveries", "sends", "wire"]
