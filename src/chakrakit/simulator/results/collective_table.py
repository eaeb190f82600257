"""Tables of collective times as nccl-tests print them, for any machine and placement of members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines import load_machine
from chakrakit.machines.device import Quantity, parse
from chakrakit.machines.fabric import Machine, span_of
from chakrakit.machines.library import (
    ExpertKernels,
    Library,
    Routing,
    Span,
    bus_factor,
    choose,
    cost,
    engine_cost,
    engine_kernel,
    latency_terms,
    reduction_factor,
    throughput_terms,
    token_bytes,
)
from chakrakit.operators import element_type
from chakrakit.results import Curve, Result
from chakrakit.simulator.collectives import ALGORITHMS, COLLECTIVES
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

Kernels = Literal["library", "engine", "fastest"]
_SPELLINGS = {"alltoall": "all-to-all", "allreduce": "all-reduce", "allgather": "all-gather"}
_MOST_MEMBERS = 1 << 20
"""As many devices as any machine here may have."""
MOST_SIZES = 10_000
"""Rows of a table; on machines without a library each of them takes a simulation."""


class CollectiveRow(Result, msgspec.Struct, kw_only=True):
    """One size of one collective: bytes as nccl-tests count them, bandwidths in GB/s."""

    collective: str
    bytes: int
    time_us: float
    algorithm: str
    protocol: str
    algbw_gbs: float
    busbw_gbs: float
    terms_us: dict[str, float] | None = None
    """Of dispatch and combine: what they start with, and what the network between nodes, the links within one
    and the multiprocessors take, of which the longest decides."""
    interval_us: tuple[float, float] | None = None
    """Of the throughput kernels on more than two nodes, where clusters that are equal on two differ: what
    full ports would take, and ports as slow as the slowest published."""


class MeasuredTime(Result, msgspec.Struct, kw_only=True):
    """What somebody measured of one size, beside what is expected."""

    bytes: int
    measured_us: float
    expected_us: float
    ratio: float
    """Measured over expected time."""
    interval_us: tuple[float, float] | None
    """Where 90 of 100 measured times should lie; None where nothing is known of such collectives."""
    verdict: Literal["slower", "faster", "expected", "unknown"]
    """On which side of the interval the measured time lies."""
    busbw_gbs: float
    """The measured bus bandwidth."""


class CollectiveTable(Result, msgspec.Struct, kw_only=True):
    """Times of collectives among `members` devices of a machine with nothing else on its links."""

    machine: str
    members: int
    rows: list[CollectiveRow]
    measured: list[MeasuredTime] = []
    """One for each row, where the times of a log stand beside them."""
    notes: list[str] = []
    """What lies outside of its interval, what was assumed of the machine, and which times are predictions."""

    def picture(self) -> Curve:
        """The curve of bus bandwidth over size."""
        name = self.rows[0].collective
        points = [(float(row.bytes), row.busbw_gbs) for row in self.rows]
        title = f"{name} of {self.members} on {self.machine}"
        return Curve(title, name, "bytes", "bus bandwidth, GB/s", points)


class ExpertExchange(msgspec.Struct, kw_only=True, frozen=True):
    """The parameters of dispatch and combine besides the tokens."""

    hidden: int
    topk: int
    experts: int
    most_nodes: int = 4
    """That a token may go to, as in DeepSeek-V3; 0 for as many as have its experts."""
    low_latency: bool = False
    multiprocessors: int = 24


def time_collective(
    name: str,
    machine: Machine | str,
    members: int | Sequence[int],
    sizes: Sequence[int] | str,
    *,
    dtype: str = "half",
    kernels: Kernels = "library",
    eager: bool = False,
    exchange: ExpertExchange | None = None,
) -> CollectiveTable:
    """The times of a collective, one row per size.

    Sizes are bytes as nccl-tests count them, or tokens of each member for dispatch and combine; a barrier has
    none, and one row. `members`
    is a number of devices from 0 on, or a list of devices; `eager` engines launch kernels one by one.
    """
    loaded = load_machine(machine) if isinstance(machine, str) else machine
    devices = devices_of(loaded, members)
    byte_sizes = parse_sizes(sizes) if isinstance(sizes, str) else [int(s) for s in sizes]
    _check_sizes(byte_sizes)
    collective = collective_name(name)
    if collective == "barrier":
        byte_sizes = [1]
    if collective in ("dispatch", "combine"):
        rows, notes = _expert_rows(loaded, devices, collective, byte_sizes, exchange)
    else:
        rows = _rows(loaded, devices, collective, byte_sizes, dtype, kernels, eager)
        notes = _unfitted(loaded.library, len(devices))
    notes = [*loaded.notes, *notes]
    return CollectiveTable(machine=loaded.name, members=len(devices), rows=rows, notes=notes)


def collective_name(text: str) -> str:
    """The name of a collective that may be spelt as nccl-tests or PyTorch do."""
    return _SPELLINGS.get(text.replace("_", ""), text.replace("_", "-"))


def parse_sizes(text: str) -> list[int]:
    """The sizes of a text: `1KiB:1GiB` doubles from the first to the last; `4096,1MiB` is a list."""
    if ":" not in text:
        return [_size(part) for part in text.split(",")]
    first, _, last = text.partition(":")
    begin, end = _size(first), _size(last)
    if begin > end:
        raise ConfigError(f"sizes: {text!r} goes from large to small")
    return [begin << k for k in range(MOST_SIZES) if begin << k <= end]


def parse_members(text: str) -> int | list[int]:
    """The members of a text: `8` for eight devices from 0 on, or a list such as `0-3,8-11`."""
    try:
        if text.strip().isdecimal():
            return int(text)
        ends = [[int(n) for n in part.split("-")] for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"members: {text[:80]!r}; write a number, or devices such as 0-3,8-11"
        ) from None
    devices = sum(max(0, span[-1] - span[0] + 1) for span in ends)
    if devices > _MOST_MEMBERS:
        raise ConfigError(f"members: {devices:,} devices; give at most {_MOST_MEMBERS:,}")
    return [d for span in ends for d in range(span[0], span[-1] + 1)]


def _size(text: Quantity) -> int:
    size = parse(str(text).strip(), "bytes", "sizes")
    if size < 1 or size != int(size):
        raise ConfigError(f"sizes: {text!r}; give whole bytes, 1 or more")
    return int(size)


def _check_sizes(sizes: Sequence[int]) -> None:
    if not sizes or len(sizes) > MOST_SIZES:
        raise ConfigError(f"{len(sizes)} sizes; give 1 to {MOST_SIZES:,}")
    if min(sizes) < 1:
        raise ConfigError(f"sizes: {min(sizes)}; give 1 byte or more")


def devices_of(machine: Machine, members: int | Sequence[int]) -> I64:
    """The devices of members: a number from 0 on, or a list; an error where the machine has none."""
    if isinstance(members, int) and members > machine.size:
        machine.check_ranks(members)
    devices = np.arange(members) if isinstance(members, int) else np.array(members, np.int64)
    if len(devices) < 2 or len(np.unique(devices)) < len(devices):
        raise ConfigError(f"members: {len(devices)}; give 2 or more different devices")
    wrong = devices[(devices < 0) | (devices >= machine.size)]
    if len(wrong):
        raise ConfigError(
            f"members: {machine.name} has {machine.size:,} devices and no device {wrong[0]}; "
            "ask for more nodes, as in dgx-h100:32"
        )
    return devices


def _row(
    collective: str, size: int, seconds: float, algorithm: str, protocol: str, n: int
) -> CollectiveRow:
    size = 0 if collective == "barrier" else size
    rate = size / seconds / 1e9 if seconds else 0.0
    return CollectiveRow(
        collective=collective,
        bytes=size,
        time_us=seconds * 1e6,
        algorithm=algorithm,
        protocol=protocol,
        algbw_gbs=rate,
        busbw_gbs=rate * bus_factor(collective, n),
    )


def _rows(
    machine: Machine,
    devices: I64,
    collective: str,
    sizes: Sequence[int],
    dtype: str,
    kernels: Kernels,
    eager: bool,
) -> list[CollectiveRow]:
    if collective not in ALGORITHMS:
        raise ConfigError(
            f"no collective {collective!r}; {nearest(collective, [*ALGORITHMS, 'dispatch', 'combine'], 16)}"
        )
    library, span = machine.library, span_of(machine, devices)
    width = element_type(dtype).bits / 8
    if library is None:
        if kernels != "library":
            raise ConfigError(f"{machine.name} has no library constants, so no engine's either")
        return [_simulated(machine, devices, collective, size) for size in sizes]
    return [_timed(library, span, collective, size, width, kernels, eager) for size in sizes]


def _unfitted(library: Library | None, members: int) -> list[str]:
    """Whether the group is larger than those that the library's constants were fitted on."""
    fitted = library.fitted_members if library is not None else None
    if fitted is None or members <= fitted:
        return []
    return [
        f"a prediction: the library was fitted on measurements of up to {fitted} members, not of {members:,}"
    ]


def _timed(
    library: Library,
    span: Span,
    collective: str,
    size: int,
    width: float,
    kernels: Kernels,
    eager: bool,
) -> CollectiveRow:
    kind = "all-reduce" if collective == "barrier" else collective
    choice = choose(library, kind, size, span)
    took = cost(library, kind, *choice, size, span)
    seconds = took.seconds + took.transfer * (reduction_factor(kind, width) - 1)
    usual = _row(collective, size, seconds, *choice, span.members)
    if kernels == "library" or collective != "all-reduce":
        return usual
    if library.engine is None:
        raise ConfigError(f"the library {library.name} has no constants of an engine's all-reduce")
    engine_seconds = engine_cost(library.engine, size, span, eager=eager).seconds
    if math.isinf(engine_seconds) or (
        kernels == "fastest" and usual.time_us * 1e-6 <= engine_seconds
    ):
        return usual
    name = engine_kernel(library.engine, size, span)
    return _row(collective, size, engine_seconds, name, "engine", span.members)


_TYPES = {name: CollectiveType(number) for number, name in reversed(COLLECTIVES.items())}


def _simulated(machine: Machine, devices: I64, collective: str, size: int) -> CollectiveRow:
    """The row for a machine without a library, simulated from latencies and bandwidths of its links."""
    n = len(devices)
    trace = TraceBuilder()
    shard = max(1, size // n) if collective in ("all-gather", "gather") else size
    trace.collective(collective, _TYPES[collective], shard)
    traces = TraceSet([trace.build()], {r: Binding(0) for r in range(n)}, Groups({"": range(n)}))
    placement = tuple(int(d) for d in devices)
    outcome = run(traces, machine, SimulationOptions(placement=placement))
    seconds = outcome.makespan_ps * 1e-12
    return _row(collective, size, seconds, outcome.instances.algorithm[0], "plain", n)


def _expert_rows(
    machine: Machine,
    devices: I64,
    collective: str,
    tokens: Sequence[int],
    exchange: ExpertExchange | None,
) -> tuple[list[CollectiveRow], list[str]]:
    library, span = machine.library, span_of(machine, devices)
    constants = getattr(library, collective) if library is not None else None
    if constants is None:
        raise ConfigError(
            f"{machine.name} has no library constants of {collective}; use a machine with some, such as "
            f"dgx-h100, or give `library.{collective}` in its file"
        )
    if exchange is None:
        raise ConfigError(f"{collective} needs hidden, topk and experts")
    rows = [_expert_row(constants, collective, count, exchange, span) for count in tokens]
    for row in rows:
        row.interval_us = _interval(constants, row, exchange, span)
    return rows, _expert_notes(constants, rows, tokens, exchange, span)


def _expert_row(
    constants: ExpertKernels, collective: str, count: int, exchange: ExpertExchange, span: Span
) -> CollectiveRow:
    routing = Routing(count, exchange.hidden, exchange.topk, exchange.experts, exchange.most_nodes)
    routing.check(span.members, span.nodes)
    if exchange.low_latency:
        terms = latency_terms(constants, collective, routing, span)
    else:
        terms = throughput_terms(constants, collective, routing, span, exchange.multiprocessors)
    size = round(count * exchange.topk * token_bytes(collective, routing))
    kind = "low-latency" if exchange.low_latency else "throughput"
    row = _row(collective, size, terms.seconds, "experts", kind, span.members)
    by_term = {name: seconds * 1e6 for name, seconds in terms._asdict().items()}
    return msgspec.structs.replace(row, terms_us=by_term)


_SLOWEST_PORT = 12.5e9 * 3 / 4
"""Bytes/s of a port of 400 Gb/s in the slowest cluster that DeepEP's users published (issue 493 of
deepseek-ai/DeepEP): 12.5 GB/s on 4 nodes, counted with the quarter that stays in a token's own node."""


def _interval(
    constants: ExpertKernels, row: CollectiveRow, exchange: ExpertExchange, span: Span
) -> tuple[float, float] | None:
    """Microseconds between full ports and the slowest published ones; None where nothing differs so."""
    if row.terms_us is None or exchange.low_latency or span.nodes <= _ALIKE_NODES:
        return None
    terms = row.terms_us
    crowd = 1 + constants.crowd * (span.nodes - _ALIKE_NODES)
    full = terms["network"] / crowd * constants.network_share
    slow = max(terms["network"], full * span.port / min(span.port, _SLOWEST_PORT))
    inside = max(terms["links"], terms["copying"])
    return max(full, inside), terms["start"] + terms["filling"] + max(slow, inside)


_ALIKE_NODES = 2
"""On so many, all clusters that were published are alike; `crowd` counts the others."""


def _expert_notes(
    constants: ExpertKernels,
    rows: list[CollectiveRow],
    tokens: Sequence[int],
    exchange: ExpertExchange,
    span: Span,
) -> list[str]:
    """Whether so many nodes were measured, and what `crowd` adds where it decides."""
    name, fitted, notes = rows[-1].collective, constants.fitted_nodes, []
    if fitted and span.nodes not in fitted:
        notes.append(
            f"a prediction: {name} was fitted on measurements of {_listed(fitted)} nodes, not of {span.nodes}"
        )
    healthy = msgspec.structs.replace(constants, crowd=0.0)
    even = _expert_row(healthy, name, tokens[-1], exchange, span)
    if even.time_us < rows[-1].time_us:
        notes.append(
            f"library.{name}.crowd {constants.crowd:g} stands for the slowest port of the cluster that was "
            f"measured; where all ports are as fast as on 2 nodes (crowd: 0) the last row takes "
            f"{even.time_us:.2f} us"
        )
    if rows[-1].interval_us is not None:
        notes.append(
            "the interval goes from full ports to those of the slowest cluster that was published (9.4 GB/s)"
        )
    return notes


def _listed(numbers: Sequence[int]) -> str:
    """`1, 2 and 8`."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last
