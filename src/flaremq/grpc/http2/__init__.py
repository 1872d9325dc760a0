"""HTTP/2 for a gRPC server, without input or output: bytes in, calls of a listener and bytes out.

Owns: frames, settings, flow control, header blocks, the limits that keep hostile peers small.
May import: hpack; errors.
Start reading: ``connection``.
"""

__all__ = ["connection", "frames", "header_blocks", "limits", "stream"]
