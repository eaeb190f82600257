"""Which replica of a section gets which samples, in which micro-batches and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Section, SectionGraph
from chakrakit.workloads.samples import Deal, MicroBatch, Sample, document_lengths, read_samples
from chakrakit.workloads.sections.feasible import in_topological_order


class SamplePlace(NamedTuple):
    """Where a sample is: the replica, and the number of its micro-batch there."""

    replica: int
    batch: int


@dataclass(frozen=True)
class SectionDeal:
    """`of[replica]` are the micro-batches of a replica of a section."""

    of: tuple[tuple[MicroBatch, ...], ...]

    @cached_property
    def places(self) -> dict[int, SamplePlace]:
        """Where each sample is that passes through the section."""
        return {
            sample.number: SamplePlace(r, b)
            for r, batches in enumerate(self.of)
            for b, batch in enumerate(batches)
            for sample in batch.samples
        }

    @cached_property
    def lengths(self) -> dict[int, int]:
        """How large each sample is in the section."""
        return {s.number: s.length for batches in self.of for b in batches for s in b.samples}

    @property
    def as_deal(self) -> Deal:
        """The same as one step of a workload."""
        return Deal(tuple((batches,) for batches in self.of))

    def ready(self, number: int) -> float:
        """When a sample leaves the section, as a share of the section's forward passes; 0 if it skips it."""
        place = self.places.get(number)
        return 0.0 if place is None else (place.batch + 1) / len(self.of[place.replica])


def deal_sections(graph: SectionGraph, number: int) -> dict[str, SectionDeal]:
    """The micro-batches of all sections in one step of the graph."""
    known = _samples_of_step(graph, number)
    deals: dict[str, SectionDeal] = {}
    for place, name in enumerate(in_topological_order(graph)):
        section = graph.sections[name]
        chance = np.random.default_rng((graph.step.seed, number, place))
        samples = _sized(graph, section, _passing(section, known, chance), chance)
        if graph.order == "wavefront":
            before = [deals[other] for other in section.after]
            samples.sort(
                key=lambda s: (max((d.ready(s.number) for d in before), default=0), s.number)
            )
        deals[name] = SectionDeal(_dealt(section, samples))
    return deals


def _samples_of_step(graph: SectionGraph, number: int) -> list[Sample]:
    """The samples of a step, from the file or all alike."""
    step, count = graph.step, graph.step.global_batch
    if not step.samples.sample_file:
        return [Sample(i, step.seq) for i in range(count)]
    rows = read_samples(step.samples.sample_file)[number * count : (number + 1) * count]
    if len(rows) < count:
        raise ConfigError(
            f"{step.samples.sample_file} has no {count * (number + 1):,} samples for {number + 1} steps; ask "
            "for fewer steps or a smaller global_batch"
        )
    return [row._replace(number=i) for i, row in enumerate(rows)]


def _passing(
    section: Section, samples: Sequence[Sample], chance: np.random.Generator
) -> list[Sample]:
    """The samples that do not skip a section."""
    if section.modalities:
        samples = [s for s in samples if s.modality in section.modalities]
    count = max(1, round(section.share * len(samples))) if samples else 0
    chosen = np.sort(chance.permutation(len(samples))[:count]).tolist()
    return [samples[i] for i in chosen]


def _sized(
    graph: SectionGraph, section: Section, samples: list[Sample], chance: np.random.Generator
) -> list[Sample]:
    """The samples with their lengths in the section."""
    decoder = isinstance(section.model, Decoder)
    longest = (section.seq or graph.step.seq) if decoder else 1 << 16
    if section.lengths.mean:
        drawn = document_lengths(section.lengths, section.lengths.mean, len(samples), chance)
        return [
            s._replace(length=int(min(n, longest))) for s, n in zip(samples, drawn, strict=True)
        ]
    from_file = bool(graph.step.samples.sample_file) and decoder and not section.seq
    usual = longest if decoder else 1
    return [s._replace(length=min(s.length, longest) if from_file else usual) for s in samples]


def _dealt(section: Section, samples: Sequence[Sample]) -> tuple[tuple[MicroBatch, ...], ...]:
    dealt = _DEALS[section.deal](samples, section)
    return tuple(
        tuple(
            MicroBatch(tuple(mine[k : k + section.micro_batch]))
            for k in range(0, len(mine), section.micro_batch)
        )
        for mine in dealt
    )


def _in_turn(samples: Sequence[Sample], section: Section) -> list[list[Sample]]:
    """Replicas take as many samples as a micro-batch has, in turn; at the end single ones, if need be."""
    replicas, each = section.plan.dp, section.micro_batch
    if len(samples) < replicas * each:
        return [list(samples[r::replicas]) for r in range(replicas)]
    dealt: list[list[Sample]] = [[] for _ in range(replicas)]
    source = iter(samples)
    turn = 0
    while part := list(islice(source, each)):
        dealt[turn % replicas] += part
        turn += 1
    return dealt


def _by_size(samples: Sequence[Sample], section: Section) -> list[list[Sample]]:
    """The largest first, to the replica that has the least work and still room in its share of samples."""
    replicas = section.plan.dp
    room = -(-len(samples) // replicas)
    dealt: list[list[Sample]] = [[] for _ in range(replicas)]
    load = [0.0] * replicas
    order: Mapping[int, int] = {s.number: i for i, s in enumerate(samples)}
    for sample in sorted(samples, key=lambda s: -s.length * s.cost):
        free = [r for r in range(replicas) if len(dealt[r]) < room]
        least = min(free, key=lambda r: load[r])
        dealt[least].append(sample)
        load[least] += sample.length * sample.cost
    return [sorted(mine, key=lambda s: order[s.number]) for mine in dealt]


def _own(samples: Sequence[Sample], section: Section) -> list[list[Sample]]:
    """Replicas share all samples out by number, and keep those of them that pass through the section."""
    replicas, each = section.plan.dp, section.micro_batch
    return [[s for s in samples if s.number // each % replicas == r] for r in range(replicas)]


_DEALS = {"turn": _in_turn, "size": _by_size, "own": _own}
