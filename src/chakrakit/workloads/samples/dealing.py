"""Who gets which micro-batch: by step and by replica, with as many for everybody as collectives need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Diffusion, Model, Workload
from chakrakit.workloads.samples.batchers import BATCHERS, Batcher, Limits, MicroBatch, checked
from chakrakit.workloads.samples.sample import read_samples, sample_stream


@dataclass(frozen=True)
class Deal:
    """`of[replica][step]` are the micro-batches of a replica in a step."""

    of: tuple[tuple[tuple[MicroBatch, ...], ...], ...]

    @property
    def steps(self) -> int:
        """Steps of every replica."""
        return len(self.of[0])

    def quota(self, replica: int) -> int:
        """Micro-batches of a replica in each step."""
        return len(self.of[replica][0])

    def batches(self) -> Iterator[MicroBatch]:
        """All of them."""
        return (batch for replica in self.of for step in replica for batch in step)


def deal(workload: Workload, own: Batcher | None = None) -> Deal:
    """The micro-batches of all replicas and steps. Every sample that is drawn for them is in one of them.

    `own` is the batcher where it is the user's.
    """
    step, plan = workload.step, workload.plan
    each = step.global_batch // (plan.dp * step.micro_batch)
    quotas = step.samples.quotas or [each] * plan.dp
    limits = _limits(workload)
    longest = _longest(workload, limits)
    if step.steps == 0:
        return _all_of_a_file(workload, limits, longest, each, own)
    streams = _streams(workload, limits, longest, own)
    turns = [
        [_taken(streams[r], quotas[r], workload) for r in range(plan.dp)] for _ in range(step.steps)
    ]
    return Deal(tuple(tuple(turn[r] for turn in turns) for r in range(plan.dp)))


def _streams(
    workload: Workload, limits: Limits, longest: int, own: Batcher | None
) -> list[Iterator[MicroBatch]]:
    """One source of micro-batches for every replica.

    Online, each replica batches the samples that its own loader reads; otherwise all take from one source
    in turn.
    """
    step, dp = workload.step, workload.plan.dp
    batcher = _batcher(workload, own)
    if step.samples.batcher != "online":
        shared = batcher(sample_stream(step, longest), limits)
        return [shared] * dp
    return [
        batcher(itertools.islice(sample_stream(step, longest), r, None, dp), limits)
        for r in range(dp)
    ]


def _batcher(workload: Workload, own: Batcher | None) -> Batcher:
    samples = workload.step.samples
    if samples.batcher != "own":
        return BATCHERS[samples.batcher]
    if own is None:
        raise ConfigError(
            f"batcher {samples.batcher_file!r} is a program, which `chakra generate --allow-programs` runs; "
            "generate the traces, and use those"
        )
    return checked(own, samples.batcher_file)


def _taken(source: Iterator[MicroBatch], count: int, workload: Workload) -> tuple[MicroBatch, ...]:
    taken = tuple(itertools.islice(source, count))
    if len(taken) < count:
        samples = workload.step.samples
        raise ConfigError(
            f"the samples of {samples.sample_file or samples.batcher_file} do not fill the micro-batches of "
            f"{workload.step.steps} steps; ask for fewer steps, a smaller global_batch, or steps 0 for all"
        )
    return taken


def _all_of_a_file(
    workload: Workload, limits: Limits, longest: int, each: int, own: Batcher | None
) -> Deal:
    """Every sample of a file once: micro-batches are halved until all replicas have as many in every step."""
    dp = workload.plan.dp
    if workload.step.samples.batcher == "online":
        of_replicas = [list(source) for source in _streams(workload, limits, longest, own)]
        rounds = -(-max(map(len, of_replicas)) // each) * each
        dealt = [_aligned(mine, rounds) for mine in of_replicas]
    else:
        batches = list(_streams(workload, limits, longest, own)[0])
        if own is not None:
            _check_all(batches, workload)
        rounds = -(-len(batches) // (dp * each)) * each
        batches = _aligned(batches, rounds * dp)
        dealt = [batches[r::dp] for r in range(dp)]
    return Deal(
        tuple(tuple(tuple(mine[k : k + each]) for k in range(0, rounds, each)) for mine in dealt)
    )


def _check_all(batches: list[MicroBatch], workload: Workload) -> None:
    """A batcher of the user's has to emit every sample of a file."""
    file = workload.step.samples.sample_file
    left = len(read_samples(file)) - sum(len(b.samples) for b in batches)
    if left or not batches:
        raise ConfigError(
            f"batcher {workload.step.samples.batcher_file} leaves {left:,} samples of {file} out; with "
            "steps 0 it has to yield each of them once"
        )


def _aligned(batches: list[MicroBatch], count: int) -> list[MicroBatch]:
    """As many micro-batches as `count`, by halving those with the most samples."""
    batches = list(batches)
    while len(batches) < count:
        at = max(range(len(batches)), key=lambda i: len(batches[i].samples), default=-1)
        if at < 0 or len(batches[at].samples) < 2:
            raise ConfigError(
                f"{len(batches)} micro-batches of one sample each cannot be spread evenly over the replicas' "
                f"{count}; use a smaller dp or global_batch, or more samples"
            )
        batches[at : at + 1] = batches[at].halves()
    return batches


def _limits(workload: Workload) -> Limits:
    step, samples = workload.step, workload.step.samples
    unit = tokens_of_unit(workload.model)
    longest = _most_length(workload)
    return Limits(
        count=step.micro_batch,
        budget=samples.budget or step.micro_batch * longest * unit,
        most_work=samples.longest_batch * float(longest * unit) ** samples.power,
        power=samples.power,
        window=samples.window,
        unit=unit,
        room=step.seq,
        seed=step.seed,
    )


def _most_length(workload: Workload) -> int:
    """The longest length that samples can have."""
    step = workload.step
    if step.samples.sizes:
        return max(step.samples.sizes)
    return step.seq if isinstance(workload.model, Decoder) else _frames(workload.model)


def _frames(model: Model) -> int:
    return model.frames if isinstance(model, Diffusion) else 1


def _longest(workload: Workload, limits: Limits) -> int:
    """Longer samples are cut, as a data loader truncates them."""
    return min(_most_length(workload), max(limits.budget // limits.unit, 1))


def tokens_of_unit(model: Model) -> int:
    """Tokens of one unit of a sample's length: of a latent frame, for diffusion models."""
    return (
        model.replace(frames=model.patch[0]).tokens // model.patch[0]
        if isinstance(model, Diffusion)
        else 1
    )
