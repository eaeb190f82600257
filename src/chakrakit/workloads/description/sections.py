"""A model of several sections, such as encoders beside a language model, each with its own plan and ranks."""

from __future__ import annotations

from typing import Literal

import msgspec

from chakrakit.workloads.description.description import Lengths, Model, Plan, Step
from chakrakit.workloads.description.parts import Part


class Section(Part, frozen=True, kw_only=True):
    """One section: an encoder, a teacher, a student, a language model."""

    model: Model
    plan: Plan = Plan()
    after: list[str] = msgspec.field(default_factory=list)
    """Sections whose results it takes."""
    ranks_of: str = ""
    """The section whose ranks it shares; by default it has ranks of its own."""
    trains: bool = True
    """Whether it goes backward and is updated; a teacher or a frozen encoder only goes forward."""
    output: Literal["hidden", "logits"] = "hidden"
    """What sections after it take: hidden states, which enter with their input (the head is left out), or
    logits, which enter with their loss."""
    seq: int = 0
    """Tokens of a sample in a decoder; by default the step's."""
    micro_batch: int = 1
    """Samples of one pass."""
    share: float = 1.0
    """Share of samples that pass through it; the others skip it."""
    modalities: list[str] = msgspec.field(default_factory=list)
    """Only samples of these modalities pass through it, where a file of samples names them."""
    lengths: Lengths = Lengths()
    """How large samples are in it: tokens of a decoder, images of a vision model."""
    deal: Literal["turn", "size", "own"] = "turn"
    """Samples that pass through it go to replicas in turn; the largest first to the replica with the least
    (size); or each replica takes those of its own, by number over all samples, and may have none (own)."""


class SectionGraph(Part, frozen=True, kw_only=True):
    """A workload of several sections: who takes whose results follows from `after`."""

    sections: dict[str, Section]
    step: Step = Step()
    order: Literal["fifo", "wavefront"] = "fifo"
    """Samples pass a section in their own order, or those first whose inputs are there first."""

    @property
    def name(self) -> str:
        """A file name for it."""
        return "-".join(self.sections).replace("/", "-").replace(".", "-")
