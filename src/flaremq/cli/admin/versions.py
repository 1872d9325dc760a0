"""Release numbers as clients and brokers give them.

Since 4.0.0 (213) each release takes two numbers, its preview and itself, and minor and patch run from 0 to 9.
"""

from __future__ import annotations

_FIRST = 213  # 4.0.0
_LAST = 611  # 5.9.9


def version_text(number: int) -> str:
    """``V5_5_0`` for 513, as RocketMQ's tools write it."""
    if number > _LAST:
        return "HIGHER_VERSION"
    if number < _FIRST - 1:
        return "V3"  # their numbers follow no rule
    steps, is_final = divmod(number - _FIRST + 1, 2)
    name = f"V{4 + steps // 100}_{steps // 10 % 10}_{steps % 10}"
    return name if is_final else f"{name}_SNAPSHOT"
