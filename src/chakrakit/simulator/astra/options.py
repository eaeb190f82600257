"""What the command line of ASTRA-sim sets, and what we add to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chakrakit.errors import ConfigError

Backend = Literal["unaware", "aware"]


@dataclass(frozen=True)
class AstraOptions:
    """One run's settings; the defaults are ASTRA-sim's.

    `lenient` gives ASTRA-sim's answer where it silently answers wrong or some ranks never finish, instead
    of an error. `fold` lets equal ranks be simulated once; the answer is the same either way.
    """

    backend: Backend = "unaware"
    queues: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    lenient: bool = False
    fold: bool = True

    def __post_init__(self) -> None:
        if self.backend not in ("unaware", "aware"):
            raise ConfigError(f"--backend is {self.backend!r}; it must be unaware or aware")
        if not 1 <= self.queues <= 1024:
            raise ConfigError(f"--queues is {self.queues}; it must be 1 to 1024")
        if not 0 <= self.injection_scale < 1e9:
            raise ConfigError(f"--injection-scale is {self.injection_scale}; it must be 0 or more")
