"""The controller: which broker of a name is master, by whose election, and who is in sync with it.

Owns: the state machine of controller mode, where its state is kept, and the server that answers for it.
May import: ``remoting``, ``protocol`` and the file seam of ``storage``.
Start reading: ``state``, ``groups``, ``office``, ``service``.
"""

__all__ = ["groups", "office", "options", "outcomes", "service"]
