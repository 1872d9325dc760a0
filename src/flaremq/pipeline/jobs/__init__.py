"""Spark jobs over a store: each a function that takes a session and returns a result with ``to_json``."""
