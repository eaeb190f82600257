"""Computes the figures of a result, its energy and the table of requests from the core's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import FILLS, PICO, Device, Draw, clocked, highest_share
from chakrakit.machines.fabric import Site
from chakrakit.results import Spread, spread, spread_of_any
from chakrakit.serving.cluster import PoolSetup, ServingOutcome, Setup, run
from chakrakit.serving.requests import RequestStream, repeated
from chakrakit.serving.results.summary import (
    KvCache,
    PoolFigures,
    ServeResult,
    ServiceLevel,
    TenantFigures,
    gap_spread,
    shortest_gap,
    within_level,
)
from chakrakit.serving.steps import MaskedAttention, SortedSampling, StepOperators, separate_kernels
from chakrakit.workloads.generate import ModelFigures
from chakrakit.workloads.layers import ALL, Reach

IDLE = "idle"
_CLASSES = {"matmul": "gemm"}
"""The names of classes of work in other results, where they differ."""


@dataclass(frozen=True)
class EngineLoad:
    """The total work of the engines of a pool."""

    role: str
    devices: int
    tp: int
    steps: int
    tokens: int
    sampled: int
    busy: float
    """Seconds, over all engines."""
    padded: Sequence[tuple[int, int, int]] = ()
    """Tokens and context to which engines without paged attention fill up steps, and how many steps."""
    sorted_sampling: bool = False
    """Whether tokens were drawn from sorted logits."""

    @property
    def computed_tokens(self) -> int:
        """Tokens that products compute, with those that a step is filled up with."""
        return sum(tokens * steps for tokens, _, steps in self.padded) or self.tokens

    @property
    def computed_samples(self) -> int:
        """Tokens that the head computes: all of a padded step."""
        return self.computed_tokens if self.padded else self.sampled


@dataclass(frozen=True)
class RequestLengths:
    """Prompts and outputs of the requests that were served."""

    prompt: I64
    output: I64

    def attended(self, role: str, reach: Reach = ALL) -> tuple[float, float]:
        """Pairs of query and cached token, and cached tokens that decoding reads, in a pool of this role."""
        prompt, output = self.prompt.astype(np.float64), self.output.astype(np.float64)
        if reach != ALL:
            whole = [float(keys_met(reach, n).sum()) for n in (prompt, prompt + output)]
            prefilled = whole[0] if role != "decode" else 0.0
            decoded = whole[1] - whole[0] if role != "prefill" else 0.0
            return prefilled + decoded, decoded
        prefill = float((prompt * (prompt + 1) / 2).sum()) if role != "decode" else 0.0
        decode = float((output * (prompt + output / 2)).sum()) if role != "prefill" else 0.0
        return prefill + decode, decode


def group_times(group: I64, arrival: I64, finish: I64) -> tuple[I64, I64]:
    """First arrival and last end of each group; -1 where one of its requests never ended."""
    mine = group >= 0
    _, number = np.unique(group[mine], return_inverse=True)
    count = int(number.max()) + 1
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    ended = np.ones(count, np.bool_)
    np.minimum.at(first, number, arrival[mine])
    np.maximum.at(last, number, finish[mine])
    np.logical_and.at(ended, number, finish[mine] >= 0)
    return first, np.where(ended, last, -1)


def deadlines_met(stream: RequestStream, arrival: I64, finish: I64) -> float:
    """The share of requests with a deadline that ended in time; a group's counts from its first arrival."""
    assert stream.deadline_ps is not None
    begun = arrival.copy()
    if stream.group is not None:
        mine = stream.group >= 0
        if mine.any():
            first, _ = group_times(stream.group, arrival, finish)
            _, number = np.unique(stream.group[mine], return_inverse=True)
            begun[mine] = first[number]
    asked = stream.deadline_ps >= 0
    in_time = (finish >= 0) & (finish <= begun + stream.deadline_ps)
    return float(in_time[asked].mean())


def keys_met(reach: Reach, upto: F64) -> F64:
    """Keys that all queries up to a place meet; see `Reach.pairs`."""
    if reach.chunk:
        whole, rest = np.divmod(upto, reach.chunk)
        return np.asarray((whole * reach.chunk**2 + rest**2) / 2)
    limit = reach.most * reach.stride if reach.most else np.inf
    within, beyond = np.minimum(upto, limit), np.maximum(upto - limit, 0.0)
    return np.asarray(within**2 / (2 * reach.stride) + beyond * reach.most)


def pool_joules(
    load: EngineLoad,
    work: StepOperators,
    device: Device,
    lengths: RequestLengths,
    seconds: float,
    clock_share: float = 1.0,
) -> dict[str, float]:
    """Joules by class of work over a time at a clock; `idle` is the energy that devices always take."""
    rest = load.devices * seconds
    if device.dynamic is None:
        return {
            "busy": load.busy * device.power,
            IDLE: max(0.0, rest - load.busy) * device.idle_power,
        }
    draw = Draw(constants=device.dynamic, share=clock_share)
    base = (device.idle_power + draw.clock_watts) * rest
    joules_by_class = _joules_of_work(load, work, lengths, draw, device)
    most = device.power * device.dynamic.limit_share * load.busy
    spent = sum(joules_by_class.values())
    share = min(1.0, max(0.0, most - base * load.busy / max(rest, PICO)) / max(spent, PICO))
    return {**{name: share * j for name, j in joules_by_class.items()}, IDLE: base}


def _joules_of_work(
    load: EngineLoad, work: StepOperators, lengths: RequestLengths, draw: Draw, device: Device
) -> dict[str, float]:
    """Joules by class of work beyond idle power and the power of the clocks.

    The rules are those of a trace's rows (machines/device/activity.py): vector units draw power where they
    and not memory limit a kernel, product units by the FLOP.
    """
    joules_by_class: dict[str, float] = {}
    c, chip = draw.constants, draw.voltage**2
    parts = (
        *_work(load, work, lengths),
        *_padded_work(load, work, device),
        *_sampling_work(load, work, device),
    )
    for part in parts:
        each = c.product(part.dtype) * (c.attention if part.name == "attention" else 1.0)
        through = c.memory_pj + c.cache_pj * chip
        joules = (part.flops * each * chip + part.moved * through) * PICO
        joules = load.tp * (joules + part.vector_seconds * c.vector_watts * chip)
        joules_by_class[part.name] = joules_by_class.get(part.name, 0.0) + joules
    return joules_by_class


def share_within(
    load: EngineLoad,
    work: StepOperators,
    device: Device,
    lengths: RequestLengths,
    watts: float,
    sustained: bool,
) -> float:
    """The highest clock, as a share, at which a device at work draws less than these watts on average."""
    constants = device.dynamic
    assert constants is not None

    def least_seconds(share: float) -> float:
        slowed = clocked(device, share, sustained)
        return sum(
            max(part.flops / slowed.peak_rate(part.dtype), part.moved / slowed.memory_bandwidth)
            for part in _work(load, work, lengths)
        )

    def mean_watts(share: float) -> float:
        draw = Draw(constants=constants, share=share)
        busy = load.busy * least_seconds(share) / least_seconds(1.0)
        joules = sum(_joules_of_work(load, work, lengths, draw, device).values())
        return device.idle_power + draw.clock_watts + joules / max(busy, PICO)

    share = highest_share(constants, mean_watts, watts)
    if mean_watts(share) > watts:
        raise ConfigError(
            f"{device.name} cannot stay within {watts:g} W: serving this stream it draws "
            f"{mean_watts(share):.0f} at its lowest clock, {constants.least_clock_mhz:g} MHz; give a higher "
            "limit"
        )
    return share


class _Part(NamedTuple):
    """Work of one class: FLOPs, bytes, element type, and how long vector units limit it, where known."""

    name: str
    flops: float
    moved: float
    dtype: str
    vector_seconds: float = 0.0


def _work(load: EngineLoad, work: StepOperators, lengths: RequestLengths) -> Iterator[_Part]:
    """One tensor-parallel rank's work over all steps, but for what padded steps do otherwise."""
    experts_met = float(work.experts_met(load.tokens / max(1, load.steps))) * load.steps
    for o in work.operators:
        if o.comm < 0:
            sums = (
                load.steps * q.constant
                + load.computed_tokens * q.tokens
                + load.computed_samples * q.sampled
                + experts_met * q.experts_met
                for q in (o.flops, o.bytes)
            )
            flops, moved = (o.count * value for value in sums)
            yield _Part(_CLASSES.get(o.op, o.op), flops, moved, o.dtype)
    for a in work.attention if not load.padded else ():
        pairs, read = lengths.attended(load.role, a.reach)
        flops = a.flops_per_pair * pairs + a.flops_per_token * load.tokens
        moved = a.bytes_per_token * load.tokens + a.bytes_per_context * read
        moved += a.bytes_per_sequence * load.sampled
        yield _Part("attention", a.layers * flops, a.layers * moved, a.dtype)


def _padded_work(load: EngineLoad, work: StepOperators, device: Device) -> Iterator[_Part]:
    """What engines without paged attention do: copy and mask all keys of a step, in many small kernels."""
    attention, dtype = MaskedAttention(work, device), work.attention[0].dtype
    for queries, context, steps in load.padded:
        each, keys = work.model.layers * steps, context + queries
        flops, read = attention.work.flops(queries, keys), attention.work.read(queries, keys)
        yield _Part("attention", each * flops, each * read, dtype)
        copied, seconds = attention.work.copied(keys), attention.copying_seconds(keys)
        for count, moved, kernel_s in (
            (1, copied, seconds),
            *((count, size * queries, 0.0) for count, size in separate_kernels(work)),
        ):
            at_memory = moved / device.memory_bandwidth
            beyond = max(kernel_s, device.kernel_overhead, at_memory) - at_memory
            filled = min(1.0, moved / FILLS)
            yield _Part("vector", 0.0, each * count * moved, dtype, each * count * beyond * filled)


def _sampling_work(load: EngineLoad, work: StepOperators, device: Device) -> Iterator[_Part]:
    """Drawing tokens from sorted logits, on all ranks as if each did; a mean step stands for all."""
    if load.sorted_sampling:
        sampling, mean = SortedSampling(work.model.vocab, device), load.sampled / max(1, load.steps)
        moved, seconds = sampling.moved(mean), float(sampling.seconds(np.array([mean]))[0])
        beyond = max(0.0, seconds - moved / device.memory_bandwidth)
        yield _Part("vector", 0.0, load.steps * moved, "fp32", load.steps * beyond)


_MS = 1e-9
"""Milliseconds in a picosecond."""


_LEFT_BEHIND = 0.1
"""Share of the requests that come in half of a stream by which those under way may grow meanwhile."""
_FILLS = 4
"""Times that a request takes alone after which engines that keep up are as full as they will be: at nine
tenths of what an engine can serve, requests of an 8B model take 3.6 times as long as alone."""
_WAITS = 0.25
"""Share of a request's time in the queue from which the queue is worth a word."""
_DEVIATIONS = 3
"""Standard deviations that the growth must exceed: requests under way vary as Poisson's do."""


@dataclass(frozen=True)
class ServedRun:
    """A finished run: its setup, its outcome and its devices."""

    setup: Setup
    outcome: ServingOutcome
    device: Device
    devices_per_engine: tuple[int, ...]
    """Devices of one engine, by pool."""
    work: tuple[StepOperators, ...]
    """The operators of a step, by pool."""
    site: Site | None = None
    level: ServiceLevel = field(default_factory=ServiceLevel)
    clock_shares: tuple[float, ...] = ()
    """The clock of each pool's devices as a share of the highest; none for the highest."""
    devices: tuple[Device, ...] = ()
    """The device of each pool, where they differ."""
    warnings: tuple[str, ...] = ()
    """What step times rest on beyond what was measured."""

    def requests_table(self) -> pa.Table:
        """A table with one row per request; times in seconds, null where the request did not get there."""
        r, stream = self.outcome.requests, self.setup.stream
        names = stream.names or [str(i) for i in range(len(stream))]
        more = {}
        if stream.group is not None:
            more["group"] = pa.array(stream.group, mask=stream.group < 0)
        if stream.deadline_ps is not None:
            more["deadline_s"] = _seconds(stream.deadline_ps)
        if self._priorities:
            more["priority"] = pa.array(stream.priority)
        if stream.tenant is not None:
            names_of = {-1: None, **dict(enumerate(self._tenant_names))}
            more["tenant"] = pa.array([names_of[t] for t in stream.tenant.tolist()], pa.string())
        return pa.table(
            {
                "id": pa.array(names),
                "arrival_s": _seconds(r["arrival"]),
                "scheduled_s": _seconds(r["scheduled"]),
                "first_token_s": _seconds(r["first"]),
                "finish_s": _seconds(r["finish"]),
                "prompt": stream.prompt,
                "output": stream.output,
                "cached": r["cached"],
                "preempted": r["preempted"],
                "engine": r["engine"],
                **more,
            }
        )

    def result(self) -> ServeResult:
        """All figures of the run."""
        o, served = self.outcome, self._latencies
        tokens, seconds = int(served.output.sum()), self._seconds
        good = int(within_level(self.level, served.ttft, served.tpot, served.e2e).sum())
        pools = self._pools(seconds)
        return ServeResult(
            requests=len(self.setup.stream),
            finished=len(served.output),
            duration_s=seconds,
            ttft_ms=spread(served.ttft),
            tpot_ms=spread_of_any(served.tpot[served.output > 1]),
            itl_ms=gap_spread(o.totals),
            e2e_ms=spread(served.e2e),
            queue_ms=spread(served.queue),
            output_tokens_per_s=tokens / seconds,
            total_tokens_per_s=(tokens + int(served.prompt.sum())) / seconds,
            requests_per_s=len(served.output) / seconds,
            goodput=good / seconds,
            attained=good / len(self.setup.stream),
            kv=_fullest(pools),
            preemptions=self._total("preemptions"),
            swaps=self._total("swaps"),
            cache_hit_rate=self._total("hit_tokens") / max(1, self._total("asked_tokens")),
            steps=self._total("steps"),
            mean_batch=self._total("pieces") / max(1, self._total("steps")),
            **self._costs(seconds, RequestLengths(served.prompt, served.output)),
            devices=self._devices,
            pools=pools,
            step_times="; ".join(dict.fromkeys(pool.cost.about for pool in self.setup.pools)),
            notes=self._notes(),
            drafts_accepted=self._accepted(),
            moves=len(o.moves["start"]),
            move_ms=self._move_ms(),
            model=self._model,
            tenants=self._tenants(seconds),
            frontend_ms=self.setup.pools[0].options.frontend_ms,
            priorities=self._by_priority(seconds),
            refilled_tokens=self._total("refilled_tokens"),
            **self._groups(),
        )

    @property
    def _tenant_names(self) -> list[str]:
        """Names of tenants; those that only a source knows are numbers."""
        stream = self.setup.stream
        assert stream.tenant is not None
        count = int(stream.tenant.max(initial=-1)) + 1
        return [*stream.tenants, *(str(n) for n in range(len(stream.tenants), count))]

    def _tenants(self, seconds: float) -> dict[str, TenantFigures]:
        """Figures by tenant, of those that have requests."""
        stream = self.setup.stream
        if stream.tenant is None:
            return {}
        ended = self.outcome.requests["finish"] >= 0
        mine = [(name, stream.tenant == i) for i, name in enumerate(self._tenant_names)]
        return {
            name: self._tenant(asked, asked[ended], seconds) for name, asked in mine if asked.any()
        }

    @property
    def _priorities(self) -> list[int]:
        """The priorities of a stream that has several."""
        found = np.unique(self.setup.stream.priority).tolist()
        return found if len(found) > 1 else []

    def _by_priority(self, seconds: float) -> dict[str, TenantFigures]:
        """Figures by priority."""
        priority, ended = self.setup.stream.priority, self.outcome.requests["finish"] >= 0
        return {
            str(p): self._tenant(priority == p, (priority == p)[ended], seconds)
            for p in self._priorities
        }

    def _tenant(
        self, asked: NDArray[np.bool_], mine: NDArray[np.bool_], seconds: float
    ) -> TenantFigures:
        """Figures of the requests that were `asked`; `mine` of those that were served."""
        served = self._latencies
        ttft, tpot, e2e = (part[mine] for part in (served.ttft, served.tpot, served.e2e))
        output = served.output[mine]
        return TenantFigures(
            requests=int(asked.sum()),
            finished=int(mine.sum()),
            ttft_ms=spread(ttft),
            tpot_ms=spread_of_any(tpot[output > 1]),
            e2e_ms=spread(e2e),
            output_tokens_per_s=int(output.sum()) / seconds,
            attained=int(within_level(self.level, ttft, tpot, e2e).sum()) / int(asked.sum()),
        )

    def _groups(self) -> dict[str, Any]:
        """Figures of requests that are one task, and of deadlines."""
        stream, r = self.setup.stream, self.outcome.requests
        figures: dict[str, Any] = {}
        if stream.group is not None and (stream.group >= 0).any():
            first, last = group_times(stream.group, r["arrival"], r["finish"])
            figures |= {"groups": len(first), "group_ms": spread(_ms(last - first)[last >= 0])}
        if stream.deadline_ps is not None and (stream.deadline_ps >= 0).any():
            figures["deadlines_met"] = deadlines_met(stream, r["arrival"], r["finish"])
        return figures

    def percentiles(self, share: float) -> tuple[float, float | None, float]:
        """Milliseconds to the first token, per token and in all that this share of requests stays within.

        Per token None where no request had a second one.
        """
        served = self._latencies
        ttft, tpot, e2e = (
            float(np.quantile(times, share)) if len(times) else 0.0
            for times in (served.ttft, served.tpot, served.e2e)
        )
        return ttft, tpot if (served.output > 1).any() else None, e2e

    @property
    def falls_behind(self) -> bool:
        """Whether the stream brings more than the engines can serve, so that requests take ever longer."""
        return self._left_behind is not None

    @cached_property
    def _left_behind(self) -> tuple[float, float] | None:
        """Requests under way in the second and in the last quarter of a stream, where they grow without end.

        A stream whose first half is too short to fill the engines tells nothing.
        """
        served = self._latencies
        if not len(served.arrival) or self.too_short_to_tell:
            return None
        begin, end = served.arrival.min(), served.arrival.max()
        quarter = (end - begin) / 4
        second, last = (
            _under_way(served, t, t + quarter) for t in (begin + quarter, end - quarter)
        )
        come = np.count_nonzero(served.arrival > begin + 2 * quarter)
        if last - second <= max(_LEFT_BEHIND * come, _DEVIATIONS * np.sqrt(second + last)):
            return None
        if self._grows_again(last) <= _LEFT_BEHIND * come:
            return None  # they piled up where the stream happens to be dense
        return second, last

    def _grows_again(self, last: float) -> float:
        """By how many requests under way grow where the stream begins anew at its end.

        Both times the same come in the last quarter, in which so many were under way at first. Of streams
        that cannot be served again, where requests wait for others or a policy decides, it is not known.
        """
        setup = self.setup
        if not setup.stream.is_open or setup.source is not None or setup.hooks is not None:
            return np.inf
        twice = repeated(setup.stream, 2)
        again = run(replace(setup, stream=twice, may_miss=None, record_steps=False, window=(0, 0)))
        longer = replace(self, setup=replace(setup, stream=twice), outcome=again)._latencies
        end = float(longer.arrival.max())
        return _under_way(longer, end - self.stream_ms / 4, end) - last

    @property
    def alone_ms(self) -> float:
        """About what a mean request takes alone."""
        served = self._latencies
        return float(served.ttft.min() + shortest_gap(self.outcome.totals) * served.output.mean())

    @property
    def too_short_to_tell(self) -> bool:
        """Whether the first half of a stream ends before engines that keep up are as full as they will be."""
        return self.stream_ms / 2 < _FILLS * self.alone_ms

    @property
    def stream_ms(self) -> float:
        """From the first arrival to the last."""
        arrival = self._latencies.arrival
        return float(arrival.max() - arrival.min())

    @property
    def _times_alone(self) -> float:
        """How many times as long as alone requests of a short stream take, where that is too long.

        Requests that all come at once are a batch, which nobody expects to take what one takes.
        """
        served = self._latencies
        if not len(served.arrival) or not self.too_short_to_tell or self.stream_ms < self.alone_ms:
            return 0.0
        times = float(served.e2e.mean()) / max(self.alone_ms, _MS)
        return times if times > _FILLS else 0.0

    @cached_property
    def _latencies(self) -> _Latencies:
        r, stream = self.outcome.requests, self.setup.stream
        finished = r["finish"] >= 0
        arrival, first, finish, begun = (
            r[n][finished] for n in ("arrival", "first", "finish", "scheduled")
        )
        output = r["generated"][finished]  # less than was asked for where a policy ended it
        return _Latencies(
            arrival=_ms(arrival),
            prompt=stream.prompt[finished],
            output=output,
            ttft=_ms(first - arrival),
            tpot=np.where(output > 1, _ms(finish - first) / np.maximum(output - 1, 1), 0.0),
            e2e=_ms(finish - arrival),
            queue=_ms(begun - arrival),
        )

    @property
    def _seconds(self) -> float:
        """From the first arrival to the end of the last request."""
        arrival, finish = self.outcome.requests["arrival"], self.outcome.requests["finish"]
        if not (finish >= 0).any():
            return PICO
        return max(int(finish.max() - arrival[arrival >= 0].min()) * PICO, PICO)

    @property
    def _model(self) -> ModelFigures | None:
        return self.work[0].figures_on(self.device.peak) if self.work else None

    @property
    def _devices(self) -> int:
        pairs = zip(self.setup.pools, self.devices_per_engine, strict=True)
        return sum(pool.engines * devices for pool, devices in pairs)

    def _move_ms(self) -> Spread | None:
        moves = self.outcome.moves
        return spread(_ms(moves["end"] - moves["start"])) if len(moves["start"]) else None

    def _total(self, name: str) -> int:
        return sum(int(t[name]) for t in self.outcome.totals)

    def _accepted(self) -> float | None:
        drafted = self._total("drafted")
        return self._total("accepted") / drafted if drafted else None

    @property
    def _why_unserved(self) -> str:
        if self.setup.hooks is not None:
            return "a policy turned them away"
        return "the engines that could have taken them were down, or others that they wait for never ended"

    def _notes(self) -> list[str]:
        stream = self.setup.stream
        notes = [
            *self.warnings,
            *stream.notes,
            *(n for p in self.setup.pools for n in p.cost.notes),
        ]
        unserved = int((self.outcome.requests["finish"] < 0).sum())
        if unserved:
            notes.append(f"{unserved:,} requests were never served: {self._why_unserved}")
        if self._left_behind:
            second, last = self._left_behind
            notes.append(
                f"warning: requests take ever longer: {second:,.0f} are under way in the second quarter of "
                f"the stream and {last:,.0f} in the last; lower its rate or take more engines"
            )
        notes += self._short_of_cache()
        notes += self._unused_options()
        if times := self._times_alone:
            notes.append(
                f"warning: requests take {times:.1f} times as long as one alone, more than at nine tenths of "
                "what engines serve; the stream is too short to tell how long they would take in the end: "
                "lower its rate, take more engines, or serve more requests"
            )
        notes += [gap for device in self._pool_devices if (gap := device.energy_gap)]
        return list(dict.fromkeys(notes))

    def _unused_options(self) -> list[str]:
        """What requests or engines say that changes nothing here."""
        notes = []
        options = [pool.options for pool in self.setup.pools]
        if self._priorities and self.setup.hooks is None and not any(o.priorities for o in options):
            notes.append(
                "requests have priorities and no engine looks at them: vllm does with "
                "scheduling_policy=priority"
            )
        if any(o.drafts and not o.draft_ms for o in options):
            notes.append(
                "proposing drafts takes no time here: give draft_ms, what it adds to a step"
            )
        return notes

    def _short_of_cache(self) -> list[str]:
        """A warning where requests wait in the queue because others fill the cache."""
        served = self._latencies
        waits, whole = (float(t.mean()) if len(t) else 0.0 for t in (served.queue, served.e2e))
        kv = _fullest(self._pools(self._seconds))
        tokens = max(1.0, float((served.prompt + served.output).mean())) if len(served.e2e) else 1.0
        if kv.capacity_tokens - kv.peak_tokens >= tokens or waits < _WAITS * whole or not whole:
            return []
        return [
            f"warning: the cache is full: it holds {kv.capacity_tokens:,} tokens, which is "
            f"{kv.capacity_tokens / tokens:,.1f} requests of {tokens:,.0f} at their end, and requests wait "
            f"{waits / whole:.0%} of their time before they start; use more devices, a smaller type of cache "
            "or fewer requests at a time"
        ]

    # --- engines --------------------------------------------------------------------------------

    def _pools(self, seconds: float) -> list[PoolFigures]:
        figures, first = [], 0
        kinds = self.devices or (self.device,) * len(self.setup.pools)
        for pool, devices, kind in zip(
            self.setup.pools, self.devices_per_engine, kinds, strict=True
        ):
            totals = self.outcome.totals[first : first + pool.engines]
            first += pool.engines
            figures.append(_pool(pool, totals, devices, seconds, kind.name))
        return figures

    def _loads(self, seconds: float) -> Iterator[tuple[EngineLoad, StepOperators, float]]:
        """The work of each pool, the operators of its steps, and its clock as a share of the highest."""
        first = 0
        shares = self.clock_shares or (1.0,) * len(self.work)
        if not self.work:
            return  # a service, whose work nobody knows
        for pool, devices, work, share in zip(
            self.setup.pools, self.devices_per_engine, self.work, shares, strict=True
        ):
            totals = self.outcome.totals[first : first + pool.engines]
            first += pool.engines
            load = EngineLoad(
                role=pool.role,
                devices=devices * pool.engines,
                tp=work.plan.tp,
                steps=sum(int(t["steps"]) for t in totals),
                tokens=sum(int(t["tokens"]) for t in totals),
                sampled=sum(int(t["pieces"]) for t in totals),
                busy=devices * sum(min(t["busy"] * PICO, seconds) for t in totals),
                sorted_sampling=pool.options.sorted_sampling,
                padded=[shape for t in totals for shape in t["padded"]],
            )
            yield load, work, share

    def _energy(self, seconds: float, lengths: RequestLengths) -> dict[str, float]:
        """Joules of all engines by class of work."""
        joules_by_class: dict[str, float] = {}
        pools = zip(self._loads(seconds), self._pool_devices, strict=False)
        for (load, work, clock), device in pools:
            by_class = pool_joules(load, work, device, lengths, seconds, clock)
            for name, joules in by_class.items():
                joules_by_class[name] = joules_by_class.get(name, 0.0) + joules
        return joules_by_class

    def shares_within(self, watts: float, sustained: bool) -> dict[str, float]:
        """By role, the highest clock at which devices at work stay below these watts.

        `sustained`: whether step times come from measurements, see `clocked`.
        """
        lengths = RequestLengths(self._latencies.prompt, self._latencies.output)
        return {
            load.role: min(clock, share_within(load, work, self.device, lengths, watts, sustained))
            for load, work, clock in self._loads(self._seconds)
        }

    @property
    def _clocks(self) -> dict[str, float]:
        """The lowest and the highest clock of a pool; none without power constants."""
        if (constants := self.device.dynamic) is None:
            return {}
        shares = self.clock_shares or (1.0,)
        lowest, highest = (f(shares) * constants.clock_mhz for f in (min, max))
        return {"clock_mhz": lowest, "highest_clock_mhz": highest}

    def _costs(self, seconds: float, lengths: RequestLengths) -> dict[str, Any]:
        """Energy and price, also per token, and the energy of the site with its carbon."""
        by_class = self._energy(seconds, lengths)
        price, tokens = self._price(seconds), max(1, int(lengths.output.sum()))
        figures: dict[str, Any] = {
            **self._clocks,
            "price": price,
            "price_per_million_tokens": None if price is None else price / tokens * 1e6,
        }
        energy = sum(by_class.values()) if all(d.power for d in self._pool_devices) else None
        if energy is None:
            return figures | {"energy_joules": None, "joules_per_token": None}
        figures |= {"energy_joules": energy, "energy_by_class": by_class}
        figures["joules_per_token"] = energy / tokens
        if self.site is None:
            return figures
        facility = self.site.facility_joules(energy, self._devices, seconds)
        return figures | {"facility_joules": facility, "carbon_kg": self.site.carbon_kg(facility)}

    @property
    def _pool_devices(self) -> tuple[Device, ...]:
        return self.devices or (self.device,) * len(self.setup.pools)

    def _price(self, seconds: float) -> float | None:
        """By the hour: for the whole time, or for as long as engines were switched on.

        None where a device has no price.
        """
        if not all(device.price_per_hour for device in self._pool_devices):
            return None
        price, first = 0.0, 0
        for pool, count, device in zip(
            self.setup.pools, self.devices_per_engine, self._pool_devices, strict=True
        ):
            engines = range(first, first + pool.engines)
            hours = sum(self._on_s(e, seconds) for e in engines) / 3600
            price += hours * count * device.price_per_hour
            first += pool.engines
        return price

    def _on_s(self, engine: int, seconds: float) -> float:
        on = float(self.outcome.totals[engine]["on"]) * PICO
        return min(on, seconds) if self.outcome.switched else seconds


@dataclass(frozen=True, eq=False)
class _Latencies:
    """Arrivals, lengths and latencies (ms) of the requests that were served."""

    arrival: F64
    prompt: I64
    output: I64
    ttft: F64
    tpot: F64
    """0 where there is no token after the first."""
    e2e: F64
    queue: F64


def _under_way(served: _Latencies, begin: float, end: float) -> float:
    """How many requests are in the engines or wait for them, on average between two times."""
    there = np.minimum(served.arrival + served.e2e, end) - np.maximum(served.arrival, begin)
    return float(np.maximum(there, 0).sum() / (end - begin))


def _ms(picoseconds: I64) -> F64:
    return np.asarray(picoseconds * _MS, np.float64)


def _seconds(times: I64) -> pa.Array:
    return pa.array(times * PICO, mask=times < 0)


def _pool(
    pool: PoolSetup, totals: list[dict[str, Any]], devices: int, seconds: float, device: str
) -> PoolFigures:
    steps = sum(int(t["steps"]) for t in totals)
    mean_blocks = sum(float(t["block_time"]) for t in totals) * PICO / seconds / len(totals)
    size = pool.options.block_size
    return PoolFigures(
        device=device,
        on=sum(min(t["on"] * PICO, seconds) for t in totals) / seconds / len(totals),
        role=pool.role,
        engines=pool.engines,
        devices=devices * pool.engines,
        steps=steps,
        busy=sum(min(t["busy"] * PICO, seconds) for t in totals) / seconds / len(totals),
        mean_batch=sum(t["pieces"] for t in totals) / max(1, steps),
        mean_tokens=sum(t["tokens"] for t in totals) / max(1, steps),
        kv=KvCache(
            capacity_tokens=pool.capacity.tokens,
            mean_tokens=mean_blocks * size,
            peak_tokens=max(int(t["peak_blocks"]) for t in totals) * size,
            block_size=size,
            blocks=pool.capacity.blocks,
            bytes_per_token=pool.capacity.bytes_per_token,
            arithmetic=pool.capacity.explained(),
        ),
    )


def _fullest(pools: list[PoolFigures]) -> KvCache:
    return max((p.kv for p in pools), key=lambda kv: kv.peak_tokens / kv.capacity_tokens)
