"""Which messages a subscription wants: tag expressions and SQL92 over message properties."""

from __future__ import annotations

from flaremq.broker.filter.message_filter import MessageFilter, compile_filter
from flaremq.broker.filter.syntax_error import FilterSyntaxError

__all__ = ["FilterSyntaxError", "MessageFilter", "compile_filter"]
