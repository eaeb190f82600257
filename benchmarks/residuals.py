"""Learns how far predictions are off: `python benchmarks/residuals.py DATA [SOURCE…]` writes residuals.json.

With sources (`kernels`, `hosts`, …) only their groups are learned anew, and the others stay as they are.
Rows that no constant was fitted on: products, attention and decoding of other people's tables (on carried
profiles the rows that a fit on every other row leaves out), operators of recordings on one H200, collectives
on 4 GPUs, requests of published serving runs, published training steps. The file also says the coverage: how
many rows lie in the 90 % intervals that all others give, without those of the same program.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "accuracy")]

from chakrakit.arrays import F64  # noqa: E402
from chakrakit.machines import load_machine  # noqa: E402
from chakrakit.machines.device import CostSource, Profiled, find_profile, packaged_profile, weights  # noqa: E402
from chakrakit.machines.residuals import (  # noqa: E402
    BETWEEN_NODES,
    HOST_GROUP,
    LEAST_ROWS,
    ErrorSpread,
    ResidualTable,
    collective_group,
    groups_of,
    kernel_group,
    residual_table,
    step_group,
)
from chakrakit.operators import Operation  # noqa: E402
from chakrakit.trace.model import Trace  # noqa: E402

OUT = HERE.parent / "src" / "chakrakit" / "machines" / "residuals" / "residuals.json"
RECORDINGS = HERE.parent / "tests" / "data" / "h200"
HELD_OUT = HERE.parent / "tests" / "data" / "held_out_residuals.json"
MOST_HELD_OUT = 60
"""Rows that were left out which the tests keep of each kind and system."""
SAMPLE = 1000
"""Rows that are asked of one table; more would not move a percentile."""
PERCENTILES = (0.05, 0.5, 0.95)


class ResidualRow(NamedTuple):
    """One prediction beside its measurement."""

    group: tuple[str, ...]
    predicted: float
    measured: float
    program: str = ""
    """What it has in common with other rows, which say less of it than rows of others do: its recording, its
    program, the exchange that it is one direction of."""
    beside: str = ""
    """Of a pair, the program of the step that it is compared with."""

    @property
    def residual(self) -> float:
        return math.log(self.measured / self.predicted)


# --- kernels --------------------------------------------------------------------------------------

KINDS = {"gemm": "matmul", "attention": "attention", "decode": "decode"}


def kernel_rows(data: Path) -> Iterator[ResidualRow]:
    """Tables of kernels by the profiles, and by the data sheet alone."""
    import fit_carried

    for card in ("h200", "h100", "a100", "b200"):
        for kind in KINDS:
            rows = _table(data / "kernels", card, kind, fit_carried)
            yield from _by_profile(card, kind, rows, fit_carried)
            yield from _by_data_sheet(card, kind, rows)


def _table(folder: Path, card: str, kind: str, fits: Any) -> list[tuple[Operation, float]]:
    if card == "h200":
        names = {"gemm": "gemm", "attention": "attention_prefill", "decode": "attention_decode"}
        table = pq.read_table(folder / f"{names[kind]}_h200_bf16.parquet").to_pylist()
        rows = [(fits._OPERATION[kind](r), r["latency_us"]) for r in table if not r.get("window")]
    else:
        rows = fits._rows(folder, card, kind)
    return rows[:: max(1, len(rows) // SAMPLE)]


def _by_profile(
    card: str, kind: str, rows: list[tuple[Operation, float]], fits: Any
) -> Iterator[ResidualRow]:
    """On the measured device as it is; on others with a grid fitted on every other row."""
    if not rows:
        return
    base = packaged_profile("h200")
    profile = find_profile(card)
    predict = base.predict if card == "h200" else base.as_timed
    predictions = [predict(operation) for operation, _ in rows]
    if card == "h200":
        us = np.array([p.us for p in predictions])
        rung = "measured profile"
    else:
        rung = "carried profile"
        carried = np.array(
            [base.carried(p, o, profile).us for p, (o, _) in zip(predictions, rows, strict=True)]
        )
        left = np.log(np.array([truth for _, truth in rows]) / carried)
        shapes = np.log2(np.maximum(1, np.array([o.shape for o, _ in rows], np.float64)))
        columns = weights(shapes, fits.KNOTS[kind])
        us = carried.copy()
        for half in (0, 1):
            out = np.arange(len(rows)) % 2 == half
            us[out] *= np.exp(columns[out] @ fits._grid(columns[~out], left[~out]))
    for found, prediction, (_, truth) in zip(us.tolist(), predictions, rows, strict=True):
        group = kernel_group(rung, card, KINDS[kind], found * 1e-6, prediction.extrapolated)
        yield ResidualRow(group, found, truth)


def _by_data_sheet(
    card: str, kind: str, rows: list[tuple[Operation, float]]
) -> Iterator[ResidualRow]:
    from chakrakit.machines.device.work import LEARNED_SHARE

    device = load_machine(f"dgx-{card}").devices[0]
    rate = device.peak_rate("bf16") * LEARNED_SHARE
    bandwidth = device.memory_bandwidth * LEARNED_SHARE
    for operation, truth in rows[::2]:
        seconds = max(operation.flops / rate, operation.bytes / bandwidth, device.kernel_overhead)
        group = kernel_group("data sheet", card, KINDS[kind], seconds, False)
        yield ResidualRow(group, seconds * 1e6, truth)


def recorded_rows(data: Path) -> Iterator[ResidualRow]:
    """Operators of recorded steps on one H200: equal ones of a recording count as one, by their mean."""
    from chakrakit.trace.placement import on_host

    profile = Profiled(find_profile("h200"))
    device = load_machine("dgx-h200").devices[0]
    for name, trace in _recorded(data):
        costs = profile.costs(trace, device)
        rows = np.flatnonzero(~on_host(trace) & (costs.source >= CostSource.PROFILE))
        kinds = operation_kinds(trace)
        sums: dict[tuple[str, int, bool], list[float]] = {}
        for row in rows.tolist():
            beyond = bool(costs.source[row] == CostSource.EXTRAPOLATED)
            entry = sums.setdefault((kinds[row], int(costs.ps[row]), beyond), [0.0, 0.0])
            entry[0] += costs.ps[row] / 1e6
            entry[1] += trace.duration_ns[row] / 1e3
        for (kind, ps, beyond), (predicted, measured) in sums.items():
            if predicted > 0 and measured > 0:
                group = kernel_group("measured profile", "h200", kind, ps * 1e-12, beyond)
                yield ResidualRow(group, predicted, measured, name)


def _recorded(data: Path, every: bool = False) -> Iterator[tuple[str, Trace]]:
    """Recorded steps on one H200: every one, or those that nobody looked at while the profile was made."""
    import device_time

    from chakrakit.sources.pytorch.linking import LinkOptions, link

    for _, name, seen in device_time.PROGRAMS:
        own = RECORDINGS / name
        folder = own if own.is_dir() else data / "gpu_h200" / name
        if (every or not seen) and folder.is_dir():
            files = [folder / "et.json.gz", folder / "kineto.json.gz"]
            yield name, link(files, LinkOptions(as_recorded=True))[0].trace(0)


FEWEST = 5
"""Operations of a recording whose median says anything."""


def pace_rows(data: Path) -> Iterator[ResidualRow]:
    """The median operation of every recording: how far a healthy device is off as a whole."""
    from chakrakit.insight.diagnosis import recorded_logs
    from chakrakit.insight.rank import RankView

    device = load_machine("dgx-h200").devices[0]
    for name, trace in _recorded(data, every=True):
        view = RankView(0, trace, trace.start_ns, trace.end_ns, True)
        logs = recorded_logs(view, device)
        if len(logs) < FEWEST:
            continue
        median = float(np.median(logs))
        yield ResidualRow(("recording", "h200"), 1.0, math.exp(median), name)


def operation_kinds(trace: Any) -> list[str]:
    """`matmul`, `attention`, `lookup` or `vector` for each row, by the operator that launched it."""
    from chakrakit.insight.rank import RankView
    from chakrakit.operators import operator_of

    view = RankView(0, trace, trace.start_ns, trace.end_ns, True)
    names, texts = view.names
    kinds = [operator_of(t).op_type for t in texts]
    return [kinds[c] for c in names[view.operator].tolist()]


# --- collectives ----------------------------------------------------------------------------------


def collective_rows(data: Path) -> Iterator[ResidualRow]:
    """Collectives of NCCL within a node: 4 GPUs, and every other size by a fit on the rest of 2 and 8."""
    import collectives as claim

    from chakrakit.machines.fabric import span_of
    from chakrakit.machines.library import fit_library, predict

    for file in ("collectives.parquet", "collectives_2_8.parquet"):
        for system, rows in claim.measured(data / "nccl" / file).items():
            if system not in claim.MACHINES:
                continue
            name = claim.MACHINES[system]
            machine = load_machine(name)
            assert machine.library is not None
            spans = {n: span_of(machine, np.arange(n)) for n in {r.members for r in rows}}
            even = [r for r in rows if r.members != 4 and claim.is_even(r)]
            other = fit_library(machine.library, even, spans.__getitem__)
            for row in rows:
                if row.members == 4 or not claim.is_even(row):
                    library = machine.library if row.members == 4 else other
                    found = predict(library, row, spans[row.members])
                    group = collective_group(name, row.collective, found)
                    yield ResidualRow(group, found * 1e6, row.seconds * 1e6)


def between_rows(data: Path) -> Iterator[ResidualRow]:
    """DeepEP's exchanges on 8 nodes as fits on 1 and 2 predict them: all that was measured between nodes.

    They stand for every collective there, so that each counts in both directions: how far a model may be off
    is known from them, and not whether others are slower or faster than modelled.
    """
    import fit_messages

    rows = pq.read_table(data / "nccl" / "deepep.parquet").to_pylist()
    for exchange in (fit_messages.low_latency, fit_messages.throughput):
        for what in ("dispatch", "combine"):
            for number, (predicted, measured) in enumerate(zip(*exchange(rows, what), strict=True)):
                group = collective_group(BETWEEN_NODES, what, predicted * 1e-6)
                name = f"{exchange.__name__} {what} {number}"
                yield ResidualRow(group, float(predicted), float(measured), name)
                yield ResidualRow(group, float(measured), float(predicted), name)


# --- hosts ----------------------------------------------------------------------------------------


def host_rows(data: Path) -> Iterator[ResidualRow]:
    """Captured programs that their host bounds, in every session that they were measured in."""
    import captured_programs as claim

    for name, sessions, ms in claim.launch_bound():
        print(f"  {name}: {ms:.2f} ms, measured {sessions}", file=sys.stderr, flush=True)
        yield from (ResidualRow(HOST_GROUP, ms, measured, name) for measured in sessions)


# --- serving --------------------------------------------------------------------------------------


def serving_rows(data: Path, limit: int = 0) -> Iterator[ResidualRow]:
    """Times to the first token and per output token of published runs, of the half that was not fitted."""
    import serving_silicon as claim

    _, _, lines = claim.errors_of(str(data / "serving" / "silicon.parquet"), "odd", limit)
    for line in lines:
        for figure in ("ttft", "tpot"):
            group = ("serving", figure, line["backend"], claim.MACHINES[line["system"]])
            yield ResidualRow(group, line[figure], line[f"{figure}_ms"])


# --- steps of training ----------------------------------------------------------------------------


def step_rows(data: Path) -> Iterator[ResidualRow]:
    """Published training steps that no factor was fitted on."""
    import training as claim

    for number, (row, error) in enumerate(claim.training_errors(data)[0].items()):
        if not row.fitted:
            # tokens per second: what is predicted too fast takes longer when measured
            group = step_group(row.framework, row.machine().name)
            yield ResidualRow(group, 1.0, 1.0 + error, f"step {number}")


def pair_rows(steps: Iterable[ResidualRow]) -> Iterator[ResidualRow]:
    """By how much one published step is off more than another of the same framework."""
    for a, b in permutations([r for r in steps if r.group[0] == "step"], 2):
        if a.group[1] == b.group[1]:
            place = a.group[1:] if a.group == b.group else ()
            ratio = math.exp(a.residual - b.residual)
            yield ResidualRow(("pair", *place), 1.0, ratio, a.program, b.program)


# --- the table ------------------------------------------------------------------------------------


def spread(residuals: Sequence[float] | F64) -> ErrorSpread:
    """The percentiles that a further row lies between in 90 % of cases: of n + 1 equal chances, not of n.

    Those of fewer than 19 rows would lie outside of all of them; the outermost rows stand for them.
    """
    low, middle, high = np.quantile(residuals, PERCENTILES, method="weibull")
    return ErrorSpread(
        len(residuals), round(float(low), 4), round(float(middle), 4), round(float(high), 4)
    )


def table_of(rows: list[ResidualRow], correlation: float, sources: list[str]) -> ResidualTable:
    groups = {
        name: spread(residuals)
        for name, residuals in groups_of((r.group, r.residual) for r in rows)
    }
    return ResidualTable(sources, correlation, dict(sorted(groups.items())))


def correlation_of(rows: list[ResidualRow]) -> float:
    """The share of its operations' errors that a recording has as a whole, by kind of work.

    The variance of a sum over the variance that its operations would give it if their errors were their own,
    beside the one if they were all the same.
    """
    sums: dict[tuple[str, str], list[ResidualRow]] = {}
    for row in rows:
        if row.group[0] == "kernel" and row.program:
            sums.setdefault((row.program, row.group[2]), []).append(row)
    whole = same = alone = 0.0
    for part in sums.values():
        predicted = np.array([r.predicted for r in part])
        off = np.array([r.measured - r.predicted for r in part])
        total = predicted.sum()
        whole += (off.sum() / total) ** 2
        same += (np.abs(off).sum() / total) ** 2
        alone += float((off**2).sum()) / total**2
    return round(min(max(float(whole - alone) / max(float(same - alone), 1e-12), 0.0), 1.0), 3)


def held_out(rows: list[ResidualRow]) -> dict[str, list[tuple[str, float]]]:
    """A sample of the rows by kind and system: their groups and residuals, for the tests."""
    names: dict[str, list[tuple[str, float]]] = {}
    for row in sorted(rows, key=lambda r: (r.group, r.predicted, r.measured)):
        for name in sorted(set(_coverage_groups(row.group))):
            names.setdefault(name, []).append(("/".join(row.group), round(row.residual, 4)))
    return {
        name: found[:: max(1, len(found) // MOST_HELD_OUT)]
        for name, found in sorted(names.items())
        if len(found) >= LEAST_ROWS
    }


def covered(rows: list[ResidualRow]) -> dict[str, tuple[int, float]]:
    """For each kind and system, how many rows there are, and the share within 90 % intervals of the others.

    A program's rows are left out together, and with a step all of its pairs: what is known of one of them
    says something of the rest.
    """
    residuals = np.array([row.residual for row in rows])
    numbers = groups_of((row.group, i) for i, row in enumerate(rows))
    members = {name: np.array(found) for name, found in numbers}
    whole = {name: spread(residuals[found]) for name, found in members.items()}
    hits: dict[str, list[bool]] = {}
    for program, left_out in _programs(rows).items():
        groups = dict(whole)
        for name, _ in groups_of((rows[i].group, 0.0) for i in left_out):
            others = members[name][~np.isin(members[name], left_out)]
            if len(others):
                groups[name] = spread(residuals[others])
            else:
                del groups[name]
        table = ResidualTable([], 0.0, groups)
        for row in (rows[i] for i in left_out if rows[i].program in ("", program)):
            if (found := table.cautious(*row.group)) is not None:
                hit = found.low <= row.residual <= found.high
                for name in set(_coverage_groups(row.group)):
                    hits.setdefault(name, []).append(hit)
    return {n: (len(h), round(sum(h) / len(h), 4)) for n, h in sorted(hits.items())}


def _programs(rows: list[ResidualRow]) -> dict[str, list[int]]:
    """The rows of each program, pairs with those of both their steps; a row without one is by itself."""
    found: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        for name in filter(None, (row.program or f"row {i}", row.beside)):
            found.setdefault(name, []).append(i)
    return found


def _coverage_groups(group: tuple[str, ...]) -> tuple[str, str]:
    if group[0] == "kernel":
        return f"{group[1]}: {group[2]}", f"{group[1]}: {group[5]}"
    if group[0] == "collective":
        return f"collective: {group[2]}", f"collective: {group[1]}"
    if group[0] in ("recording", "host", "pair", BETWEEN_NODES):
        return (": ".join(group[:2]),) * 2
    if group[0] == "step":
        return f"training step: {group[1]}", f"training step: {group[2]}"
    return f"serving: {group[1]}, {group[2]}", f"serving: {group[3]}"


SOURCES = {
    "kernels": kernel_rows,
    "recordings": recorded_rows,
    "paces": pace_rows,
    "collectives": collective_rows,
    "between": between_rows,
    "hosts": host_rows,
    "serving": serving_rows,
    "steps": step_rows,
}


def every_row(data: Path, sources: Sequence[str]) -> list[ResidualRow]:
    rows: list[ResidualRow] = []
    for name in sources:
        before = len(rows)
        rows += SOURCES[name](data)
        print(f"{name}: {len(rows) - before:,} rows", file=sys.stderr, flush=True)
    return rows


MADE_FROM = [
    "products, attention and decoding: ai-dynamo/aiconfigurator 095f58a",
    "operators of recordings on one H200",
    "nccl-tests on 4 GPUs: ai-dynamo/aiconfigurator 095f58a",
    "served requests: ai-dynamo/aiconfigurator 095f58a, rows not fitted",
    "training steps: Megatron-Bridge, llm-foundry, torchtitan and MaxText, rows not fitted",
    "medians of recordings on one H200",
    "exchanges on 8 nodes, fitted on fewer: ai-dynamo/aiconfigurator 095f58a",
    "programs of small kernels on one H200",
]


def rows_and_pairs(data: Path, *sources: str) -> list[ResidualRow]:
    """The rows of these sources, or of all, and the pairs of steps among them."""
    rows = every_row(data, _with_their_kind(sources))
    return [*rows, *pair_rows(rows)]


def main(data: str, *sources: str) -> int:
    """Writes the table and prints the coverage."""
    rows = rows_and_pairs(Path(data), *sources)
    table = table_of(rows, correlation_of(rows), MADE_FROM)
    table = msgspec.structs.replace(table, coverage=covered(rows))
    if sources:
        table = _renewed(residual_table(), table, {r.group[0] for r in rows})
    kept = held_out(rows)
    if sources and HELD_OUT.exists():
        kept = {**msgspec.json.decode(HELD_OUT.read_bytes()), **kept}
    HELD_OUT.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=0) + b"\n")
    OUT.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")
    print(f"{len(table.groups)} groups, correlation {table.correlation}")
    for name, (count, share) in table.coverage.items():
        print(f"{name:45} {count:6} {share:.1%}")
    return 0


SHARED = (("kernels", "recordings"),)
"""Sources whose rows are in groups of one kind."""


def _with_their_kind(sources: Sequence[str]) -> list[str]:
    """The sources that were asked for and those whose rows are in the same groups; all where none was."""
    wanted = {name for names in SHARED if set(names) & set(sources) for name in names}
    return [name for name in SOURCES if not sources or name in wanted | set(sources)]


def _renewed(old: ResidualTable, new: ResidualTable, kinds: set[str]) -> ResidualTable:
    """The old table with the groups of some kinds learned anew."""
    kept = {n: g for n, g in old.groups.items() if n.partition("/")[0] not in kinds}
    groups = dict(sorted({**kept, **new.groups}.items()))
    coverage = dict(sorted({**old.coverage, **new.coverage}.items()))
    correlation = new.correlation if "kernel" in kinds else old.correlation
    return ResidualTable(MADE_FROM, correlation, groups, coverage)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
