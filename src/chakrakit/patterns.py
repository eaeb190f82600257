"""Regular expressions that people and files give, which must not take for ever."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_REPEATS = 4
"""In an expression that only Python's engine knows: so many over a name of 60 letters end within a second."""
_LONGEST = 400_000
"""Characters; the longest published list of modules has 16 thousand."""
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")


def compiled(pattern: str) -> re.Pattern[str]:
    """An expression for Python's engine; a ValueError says what is wrong with it."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"it has {len(pattern):,} characters; {_LONGEST:,} is the most")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(str(error)) from None
    except (RecursionError, OverflowError):
        raise ValueError("it is too deep, or repeats too often") from None


@dataclass(frozen=True)
class Expression:
    """Whether an expression matches: of many texts, in one call, or of one."""

    each: Callable[[Sequence[str]], list[bool]]

    def __call__(self, text: str) -> bool:
        """Whether it matches this one."""
        return self.each([text])[0]


def begins_with(pattern: str) -> Expression:
    """Whether a text begins with what an expression matches."""
    slow = compiled(pattern)
    return Expression(_linear(f"^(?:{pattern})") or _bounded(pattern, slow.match))


def holds(pattern: str) -> Expression:
    """Whether an expression matches anywhere in a text."""
    slow = compiled(pattern)
    return Expression(_linear(pattern) or _bounded(pattern, slow.search))


def _linear(pattern: str) -> Callable[[Sequence[str]], list[bool]] | None:
    """By RE2, which takes linear time; None where it does not know the expression."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except (pa.ArrowInvalid, UnicodeError):
        return None

    def matches(texts: Sequence[str]) -> list[bool]:
        try:
            found = pc.match_substring_regex(pa.array(texts, pa.string()), pattern=pattern)
        except UnicodeError:  # half a character is in no expression that RE2 took
            return [len(texts) > 1 and matches([text])[0] for text in texts]
        result: list[bool] = found.to_pylist()
        return result

    return matches


def _bounded(pattern: str, match: Callable[[str], object]) -> Callable[[Sequence[str]], list[bool]]:
    """By Python's engine, for expressions that look ahead or back and repeat little."""
    if _REPEATED_GROUP.search(pattern) or len(_REPEAT.findall(pattern)) > _MOST_REPEATS:
        raise ValueError("it could take for ever; repeat less, or look neither ahead nor back")
    return lambda texts: [match(text) is not None for text in texts]
