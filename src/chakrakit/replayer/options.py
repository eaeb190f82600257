"""How to replay: the choices of `chakra replay`."""

from __future__ import annotations

from dataclasses import dataclass

from chakrakit.errors import ConfigError

MODES = ("full", "compute", "comm", "emulate")
_MOST_RANKS = 1 << 14
"""Each rank gets a plan that lists all groups: with more the plans alone would take hours to write."""


@dataclass(frozen=True)
class ReplayOptions:
    """What to replay, on what, and how.

    mode      full, compute, comm or emulate
    device    cpu or cuda
    nproc     ranks of the replay; 0 for as many as were recorded
    gaps      keep the host's own time between operators
    shrink    keep or scale: what stays as recorded in a group that lost members
    step      which recorded step; -1 for the last
    allow_generated_code   run kernels that a compiler generated from their recorded code
    backend   of the process groups; by default gloo on a CPU and NCCL on GPUs
    """

    mode: str = "full"
    device: str = "cpu"
    nproc: int = 0
    gaps: bool = False
    shrink: str = "keep"
    step: int = -1
    backend: str = ""
    allow_generated_code: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("mode", self.mode, MODES),
            ("device", self.device, ("cpu", "cuda")),
            ("shrink", self.shrink, ("keep", "scale")),
        ):
            if value not in known:
                raise ConfigError(f"{name} {value!r}; there are {', '.join(known)}")
        if not 0 <= self.nproc <= _MOST_RANKS:
            raise ConfigError(
                f"nproc {self.nproc:,}; each is a process, so give 1 or more, and at most {_MOST_RANKS:,}"
            )

    @property
    def backend_name(self) -> str:
        """Gloo or nccl, unless another was asked for."""
        return self.backend or ("nccl" if self.device == "cuda" else "gloo")
