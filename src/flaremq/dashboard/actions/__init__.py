"""What may be changed: each action is a plan first, which is shown, and then carried out step by step.

Owns: plans, their fields, the table of actions.
May import: ``dashboard.data``, ``dashboard.questions``, ``client``.
Start reading: ``plan``, ``table``.
"""

__all__ = ["fields", "plan", "table"]
