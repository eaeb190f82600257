"""What is fuzzed: a format has valid seed files, how they are mutated, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutation import Mutate

Step = str | Callable[[Path], object]
"""A command line, with `{in}` for the folder of seeds and `{out}` for a new place, or several with `&&`
between them; or a function of the folder."""


@dataclass(frozen=True)
class Format:
    """One format that is read from files nobody trusts.

    `seed` writes valid files into an empty folder. In every case one file that a pattern of `mutate` names is
    changed; then `first` is run, and if that succeeds, in a `share` of the cases, one of `then` and one of
    `holds`, properties that a valid input cannot break either. `first` is the cheapest way to read everything
    the file says: most mutations end there.
    """

    name: str
    seed: Callable[[Path], object]
    mutate: Mapping[str, Mutate]
    first: Step
    then: tuple[Step, ...] = ()
    share: float = 0.1
    holds: tuple[Step, ...] = ()
