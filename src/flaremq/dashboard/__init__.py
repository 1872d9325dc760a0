"""The dashboard: web pages about a cluster, ours or Java's, over the requests of administration.

Owns: what the pages show and how it is sampled, what may be changed and by whom. Starlette, uvicorn and Jinja2, an
extra of the package, are imported here alone.
May import: everything but ``cli``.
Start reading: ``service``, ``data.sampler``, ``views``, ``app.routes``.
"""

__all__ = ["markup", "options", "service"]
