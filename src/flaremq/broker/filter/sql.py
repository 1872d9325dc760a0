"""The parser of property filters: text to an evaluable condition, by recursive descent.

Grammar, lowest precedence first (keywords in any case)::

    or       := and (OR and)*
    and      := equality (AND equality)*
    equality := order ( ("=" | "<>") order | IS [NOT] NULL )*
    order    := unary ( ("<" | "<=" | ">" | ">=") unary | [NOT] BETWEEN unary AND unary
                      | [NOT] IN "(" text ("," text)* ")" | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text )*
    unary    := ("+" | "-" | NOT) unary | literal | identifier | "(" or ")"

Length, depth and comparisons are bounded, so neither parsing nor evaluating can take long or run out of stack.
What is comparable with what is checked here, as in RocketMQ, which refuses such an expression when it is subscribed.
One difference on purpose: words left over after the expression are an error, not ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from flaremq.broker.filter.expression import (
    NUMBERS,
    ORDER_OPERATORS,
    TEXT_MATCHES,
    And,
    Condition,
    Equal,
    In,
    IsNull,
    Kind,
    Literal,
    Not,
    Nothing,
    Operand,
    Or,
    Ordered,
    Property,
    PropertyCondition,
    TextMatch,
    TruthLiteral,
    compare_numbers,
)
from flaremq.broker.filter.sql_tokens import Token, TokenKind, split_tokens
from flaremq.broker.filter.syntax_error import FilterSyntaxError

DEPTH_MAX: Final = 32
COMPARISONS_MAX: Final = 256
_TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}


def parse_weighed(expression: str) -> tuple[Condition, int]:
    """The condition this text states and how many comparisons it makes at most, or FilterSyntaxError."""
    parser = _Parser(expression)
    return parser.parse(), parser.comparisons


class _Parser:
    """One pass over one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = split_tokens(expression)
        self._at = 0
        self._open = 0  # parentheses and prefix operators around the current word
        self.comparisons = 0

    def parse(self) -> Condition:
        condition = self._as_condition(self._or(), self._tokens[0])
        if self._next.kind is not TokenKind.END:
            raise self._unexpected("the end")
        return condition

    # Precedence levels

    def _or(self) -> Operand:
        start = self._next
        left = self._and()
        if not self._accept_keyword("OR"):
            return left
        conditions = [self._as_condition(left, start)]
        while True:
            start = self._next
            conditions.append(self._as_condition(self._and(), start))
            if not self._accept_keyword("OR"):
                return self._bounded(Or(conditions))

    def _and(self) -> Operand:
        start = self._next
        left = self._equality()
        if not self._accept_keyword("AND"):
            return left
        conditions = [self._as_condition(left, start)]
        while True:
            start = self._next
            conditions.append(self._as_condition(self._equality(), start))
            if not self._accept_keyword("AND"):
                return self._bounded(And(conditions))

    def _equality(self) -> Operand:
        left = self._order()
        while True:
            start = self._next
            if self._accept_operator("="):
                left = self._equal(left, self._order(), start)
            elif self._accept_operator("<>"):
                left = self._bounded(Not(self._equal(left, self._order(), start)))
            elif self._accept_keyword("IS"):
                negated = self._accept_keyword("NOT")
                self._expect_keyword("NULL")
                self._count(start)
                null = IsNull(left)
                left = self._bounded(Not(null) if negated else null)
            else:
                return left

    def _order(self) -> Operand:
        left = self._unary()
        while True:
            start = self._next
            if start.kind is TokenKind.OPERATOR and start.text in ORDER_OPERATORS:
                self._at += 1
                left = self._ordered(left, start.text, self._unary(), start)
                continue
            negated = start.text == "NOT" and start.kind is TokenKind.KEYWORD
            after = self._tokens[self._at + 1] if negated else start
            if after.kind is not TokenKind.KEYWORD:
                return left
            if after.text == "BETWEEN":
                self._at += 1 + negated
                left = self._between(left, start, negated=negated)
            elif after.text == "IN":
                self._at += 1 + negated
                left = self._in(left, start, negated=negated)
            elif after.text in TEXT_MATCHES:
                self._at += 1 + negated
                self._count(start)
                search = self._expect_text()
                left = self._bounded(TextMatch(left, search, TEXT_MATCHES[after.text], negated=negated))
            else:
                return left

    def _unary(self) -> Operand:
        token = self._next
        if self._accept_operator("+"):
            return self._nested(token, self._unary)
        if self._accept_operator("-"):
            return self._negative(self._nested(token, self._unary))
        if self._accept_keyword("NOT"):
            return self._bounded(Not(self._as_condition(self._nested(token, self._unary), token)))
        if self._accept_operator("("):
            inside = self._nested(token, self._or)
            if not self._accept_operator(")"):
                raise self._unexpected("a closing parenthesis")
            return inside
        return self._primary()

    def _primary(self) -> Operand:
        token = self._next
        self._at += 1
        if token.kind is TokenKind.IDENTIFIER:
            return Property(token.text)
        if token.kind is TokenKind.TEXT:
            return Literal(Kind.TEXT, token.text)
        if token.kind is TokenKind.DECIMAL:
            return self._decimal(token)
        if token.kind is TokenKind.FLOATING:
            return self._floating(token)
        if token.kind is TokenKind.KEYWORD and token.text in _TRUTHS:
            return TruthLiteral(_TRUTHS[token.text])
        self._at -= 1
        raise self._unexpected("a value")

    # Building, with RocketMQ's checks

    def _equal(self, left: Operand, right: Operand, token: Token) -> Condition:
        self._count(token)
        for side in (left, right):
            if isinstance(side, TruthLiteral) and side.value is None:
                raise self._error("NULL cannot be compared; use IS NULL", token)
        if isinstance(left, TruthLiteral) and isinstance(right, Literal) and right.is_written:
            raise self._error("a boolean cannot be compared with a number or text", token)
        return self._bounded(Equal(left, right))

    def _ordered(self, left: Operand, symbol: str, right: Operand, token: Token) -> Condition:
        self._count(token)
        for side in (left, right):
            if side.kind is Kind.BOOLEAN or (isinstance(side, Literal) and side.kind not in NUMBERS):
                raise self._error(f"only numbers and properties can be compared by {symbol!r}", token)
        return self._bounded(Ordered(left, right, ORDER_OPERATORS[symbol]))

    def _between(self, value: Operand, token: Token, *, negated: bool) -> Condition:
        low = self._unary()
        self._expect_keyword("AND")
        high = self._unary()
        if negated:
            return self._bounded(Or((self._ordered(value, "<", low, token), self._ordered(value, ">", high, token))))
        both = And((self._ordered(value, ">=", low, token), self._ordered(value, "<=", high, token)))
        if (
            isinstance(low, Literal)
            and isinstance(high, Literal)
            and low.is_written
            and high.is_written
            and compare_numbers(high, low) < 0
        ):
            raise self._error("the lower bound of BETWEEN is above the upper one", token)
        return self._bounded(both)

    def _in(self, value: Operand, token: Token, *, negated: bool) -> Condition:
        if not isinstance(value, Property):
            raise self._error("IN needs a property on its left", token)
        if not self._accept_operator("("):
            raise self._unexpected("an opening parenthesis")
        self._count(token)
        texts = [self._expect_text()]
        while self._accept_operator(","):
            texts.append(self._expect_text())
        if not self._accept_operator(")"):
            raise self._unexpected("a closing parenthesis")
        return In(value, texts, negated=negated)

    def _negative(self, operand: Operand) -> Operand:
        if isinstance(operand, Literal) and operand.kind in NUMBERS:
            assert isinstance(operand.value, int | float)
            return Literal(operand.kind, -operand.value, is_written=False)
        return self._bounded_operand(Nothing(operand))

    def _decimal(self, token: Token) -> Literal:
        value = int(token.text.rstrip("lL"))
        if value >= 2**63:
            raise self._error("a whole number does not fit 64 bits", token)
        return Literal(Kind.INTEGER if value < 2**31 else Kind.LONG, value)

    def _floating(self, token: Token) -> Literal:
        value = float(token.text)
        if math.isinf(value):
            raise self._error("a number does not fit a double", token)
        return Literal(Kind.DOUBLE, value)

    def _as_condition(self, operand: Operand, token: Token) -> Condition:
        if isinstance(operand, Property):
            return PropertyCondition(operand)
        if operand.kind is not Kind.BOOLEAN:
            raise self._error("a condition is expected, not a value", token)
        return operand  # type: ignore[return-value]  # of kind BOOLEAN are conditions only

    # Words and bounds

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _accept_keyword(self, word: str) -> bool:
        return self._accept(TokenKind.KEYWORD, word)

    def _accept_operator(self, symbol: str) -> bool:
        return self._accept(TokenKind.OPERATOR, symbol)

    def _accept(self, kind: TokenKind, text: str) -> bool:
        token = self._tokens[self._at]
        accepted = token.kind is kind and token.text == text
        self._at += accepted
        return accepted

    def _expect_keyword(self, word: str) -> None:
        if not self._accept_keyword(word):
            raise self._unexpected(word)

    def _expect_text(self) -> str:
        token = self._next
        if token.kind is not TokenKind.TEXT:
            raise self._unexpected("a text in single quotes")
        self._at += 1
        return token.text

    def _nested(self, token: Token, parse: Callable[[], Operand]) -> Operand:
        self._open += 1
        if self._open > DEPTH_MAX:
            raise self._error(f"nested more than {DEPTH_MAX} deep", token)
        operand = parse()
        self._open -= 1
        return operand

    def _count(self, token: Token) -> None:
        """One more comparison: with their number grows what each message costs."""
        self.comparisons += 1
        if self.comparisons > COMPARISONS_MAX:
            raise self._error(f"more than {COMPARISONS_MAX} comparisons", token)

    def _bounded(self, condition: Condition) -> Condition:
        self._bounded_operand(condition)
        return condition

    def _bounded_operand(self, operand: Operand) -> Operand:
        if operand.depth > DEPTH_MAX:
            raise self._error(f"nested more than {DEPTH_MAX} deep", self._next)
        return operand

    def _unexpected(self, expected: str) -> FilterSyntaxError:
        token = self._next
        found = "the end" if token.kind is TokenKind.END else repr(token.text)
        return self._error(f"{expected} is expected, not {found}", token)

    def _error(self, reason: str, token: Token) -> FilterSyntaxError:
        return FilterSyntaxError(reason, self._expression, token.position)
