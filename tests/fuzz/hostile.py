"""Values, trees and bytes that readers do not expect; the same generator gives the same ones."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from random import Random
from typing import Any

WHOLE = (
    -1, 0, 1, 2, 7, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64,
    10**22, 10**30, -2, -(2**31), -(2**62), -(2**63), -(2**64),
)  # fmt: skip
REAL = (0.5, -0.5, 1e-300, 1e15, 1e300, -1e300, math.nan, math.inf, -math.inf)
TEXT = (
    "", " ", "0", "-1", "abc", "1.5", "1e999", "nan", "²", "٣", "1.2.3", "true", "null", "[]", "{}",
    "\x00", "a\x00b", "\x1b[2J", "\ud800", "\u202e", "../../x", "/", ".", "%s%n", "(a+)+$", "[", "\\",
    "9" * 23, "1" * 5000, "x" * 70_000, "0-9999999999", "4 GB/s", "1e30 GB/s", "-1 us", "0x7f",
    "\ufeff", "\u2028", "\u200b", "e\u0301" * 40, "\U0001f600", "\r\n", "\t", "1_000", "0b1", "+1", "-0",
    "NaN", "Infinity", "1,5", "01", "-", "0/0", "1:2:3", "2026-02-30", "~", "*", "&a", "!!int", "<",
    "&lt;", "'", '"',
)  # fmt: skip
PLAIN = (None, True, False)
BYTES = (
    b"\x00", b"\xff", b"\xff" * 10, b"\xc0\x80", b"\xed\xa0\x80", b"\x80" * 9 + b"\x01", b"[" * 3000,
    b"{" * 3000, b'{"a":' * 2000, b"- " * 500, b'"', b"&a [*a]", b"null", b"-", b"1e999", b"\n", b",",
    b"NaN", b"99999999999999999999", b"\x1f\x8b", b"\xef\xbb\xbf",
)  # fmt: skip
RAW = (
    "NaN", "-Infinity", "1e999", "-1e-999", "1" + "0" * 400, "0" * 30 + "1", "-0", "1.", ".5", "0x1F",
    "1_000", ".inf", "~", '"\\ud800"', '"\\u0000"', "[" * 300 + "]" * 300, "[" * 20_000 + "]" * 20_000,
    '{"a":' * 300 + "1" + "}" * 300, '{"a":' * 9000 + "1" + "}" * 9000, "[" + "0," * 30_000 + "0]",
    "{" + ",".join(f'"k{i}":{i}' for i in range(5000)) + "}", "[[],[],[]]", '{"":{}}', "true", "nul",
    "&a [*a]", "!!python/none", "*nobody", "? x", "'", '"', "",
)  # fmt: skip
"""Text in place of a value that no program would write."""


def hostile(rng: Random) -> Any:
    """A value that a reader may not have thought of."""
    kind = rng.randrange(10)
    if kind < 3:
        return rng.choice(WHOLE)
    if kind < 4:
        return rng.choice((1, -1)) * (2 ** rng.randrange(70) + rng.randrange(-1, 2))
    if kind < 5:
        return rng.choice(REAL)
    if kind < 6:
        return rng.choice((1, -1)) * rng.random() * 10.0 ** rng.randrange(-320, 309)
    if kind < 8:
        return rng.choice(TEXT)
    if kind < 9:
        return rng.choice(PLAIN)
    return _nested(rng)


def _nested(rng: Random) -> Any:
    inner = rng.choice((None, 0, -1, "x", 2**62, math.nan))
    shape = rng.randrange(6)
    if shape == 0:
        return []
    if shape == 1:
        return {}
    if shape == 2:
        return [inner]
    if shape == 3:
        return {rng.choice(("name", "a", "0", "")): inner}
    if shape == 4:
        return [inner] * rng.choice((2, 100, 3000))
    for _ in range(rng.choice((3, 150))):
        inner = [inner] if rng.random() < 0.5 else {"a": inner}
    return inner


# --- trees --------------------------------------------------------------------------------------


def mutated_tree(rng: Random, tree: Any) -> Any:
    """A copy of nested lists and dicts with a few places changed."""
    changed: list[Any] = [copy.deepcopy(tree)]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 8))):
        found = places(changed) or [(changed, 0)]
        if rng.random() < 0.1:
            _change_alike(rng, found)
        else:
            _change(rng, *rng.choice(found), found)
    return changed[0]


def _change_alike(rng: Random, found: list[tuple[Any, Any]]) -> None:
    """One value under every place of the same key; or two places change what they hold."""
    (one, key), (other, place) = rng.choice(found), rng.choice(found)
    if rng.random() < 0.4:
        one[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(one[key])
        return
    value = hostile(rng)
    for holder, name in found:
        if name == key and type(holder) is type(one):
            holder[name] = value


_MOST_PLACES = 20_000


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container and key that holds a value."""
    found: list[tuple[Any, Any]] = []
    open_ = [tree]
    while open_ and len(found) < _MOST_PLACES:
        here = open_.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        for key in keys:
            found.append((here, key))
            if isinstance(here[key], dict | list):
                open_.append(here[key])
    return found


def _change(rng: Random, holder: Any, key: Any, found: list[tuple[Any, Any]]) -> None:
    value = holder[key]
    action = rng.randrange(12)
    if action < 5:
        holder[key] = hostile(rng)
    elif action < 7 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = _near(rng, value)
    elif action < 8:  # what another place holds
        other, place = rng.choice(found)
        holder[key] = copy.deepcopy(other[place]) if other is not value else None
    elif action < 9 and isinstance(holder, dict):
        holder[rng.choice((str(hostile(rng))[:50], f"{key}s", "", "id", "name"))] = holder.pop(key)
    elif action < 10 and holder is not found[0][0]:
        del holder[key]
    elif isinstance(value, list) and value:
        _resize(rng, value)
    elif isinstance(value, str) and value:
        cut = rng.randrange(len(value))
        holder[key] = value[:cut] + str(rng.choice(TEXT + WHOLE))[:200] + value[cut:]
    else:
        holder[key] = _of_another_type(rng, value)


def _of_another_type(rng: Random, value: Any) -> Any:
    """The same in other words: a reader may take it for what it expects."""
    ways: list[Any] = [
        str(value)[:5000],
        [value],
        {"value": value},
        [[value], [value]],
        bool(value),
    ]
    if isinstance(value, dict):
        ways += [list(value.items()), list(value), dict.fromkeys(list(value)[:3], value)]
    if isinstance(value, list):
        ways += [{str(i): v for i, v in enumerate(value)}, tuple(value), value[:1]]
    if isinstance(value, str):
        ways += [list(value[:50]), value.upper(), f" {value} ", value * 50]
    return copy.deepcopy(rng.choice(ways))


def _near(rng: Random, value: float) -> Any:
    ways: tuple[Callable[[], Any], ...] = (
        lambda: -value,
        lambda: value + 1,
        lambda: value - 1,
        lambda: value * 2**32,
        lambda: value * 1e-9,
        lambda: str(value),
        lambda: float(value),
        lambda: value * 1000 + 1,
    )
    try:
        return rng.choice(ways)()
    except OverflowError:
        return math.inf


def _resize(rng: Random, value: list[Any]) -> None:
    way = rng.randrange(5)
    if way == 0:
        value *= rng.choice((2, 3, 40, max(1, min(2000, 20_000 // len(value)))))
    elif way == 1:
        value.reverse()
    elif way == 2:
        del value[rng.randrange(len(value)) :]
    elif way == 3:
        value.append(hostile(rng))
    else:
        rng.shuffle(value)


# --- bytes --------------------------------------------------------------------------------------


def mutated_bytes(rng: Random, data: bytes) -> bytes:
    """A few bytes turned, cut, doubled or put in."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        _turn(rng, out)
    return bytes(out)


def _turn(rng: Random, out: bytearray) -> None:
    at = rng.randrange(len(out) + 1)
    to = min(len(out), at + rng.choice((1, 2, 8, 64, 1024)))
    way = rng.randrange(9)
    if way == 0 and at < len(out):
        out[at] ^= 1 << rng.randrange(8)
    elif way == 1 and at < len(out):
        out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif way == 2:
        del out[at:to]
    elif way == 3:
        out[at:at] = out[at:to]
    elif way == 4:
        out[at:at] = rng.choice(BYTES)
    elif way == 5:
        out[at:to] = rng.choice(BYTES)
    elif way == 6:
        del out[at:]
    elif way == 7:  # a number in a text
        _turn_number(rng, out)
    else:
        other = rng.randrange(len(out) + 1)
        out[at:to] = out[other : other + (to - at)]


_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def _turn_number(rng: Random, out: bytearray) -> None:
    at = rng.randrange(len(out) + 1)
    found = _NUMBER.search(out, at) or _NUMBER.search(out)
    if found:
        said = str(rng.choice((*WHOLE, *REAL, "x", "")))
        out[found.start() : found.end()] = said.encode()


_SCALAR = re.compile(rb'-?\d[\d.eE+]*|"[^"]*"|\btrue\b|\bfalse\b|\bnull\b')
_MEMBER = re.compile(rb'"?[\w.-]+"?:\s*("[^"]*"|[\w.+-]+)')


def mutated_text(rng: Random, data: bytes) -> bytes:
    """A value of a text replaced by what no program would write, or a key that is there twice."""
    pattern = rng.choice((_SCALAR, _SCALAR, _MEMBER))
    found = list(pattern.finditer(data, rng.randrange(len(data) + 1))) or list(
        pattern.finditer(data)
    )
    if not found:
        return mutated_bytes(rng, data)
    match = rng.choice(found[:2000])
    raw = rng.choice(RAW).encode()
    if pattern is _MEMBER:
        key = match.group().partition(b":")[0]
        raw = key + b": " + raw + rng.choice((b", ", b"\n")) + match.group()
    return data[: match.start()] + raw + data[match.end() :]
