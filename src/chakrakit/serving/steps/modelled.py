"""Step times from operators, by a device's roofline or a profile of measured operations.

Some engines, such as transformers', pad all queries and all context of a step. Without a kernel for paged
caches, their attention gathers the keys of every request in the step, repeats them for each query head, and
runs masked attention of all queries with all keys, so that its time follows from the padded sizes alone. The
other operators run as separate kernels: norms in seven, rotary positions in ten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import (
    Device,
    Profiled,
    clocked,
    latency_stretch,
    packaged_profile,
    roofline_seconds,
    with_shares,
)
from chakrakit.machines.fabric import Machine
from chakrakit.operators import Operation, attention_flops, rate_name
from chakrakit.serving.calibration import Constants
from chakrakit.serving.steps.collectives import times_on
from chakrakit.serving.steps.costing import StepCost, add_reach, in_pieces, roofline_attention
from chakrakit.serving.steps.operators import StepAttention, StepOperator, StepOperators
from chakrakit.serving.steps.sampling import SortedSampling
from chakrakit.workloads.description import Mesh
from chakrakit.workloads.layers import ALL, BYTES

_FOLDER = Path(__file__).parent / "measurements"
_LONG_PROMPT = (32, 4096, 4096, 128)
"""Batch × heads, queries, keys and head size of the attention whose rate stands for that of prompts."""
_LONG_PROMPT_FLOPS = float(attention_flops(32 * 4096 * 4096, 128, 128, causal=True))
_LONG_PROMPT_BYTES = 4.0 * 2 * 32 * 4096 * 128
"""Queries, keys, values and outputs of 2 bytes each."""


RATED = ("roofline", "data-sheet")
"""Ways to time operators by the rates that a device states, all of them or what others reach."""


class Measurements(msgspec.Struct, frozen=True):
    """Measured microseconds of masked attention and its preparation on one device, by shape."""

    name: str
    device: str
    peak: float
    """FLOP/s in bf16 by its data sheet, and with the next line what carries the times to other devices."""
    memory_bandwidth: float
    measured: str
    attention: list[tuple[int, int, int, int, float]]
    """Queries, keys, heads, size of a head, microseconds."""
    gather: list[tuple[int, int, int, float]]
    """Keys, heads they are stored for, size of a head, microseconds; for keys or for values."""
    repeat: list[tuple[int, int, int, float]]
    """Keys, heads they are repeated to, size of a head, microseconds."""


@cache
def _all_measurements() -> dict[str, Measurements]:
    files = sorted(_FOLDER.glob("*.json"))
    return {f.stem: msgspec.json.decode(f.read_bytes(), type=Measurements) for f in files}


def measurements_for(device: Device) -> Measurements | None:
    """The measurements of a device, or of the one that is nearest by its data sheet.

    They are carried to devices that have a profile: of others nothing but a data sheet is known.
    """
    known = _all_measurements()
    for name, table in known.items():
        if device.name == name or device.name.startswith(f"{name}-"):
            return table
    if not device.profile:
        return None
    bandwidth = device.memory_bandwidth
    return min(known.values(), key=lambda table: abs(np.log(table.memory_bandwidth / bandwidth)))


class MaskedWork(NamedTuple):
    """What masked attention of one layer computes and moves on one rank."""

    size: int
    heads: int
    stored: int
    """Heads that keys and values are kept for."""

    @classmethod
    def of(cls, operators: StepOperators) -> MaskedWork:
        """That of a model under its plan."""
        model, tp = operators.model, operators.plan.tp
        size = model.head_dim or model.hidden // model.heads
        return cls(size, model.heads // tp, max(1, (model.kv_heads or model.heads) // tp))

    def flops(self, queries: float, keys: float) -> float:
        """Of all queries with all keys."""
        return 4.0 * queries * keys * self.heads * self.size

    def copied(self, keys: float) -> float:
        """Bytes of keys and values that are gathered and repeated for each head."""
        return 2 * 2 * keys * self.size * (2 * self.stored + self.heads)

    def read(self, queries: float, keys: float) -> float:
        """Bytes of the repeated keys and values and of the mask, which attention itself reads."""
        return 2 * 2 * keys * self.size * self.heads + 2 * queries * keys


class MaskedAttention:
    """Seconds of attention of one layer, by padded queries and padded context."""

    def __init__(self, operators: StepOperators, device: Device) -> None:
        self.work = MaskedWork.of(operators)
        self.size, self.heads, self.stored = self.work
        self.device = device
        self.table = measurements_for(device)

    def seconds(self, queries: int, context: int) -> float:
        """Measured seconds, carried to the device; without any, the least that FLOPs and copies take."""
        keys = context + queries
        if self.table is None:
            return self._bound(queries, keys)
        size = self._measured_size(self.table)
        core = self.size / size * self._core(queries, keys, size)
        return core * self._carried(self.table, queries, keys) + self.copying_seconds(keys)

    def _carried(self, table: Measurements, queries: int, keys: int) -> float:
        """The least that attention itself takes on the device, as a multiple of that on the measured one."""
        flops, read = self.work.flops(queries, keys), self.work.read(queries, keys)
        here = max(flops / self.device.peak_rate("bf16"), read / self.device.memory_bandwidth)
        return float(here / max(flops / table.peak, read / table.memory_bandwidth))

    def copying_seconds(self, keys: int) -> float:
        """Of these, what gathers and repeats keys and values."""
        if self.table is None:
            return self.work.copied(keys) / self._bandwidth
        size = self._measured_size(self.table)
        gather = [(r[0], r[3] * self.stored / r[1]) for r in self.table.gather if r[2] == size]
        repeat = [(r[0], r[3] * self.heads / r[1]) for r in self.table.repeat if r[2] == size]
        slower = self.table.memory_bandwidth / self.device.memory_bandwidth
        return slower * self.size / size * 2 * (line(gather, keys) + line(repeat, keys))

    @property
    def _bandwidth(self) -> float:
        return self.device.memory_bandwidth * self.device.memory_efficiency

    def _bound(self, queries: int, keys: int) -> float:
        rate = self.device.peak_rate("bf16") * self.device.compute_efficiency
        moved = self.work.copied(keys) + self.work.read(queries, keys)
        return float(max(self.work.flops(queries, keys) / rate, moved / self._bandwidth))

    def _measured_size(self, table: Measurements) -> int:
        """The measured size of a head that is nearest to the model's."""
        sizes = np.unique([r[3] for r in table.attention])
        return int(sizes[np.argmin(np.abs(np.log(sizes / self.size)))])

    def _core(self, queries: int, keys: int, size: int) -> float:
        """Seconds of masked attention; they grow in steps of query blocks, so the next larger size counts."""
        assert self.table is not None
        rows = [r for r in self.table.attention if r[3] == size]
        rows_of_heads = queries * self.heads
        steps = np.unique([r[0] * r[2] for r in rows])
        at = int(steps[min(int(np.searchsorted(steps, rows_of_heads)), len(steps) - 1)])
        beyond = max(1.0, rows_of_heads / at)
        return float(beyond) * line([(r[1], r[4]) for r in rows if r[0] * r[2] == at], keys)


def line(points: list[tuple[int, float]], x: float) -> float:
    """Seconds at x, linear between and beyond points of (x, microseconds)."""
    xs, ys = (np.array(v, np.float64) for v in zip(*sorted(points), strict=True))
    i = int(np.clip(np.searchsorted(xs, x) - 1, 0, len(xs) - 2))
    value = ys[i] + (x - xs[i]) * (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i])
    return float(max(value, 0.0)) * 1e-6


def separate_kernels(operators: StepOperators) -> list[tuple[int, float]]:
    """The kernels of one layer besides the operators' own: their number, and bytes per token of each.

    Counted in a profile of one step: a norm is a cast, a square, a mean, an addition, a root, two products
    and a cast, of which one is counted already; rotary positions are two products, a negation, a
    concatenation and a sum for queries and for keys; keys and values are put into the cache.
    """
    model = operators.model
    size = model.head_dim or model.hidden // model.heads
    rotated = (model.heads + (model.kv_heads or model.heads)) * size / 2
    stored = (model.kv_heads or model.heads) * size
    return [
        (2 * 4, 8.0 * model.hidden),
        (2 * 3, 8.0),
        (10, 4.0 * rotated),
        (2, 4.0 * stored),
        (2, 4.0 * model.heads * size),
    ]


class ModelledSteps:
    """The time of every operator of a step on a machine.

    `compute` is `roofline`, `data-sheet` (at shares of its rates that measured devices reach), a profile's
    name or file, or `auto`: the device's own profile where there is one.
    """

    def __init__(
        self,
        operators: StepOperators,
        machine: Machine,
        compute: str = "auto",
        constants: Constants | None = None,
        own_all_reduce: bool = True,
        clock_share: float = 1.0,
    ) -> None:
        self.operators, self.machine, self.constants = operators, machine, constants
        self.clock_share = clock_share
        if compute == "measured":
            raise ConfigError(
                "--compute measured: a served step has no recorded times; give auto, roofline, data-sheet, a "
                "profile, or measured layers with --layers"
            )
        self.compute = compute
        if compute == "auto":
            self.compute = (constants is None and self.device.profile) or "roofline"
        self.collectives = times_on(machine, own_all_reduce)
        if not (self.device.peak and self.device.memory_bandwidth):
            raise ConfigError(
                f"device {self.device.name!r} has no peak rate or memory bandwidth, which step times need; "
                "add `peak` and `memory_bandwidth` to the machine, or give --layers"
            )

    @property
    def device(self) -> Device:
        """The accelerator at its clock; all devices are alike."""
        first = self.machine.devices[0]
        rated = with_shares(first) if self.compute == "data-sheet" else first
        return clocked(rated, self.clock_share, self._sustained)

    @property
    def _sustained(self) -> bool:
        """Whether times of products come from measurements, in which the power limit had its say."""
        return self.constants is not None or self.compute not in RATED

    @cached_property
    def _profile(self) -> Profiled | None:
        return None if self.compute in RATED else packaged_profile(self.compute)

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(self.operators.plan)

    def cost(self, whole: bool = False, sorted_sampling: bool = False) -> StepCost:
        """The step's time with all terms. Ranks that step together share the work of experts.

        With `whole`, the tokens of a step are padded together, and its padded shape determines its time.
        With `sorted_sampling` tokens are drawn from sorted logits, which the head's time then contains.
        """
        together = self.operators.plan.dp > 1 and bool(self.operators.model.experts)
        unsampled = [o for o in self.operators.operators if not o.by_sampled]
        shared = [o for o in unsampled if together and o.routed]
        dense = [o for o in unsampled if not (together and o.routed)]
        head = [o for o in self.operators.operators if o.by_sampled]
        dp, none = self.operators.plan.dp, np.zeros(1)
        ahead = 512 if self._profile is None else 1
        return StepCost(
            in_pieces(
                lambda n: self._sum(dense, n, 0 * n) + self._messages(n) + self._attention_overhead,
                ahead,
            ),
            in_pieces(
                lambda n: (
                    self._sum(head, 0 * n, n) + (self._sampling(n) if sorted_sampling else 0.0)
                ),
                ahead,
            ),
            self.attention(),
            shared=(lambda n: float(self._sum(shared, none + n / dp, none)[0]))
            if together
            else None,
            shared_by_fewer=(lambda n, ranks: self._shared_by_fewer(shared, n, ranks))
            if together
            else None,
            padded=self.padded() if whole else None,
            about=f"operators by {self.compute} on {self.device.name}{self._masked(whole)}",
        )

    def _sampling(self, sampled: F64) -> F64:
        """Seconds of drawing tokens from sorted logits."""
        sampling = SortedSampling(self.operators.model.vocab, self.machine.devices[0])
        return sampling.seconds(sampled) * self._latency

    def _masked(self, whole: bool) -> str:
        """Whose masked attention a padded step has, where it is that of another device."""
        table = measurements_for(self.device) if whole else None
        own = table is None or self.device.name.startswith(table.name)
        return "" if own or table is None else f", masked attention carried from {table.name}"

    @property
    def _latency(self) -> float:
        """How much longer what kernels take whatever their size is at this clock."""
        return latency_stretch(self.clock_share)

    @property
    def _attention_overhead(self) -> float:
        """Seconds that attention takes in all layers whatever its size, by the engine's constants."""
        if self.constants is None:
            return 0.0
        layers = sum(work.layers for work in self.operators.attention)
        return layers * self.constants.attention_overhead_us * 1e-6 * self._latency

    def _shared_by_fewer(self, operators: list[StepOperator], tokens: int, ranks: int) -> float:
        """Seconds of what ranks do together where only some are left, each with more of the experts."""
        whole, each = self.operators.plan.dp, np.array([tokens / ranks])
        met = self.operators.experts_met(np.array([tokens / whole])) * whole / ranks
        parts = (
            o.count * self._operator_seconds(o, each, 0 * each, met)
            for o in operators
            if tokens > 0
        )
        return float(sum(part[0] for part in parts))

    def padded(self) -> Callable[[int, int], float]:
        """A function that gives the seconds of a whole step by its padded queries and padded context."""
        layers = self.operators.model.layers
        attention = MaskedAttention(self.operators, self.device)
        separate = separate_kernels(self.operators)
        dense = [o for o in self.operators.operators if not o.by_sampled]
        head = [o for o in self.operators.operators if o.by_sampled]

        def seconds(queries: int, context: int) -> float:
            n = np.array([float(queries)])
            operator_seconds = self._sum(dense, n, 0 * n) + self._sum(head, 0 * n, n)
            small = sum(count * self._streamed(each * queries) for count, each in separate)
            return float(operator_seconds[0]) + layers * (
                attention.seconds(queries, context) + small
            )

        return seconds

    def _streamed(self, moved: float) -> float:
        """Seconds of an elementwise kernel that moves these bytes."""
        if self._profile is None:
            device = self.device
            return max(moved / device.memory_bandwidth, device.kernel_overhead)
        operation = Operation("elementwise", (max(1, round(moved)),), 0.0, moved)
        prediction = self._profile.predict(operation)
        if prediction is None:
            return self.device.kernel_overhead
        return self._profile.carried(prediction, operation, self.device).us * 1e-6

    def attention(self) -> core.ServingRoofline:
        """The roofline of attention, with one kernel per layer."""
        shares, least = self._attention_rates
        bandwidth = self.device.memory_bandwidth * shares[1]
        works = self.operators.attention
        plain = [w for w in works if w.reach == ALL and not w.bytes_per_sequence]
        others = [w for w in works if w not in plain]
        roofline = self._all_keys(plain, shares[0], bandwidth, least)
        for work in others:
            n, rate = work.layers, self._pair_rate(work.dtype, shares[0])
            add_reach(
                roofline,
                work.reach,
                pair=n * work.flops_per_pair / rate,
                work=n * work.flops_per_token / rate,
                token=n * work.bytes_per_token / bandwidth,
                context=n * work.bytes_per_context / bandwidth,
                sequence=n * work.bytes_per_sequence / bandwidth,
                least=n * least,
            )
        return roofline

    @property
    def _attention_rates(self) -> tuple[tuple[float, float], float]:
        """Shares of rate and bandwidth that attention reaches, and the least seconds of its kernel."""
        device = self.device
        if self.constants is not None:
            return self._attention_shares(self.constants), 0.0
        return (device.compute_efficiency, device.memory_efficiency), device.kernel_overhead

    def _attention_shares(self, constants: Constants) -> tuple[float, float]:
        """Shares of rate and bandwidth that attention reaches, the second by the size of cached numbers."""
        narrow = BYTES.get(self.operators.model_figures.precision.cache, 2) < 2
        share = constants.attention_memory_efficiency
        return (
            constants.attention_compute_efficiency,
            share * (constants.cache8_efficiency if narrow else 1.0),
        )

    def _pair_rate(self, dtype: str, share: float) -> float:
        """FLOP/s of attention: that of a long prompt by the profile, else a share of the device's peak."""
        if self._profile is not None:
            full, slow = self.machine.devices[0], self.device
            return self._attention_rate(self._profile) * (
                slow.peak_rate(dtype) / full.peak_rate(dtype)
            )
        return float(self.device.peak_rate(dtype) * share)

    def _all_keys(
        self, works: list[StepAttention], share: float, bandwidth: float, least: float
    ) -> core.ServingRoofline:
        """Layers that meet every earlier key; kinds of them run one after another like one kind."""
        return roofline_attention(
            sum(w.layers * w.flops_per_pair / self._pair_rate(w.dtype, share) for w in works),
            sum(w.layers * w.bytes_per_token for w in works) / bandwidth,
            sum(w.layers * w.bytes_per_context for w in works) / bandwidth,
            sum(w.layers for w in works) * least,
        )

    def _attention_rate(self, profile: Profiled) -> float:
        """FLOP/s of a long causal prompt by the profile, on this device."""
        operation = Operation(
            "attention",
            _LONG_PROMPT,
            _LONG_PROMPT_FLOPS,
            _LONG_PROMPT_BYTES,
            "attention.cudnn.causal",
        )
        prediction = profile.predict(operation)
        if prediction is None:
            raise ConfigError(f"profile {self.compute} has no attention")
        full = profile.carried(prediction, operation, self.machine.devices[0])
        return _LONG_PROMPT_FLOPS / (full.us * 1e-6)

    def _sum(self, operators: list[StepOperator], tokens: F64, sampled: F64) -> F64:
        experts_met = np.where(tokens > 0, self.operators.experts_met(tokens), 0.0)
        total = np.zeros(len(tokens))
        for o in operators:
            total += o.count * self._operator_seconds(o, tokens, sampled, experts_met)
        return total

    def _operator_seconds(
        self, o: StepOperator, tokens: F64, sampled: F64, experts_met: F64
    ) -> F64:
        if o.comm >= 0:
            members = self._mesh.members(o.role)[0]
            return self.collectives.seconds(
                o.comm, o.comm_size.at(tokens, sampled, experts_met), members
            )
        if o.op in ("send", "recv"):
            return np.zeros(len(tokens))
        flops, moved = (
            o.flops.at(tokens, sampled, experts_met),
            o.bytes.at(tokens, sampled, experts_met),
        )
        return self.kernel_seconds(o, flops, moved, o.rows.at(tokens, sampled, experts_met))

    def kernel_seconds(self, o: StepOperator, flops: F64, moved: F64, rows: F64) -> F64:
        """Seconds of an operator that is no collective, for each of these FLOPs, bytes and rows."""
        if self.constants is not None:
            return self._reached(self.constants, o, flops, moved)
        if self._profile is None:
            return roofline_seconds(flops, moved, np.full(len(flops), o.dtype, object), self.device)
        each = zip(flops.tolist(), moved.tolist(), rows.tolist(), strict=True)
        return np.array([self._measured(o, f, b, round(m)) for f, b, m in each])

    def mixing_seconds(self, flops: F64, moved: F64, dtype: str) -> F64:
        """Seconds of attention, or of a recurrence, in one layer for each of these FLOPs and bytes."""
        (compute, memory), least = self._attention_rates
        bandwidth = self.device.memory_bandwidth * memory
        seconds = np.maximum(flops / self._pair_rate(dtype, compute), moved / bandwidth)
        if self.constants is None:
            return np.maximum(seconds, least)
        overhead = self.constants.attention_overhead_us * 1e-6 * self._latency
        return np.asarray(seconds + overhead, np.float64)

    def _reached(self, c: Constants, o: StepOperator, flops: F64, moved: F64) -> F64:
        """Seconds of a kernel at the shares of the device's rates that the engine reaches."""
        shares = (c.compute_efficiency, c.memory_efficiency, c.kernel_overhead_us)
        if o.routed and o.op == "matmul":
            shares = (c.expert_compute_efficiency, c.expert_memory_efficiency, c.expert_overhead_us)
        rate = self.device.peak_rate(o.dtype) * shares[0]
        seconds = np.maximum(flops / rate, moved / (self.device.memory_bandwidth * shares[1]))
        return np.asarray(seconds + shares[2] * 1e-6 * self._latency, np.float64)

    def _measured(self, o: StepOperator, flops: float, moved: float, rows: int) -> float:
        assert self._profile is not None
        if o.op == "matmul":
            precision = {"fp8": ".8", "fp4": ".4"}.get(rate_name(o.dtype), "")
            table = f"gemm{precision}.nt"
            operation = Operation("gemm", (max(1, rows), o.outer, o.inner), flops, moved, table)
        else:
            operation = Operation("elementwise", (max(1, round(moved)),), 0.0, moved)
        prediction = self._profile.predict(operation)
        if prediction is None:
            raise ConfigError(f"profile {self.compute} has no operation like {o.name}")
        carried = self._profile.carried(prediction, operation, self.machine.devices[0])
        return carried.us * 1e-6 * self._stretch(flops, moved, o.dtype)

    def _stretch(self, flops: float, moved: float, dtype: str) -> float:
        """The time of an operation at this clock, as a multiple of what a profile says of the highest."""
        full, slow = self.machine.devices[0], self.device
        if flops / full.peak_rate(dtype) > moved / full.memory_bandwidth:
            return full.peak_rate(dtype) / slow.peak_rate(dtype)
        return full.memory_bandwidth / slow.memory_bandwidth

    def _messages(self, tokens: F64) -> F64:
        """Seconds of the messages between the stages of a pipeline, once per step."""
        stages = self.operators.plan.pp
        if stages == 1:
            return np.zeros(len(tokens))
        size = tokens * self.operators.model.hidden * BYTES[self.operators.step.dtype]
        first = [int(self._mesh.ranks_at(s)[0]) for s in range(stages)]
        pairs = pairwise(first)
        return np.asarray(sum(self.collectives.message_seconds(size, a, b) for a, b in pairs))
