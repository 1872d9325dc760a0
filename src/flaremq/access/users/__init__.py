"""Access control 2.0: users and policies.

Owns: who may sign, what each user may do to which resource, the file that holds both, and their administration.
May import: the modules of ``access`` itself that name needs and judges, ``atomic_file``, errors, protocol codes.
Start reading: ``judge``, then ``rule_table``.
"""

__all__ = ["changes", "initial", "judge", "migration", "tables", "user_store"]
