"""Access control 1.0: accounts in YAML files.

Owns: the files below ``conf``, their hot reload, what each account may do to topics and groups, changes by requests.
May import: the modules of ``access`` itself that name needs and judges, ``users.migration``, ``atomic_file``, errors.
Start reading: ``judge``, then ``acl_store``.
"""

__all__ = ["acl_store", "address_patterns", "changes", "judge"]
