"""Operator schemas as PyTorch prints them: `aten::mm.out(Tensor self, …, *, Tensor(a!) out) -> …`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_HEAD = re.compile(r"^(\w+)::(\w+)(?:\.(\w+))?\(")
_ARGUMENT = re.compile(r"^(?P<type>.+?)\s+(?P<name>\w+)(?:\s*=.*)?$")
_LONGEST = 20_000


@dataclass(frozen=True)
class Argument:
    """One argument; `type` is as printed, without alias marks. `written` says `(a!)`."""

    name: str
    type: str
    keyword: bool
    written: bool


@dataclass(frozen=True)
class OperatorSchema:
    """What a schema says of how to call an operator."""

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]

    @property
    def full_name(self) -> str:
        """`aten::mm`."""
        return f"{self.namespace}::{self.name}"


@lru_cache(maxsize=4096)
def parse_schema(text: str) -> OperatorSchema | None:
    """The schema in a text; None for what is not one."""
    head = _HEAD.match(text)
    if head is None or len(text) > _LONGEST:
        return None
    inside = _until_closed(text, head.end())
    if inside is None:
        return None
    arguments: list[Argument] = []
    keyword = False
    for part in split_list(inside):
        if part == "*":
            keyword = True
            continue
        match = _ARGUMENT.match(part)
        if match is None:
            return None
        kind = re.sub(r"\([^()]*\)", "", match["type"])
        arguments.append(Argument(match["name"], kind, keyword, "!" in match["type"]))
    return OperatorSchema(head[1], head[2], head[3] or "", tuple(arguments))


def _until_closed(text: str, start: int) -> str | None:
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return text[start:i]
    return None


def split_list(text: str) -> list[str]:
    """The parts between commas that no bracket encloses."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts
