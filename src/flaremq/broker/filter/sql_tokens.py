"""The words of a filter expression."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from flaremq.broker.filter.syntax_error import FilterSyntaxError

KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)


class TokenKind(Enum):
    KEYWORD = auto()
    IDENTIFIER = auto()
    TEXT = auto()
    DECIMAL = auto()
    FLOATING = auto()
    OPERATOR = auto()
    END = auto()


class Token(NamedTuple):
    """One word: keywords in upper case, text without its quotes, everything else as written."""

    kind: TokenKind
    text: str
    position: int


_TOKEN = re.compile(
    r"""
      (?P<skipped>    [ \t\n\r\f]+ | --[^\n\r]* | /\*(?s:.)*?\*/ )
    | (?P<floating>   (?: [0-9]+\.[0-9]* | \.[0-9]+ )(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<decimal>    (?: 0 | [1-9][0-9]* )[lL]? )
    | (?P<text>       '(?: '' | [^'] )*' )
    | (?P<word>       [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<operator>   <> | <= | >= | [=<>()+,-] )
    """,
    re.VERBOSE,
)
_AFTER_NUMBER = re.compile(r"[A-Za-z0-9_$.]")


def split_tokens(expression: str) -> list[Token]:
    """All words and a final END. Raises FilterSyntaxError at the first character that starts none."""
    tokens = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise FilterSyntaxError(_complaint(expression[position]), expression, position)
        if match.lastgroup in ("floating", "decimal") and _AFTER_NUMBER.match(expression, match.end()):
            raise FilterSyntaxError("a number is misspelt", expression, position)
        if match.lastgroup != "skipped":
            tokens.append(_token(match, position))
        position = match.end()
    tokens.append(Token(TokenKind.END, "", len(expression)))
    return tokens


def _token(match: re.Match[str], position: int) -> Token:
    text = match.group()
    if match.lastgroup == "word":
        is_keyword = text.upper() in KEYWORDS
        return Token(TokenKind.KEYWORD, text.upper(), position) if is_keyword else _identifier(text, position)
    if match.lastgroup == "text":
        return Token(TokenKind.TEXT, text[1:-1].replace("''", "'"), position)
    if match.lastgroup == "operator":
        return Token(TokenKind.OPERATOR, text, position)
    return Token(TokenKind.DECIMAL if match.lastgroup == "decimal" else TokenKind.FLOATING, text, position)


def _identifier(text: str, position: int) -> Token:
    return Token(TokenKind.IDENTIFIER, text, position)


def _complaint(character: str) -> str:
    if character == "'":
        return "a text has no closing quote"
    if character == "/":
        return "a comment has no end"
    return f"{character!r} has no meaning"
