"""A broker under a controller: getting an id, learning who is master, leading or following.

Owns: which request goes to the controller next, when a role is taken, how long a master may believe that it is one.
Sans-IO: replies and ``now`` in; requests and role changes out.
May import: nothing but ``errors``.
Start reading: ``membership``, ``requests``.
"""

__all__ = ["membership", "requests", "steps"]
