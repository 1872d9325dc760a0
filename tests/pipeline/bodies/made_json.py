"""Bodies of JSON made at random, most of them whole, the others damaged by a few bytes."""

from __future__ import annotations

import json
import random
from typing import Any, Final

SCHEMAS: Final = (
    "id string, amount double, n bigint",
    "n int, ok boolean, f float, t tinyint",
    "price decimal(10,2), day date, at timestamp",
    "id string, o struct<a:int,b:string>, l array<bigint>, m map<string,int>",
    "raw binary, local timestamp_ntz, `é名` string, n smallint",
)
_NAMES: Final = (
    "id",
    "amount",
    "n",
    "ok",
    "f",
    "t",
    "price",
    "day",
    "at",
    "o",
    "l",
    "m",
    "raw",
    "local",
    "é名",
    "x",
    "y",
)
_NUMBERS: Final = (
    *("0", "-0", "7", "-12", "127", "128", "-129", "32768", "2147483647", "-2147483649", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "12345678901234567890", "1" * 40),
    *(
        "0.0",
        "-0.0",
        "1.5",
        "30.25",
        "0.1",
        "1.005",
        "1e3",
        "1E-7",
        "2.5e+10",
        "1e400",
        "-1e400",
        "1e-400",
        "123456.789",
    ),
    *(
        "0.30000000000000004",
        "9007199254740993.5",
        "3.4028235e38",
        "3.5e38",
        "1234567890123456789012.5",
        "99999999.995",
    ),
    *(
        "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416e200",
    ),
)
_TEXTS: Final = (
    *(
        "",
        "o-1",
        "paid",
        "é",
        "漢字",
        "😀",
        'a"b',
        "back\\slash",
        "line\nbreak",
        "tab\t",
        "\0",
        "/",
        "x" * 40,
        "7",
        "true",
    ),
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-1-2",
        "2024-02-29T10:11:12Z",
        "2024-02-29T10:11:12.123456+02:00",
        "10:11",
        "NaN",
    ),
    *(
        "2024-02-29 10:11:12",
        "2024-02-29T10:11:12",
        "1,234.5",
        "1.25",
        "aGk=",
        "aGk",
        "a G k =",
        "Infinity",
        "\x7f\x80",
    ),
)
_PIECES: Final = (
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\n",
        b"\x00",
        b"\x1f",
        b"\xff",
        b"\xc3",
        b"\xe2\x82",
        b"0",
    ),
    *(
        b"-",
        b".",
        b"e",
        b"+",
        b"\\u",
        b"\\ud83d",
        b"\\ude00",
        b"null",
        b"tru",
        b"NaN",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
    ),
)


def made_bodies(seed: int, count: int, *, twice: float = 0.1) -> list[bytes]:
    """Bodies, the same for the same seed; ``twice`` is how many may have a name twice."""
    dice = random.Random(seed)
    bodies = [_body(dice, twice) for _ in range(count)]
    return [_damaged(dice, body) if dice.random() < 0.4 else body for body in bodies]


def _body(dice: random.Random, twice: float) -> bytes:
    names = [dice.choice(_NAMES) for _ in range(dice.randrange(7))]
    if dice.random() >= twice:
        names = list(dict.fromkeys(names))
    return _blank(dice) + _object(dice, [(name, _fitting(dice, name)) for name in names]) + _blank(dice)


def _fitting(dice: random.Random, name: str) -> bytes:
    """Mostly what a field of this name is, in one of the schemas."""
    if dice.random() < 0.3:
        return _value(dice, 3)
    if name in ("amount", "n", "f", "t", "price"):
        return dice.choice(_NUMBERS).encode()
    if name == "ok":
        return dice.choice((b"true", b"false"))
    if name == "o":
        return _object(dice, [("a", dice.choice(_NUMBERS).encode()), ("b", _text(dice))][: dice.randrange(3)])
    if name == "l":
        return b"[" + b",".join(dice.choice(_NUMBERS).encode() for _ in range(dice.randrange(4))) + b"]"
    if name == "m":
        return _object(dice, [(key, dice.choice(_NUMBERS).encode()) for key in ("p", "q")[: dice.randrange(3)]])
    return _text(dice)


def _value(dice: random.Random, depth: int) -> bytes:
    kind = dice.randrange(7 if depth else 4)
    if kind == 0:
        return dice.choice(_NUMBERS).encode()
    if kind in (1, 2):
        return _text(dice)
    if kind == 3:
        return dice.choice((b"null", b"true", b"false"))
    items = [_value(dice, depth - 1) for _ in range(dice.randrange(4))]
    if kind == 4:
        return b"[" + (_blank(dice) + b",").join(items) + b"]"
    return _object(dice, [(name, item) for name, item in zip(("a", "b", "id", "n"), items, strict=False)])


def _object(dice: random.Random, members: list[tuple[str, bytes]]) -> bytes:
    pieces = [_quoted(dice, name) + _blank(dice) + b":" + _blank(dice) + value for name, value in members]
    return b"{" + _blank(dice) + (b"," + _blank(dice)).join(pieces) + _blank(dice) + b"}"


def _text(dice: random.Random) -> bytes:
    return _quoted(dice, "".join(dice.choice(_TEXTS) for _ in range(dice.choice((1, 1, 1, 2, 3)))))


def _quoted(dice: random.Random, text: Any) -> bytes:
    return json.dumps(text, ensure_ascii=dice.random() < 0.3).encode()


def _blank(dice: random.Random) -> bytes:
    return dice.choice((b"", b"", b"", b" ", b"\n", b"\t\r\n "))


def _damaged(dice: random.Random, body: bytes) -> bytes:
    for _ in range(dice.choice((1, 1, 2))):
        at = dice.randrange(len(body) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            body = body[:at]
        elif kind == 1:
            body = body[:at] + body[at + dice.randrange(1, 4) :]
        else:
            body = body[:at] + dice.choice(_PIECES) + body[at + (kind == 2) :]
    return body
