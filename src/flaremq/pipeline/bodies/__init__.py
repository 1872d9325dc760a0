"""Bodies as columns: JSON, Avro and Protobuf decoded into Arrow, and columns encoded as bodies.

Owns: the schema of a body, decoders and encoders, how decoded columns stand beside those of a message.
May import: ``pipeline.model``. What one format alone needs is imported by its own module when the format is asked for.
Start reading: ``format``, ``decoder``, ``shape``.
"""

__all__ = ["avro", "columns", "ddl", "decoder", "format", "inferred", "protobuf"]
