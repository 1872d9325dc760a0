"""Columns as bodies: JSON, Avro and Protobuf encoded from rows, the reverse of the decoders.

Owns: which columns are fields, an encoder a format.
May import: ``pipeline.bodies``, ``pipeline.model``.
Start reading: ``encoder``.
"""

__all__ = ["encoder"]
