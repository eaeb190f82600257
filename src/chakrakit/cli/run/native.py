"""The native simulator's options on the command line, for `chakra simulate --machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chakrakit.cli.shared import console, print_json, print_recording, print_table, print_tables

if TYPE_CHECKING:
    from chakrakit.simulator.results import (
        CollectiveSummary,
        RankSummary,
        Simulation,
        SimulationSummary,
    )

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--machine",
        metavar="NAME_OR_FILE",
        help="On a machine: a preset (`dgx-h100:32` is 32 nodes; see `chakra machines`) or a file.",
    ),
    click.option(
        "--network",
        type=click.Choice(["flow", "analytical"]),
        default="flow",
        show_default=True,
        help="Links shared max-min fairly, or transfers that never meet.",
    ),
    click.option(
        "--compute",
        metavar="auto|measured|roofline|PROFILE",
        default="auto",
        show_default=True,
        help="How long operations take; auto: as measured, else by the machine's profile or roofline.",
    ),
    click.option(
        "--communication",
        type=click.Choice(["simulated", "measured"]),
        default="simulated",
        show_default=True,
        help="Transfers by the machine's network, or as long as the trace says they took.",
    ),
    click.option(
        "--algorithm",
        "algorithms",
        multiple=True,
        metavar="COLLECTIVE=NAME",
        help="Use this algorithm, as in all-reduce=ring; repeatable.",
    ),
    click.option(
        "--network-model",
        metavar="FILE",
        help="Collectives as measured: from `chakra calibrate --nccl-tests`.",
    ),
    click.option(
        "--placement",
        metavar="FILE|packed|spread",
        help="The device of each rank, a JSON list; by default rank 0 is on device 0, and so on. For "
        "several jobs: nodes of their own (packed, the default), all nodes in turn (spread), or lists "
        "by job.",
    ),
    click.option("--share-compute", is_flag=True, help="Concurrent kernels of a device share it."),
    click.option(
        "--jitter", type=float, default=0.0, help="Standard deviation of durations, as a share."
    ),
    click.option(
        "--straggler",
        "stragglers",
        multiple=True,
        metavar="RANK=FACTOR",
        help="A rank whose device takes FACTOR times as long; repeatable.",
    ),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="KIND:TARGET@NS=FACTOR",
        help="From a time on, `device:3@1e6=0.5` or `link:0-switch 0.0@0=0.1`; repeatable.",
    ),
    click.option("--seed", type=int, default=0, help="Seed of the jitter."),
    click.option(
        "--assume-missing",
        type=click.Choice(["symmetric"]),
        help="Assume that ranks nobody recorded arrive with the others of their group.",
    ),
    click.option(
        "--allow-empty",
        is_flag=True,
        help="Accept collectives of 0 bytes, which take only latency.",
    ),
    click.option(
        "--detail",
        type=click.Choice(["summary", "classes", "full"]),
        default="classes",
        show_default=True,
        help="How much the Run says about what nodes waited for.",
    ),
)


NATIVE_NAMES = (
    "network",
    "compute",
    "communication",
    "algorithms",
    "network_model",
    "placement",
    "share_compute",
    "jitter",
    "stragglers",
    "faults",
    "seed",
    "assume_missing",
    "allow_empty",
    "detail",
)
"""What the options are called as arguments, --machine apart."""


def native_options(command: F) -> F:
    """Adds the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def simulate_native(workload: str, *, as_json: bool, no_fold: bool, **settings: Any) -> None:
    """Runs the native simulator and prints what came out."""
    from chakrakit.api import simulate

    done = simulate(workload, fold=not no_fold, **settings)
    if as_json:
        print_json(done.summary)
    else:
        _print(done)


def simulate_several(
    workloads: tuple[str, ...], *, as_json: bool, no_fold: bool, **settings: Any
) -> None:
    """Runs several jobs at once and prints how each fared."""
    from chakrakit.api import simulate_jobs

    done = simulate_jobs(workloads, fold=not no_fold, **settings)
    if as_json:
        return print_json(done.summary)
    rows = [
        (
            j.name,
            j.ranks,
            f"{j.makespan_ns / 1e6:,.3f}",
            f"{j.alone_ns / 1e6:,.3f}",
            f"{j.slowdown:.3f}",
        )
        for j in done.summary.jobs
    ]
    print_table(("job", "ranks", "ms", "alone ms", "slowdown"), rows)
    return None


def _print(done: Simulation) -> None:
    from chakrakit.results import counted
    from chakrakit.trace.memory import said_first

    s, out = done.summary, console()
    print_recording(s.recording)
    rank = f"rank {s.tightest_rank}"
    if verdict := said_first(s.fits, s.needs_bytes, s.has_bytes, rank):
        out.print(verdict)
    place = f" on {s.machine} ({s.network} network, {s.compute} compute)"
    out.print(f"{s.makespan_ns / 1e6:,.3f} ms{place if s.machine else ', all times as measured'}")
    _print_compute_sources(s)
    for note in s.notes:
        out.print(note)
    ranks = counted(len(s.ranks), "rank")
    out.print(f"{ranks}, {s.fold.factor:g} for each simulated: {s.fold.why}")
    if s.ghosts:
        out.print(f"{len(s.ghosts)} ranks were not recorded and are assumed symmetric")
    figures = [
        ("MFU", s.mfu, "{:.1%}"),
        ("tokens per second", s.tokens_per_s, "{:,.0f}"),
        ("energy", s.energy_joules, "{:,.1f} J"),
        ("with servers and building", s.facility_joules, "{:,.1f} J"),
        ("CO2", s.carbon_kg, "{:.3g} kg"),
        ("price", s.price, "${:.4g}"),
        ("clock", s.clock_mhz, "{:,.0f} MHz"),
    ]
    if known := [f"{n} {f.format(v)}" for n, v, f in figures if v is not None]:
        out.print(", ".join(known))
    _print_ranks(s.ranks)
    _print_collectives(s.collectives)
    if s.storage:
        from chakrakit.insight.analysis import server_table

        print_tables([], [server_table(s.storage)], len(s.storage))


def _print_compute_sources(summary: SimulationSummary) -> None:
    if not summary.compute_sources:
        return
    parts = (
        f"{c.time_share:.0%} {c.source} ({c.nodes:,} operations)" for c in summary.compute_sources
    )
    console().print(f"compute time: {', '.join(parts)}")
    if summary.extrapolated_share:
        console().print(
            f"extrapolated: {summary.extrapolated_share:.1%} of the devices' time lies outside of what was "
            f"measured; estimated error {summary.compute_error:.0%}"
        )


def _print_ranks(ranks: list[RankSummary]) -> None:
    shown = ranks if len(ranks) <= 16 else ranks[:8]
    rows = []
    for r in shown:
        times = (r.finish_ns, r.compute_ns, r.exposed_comm_ns, r.idle_ns)
        rows.append((r.rank, *(f"{t / 1e6:,.3f}" for t in times), f"{r.peak_bytes / 1e9:,.3f}"))
    print_table(("rank", "finish ms", "compute ms", "exposed ms", "idle ms", "peak GB"), rows)
    if len(shown) < len(ranks):
        console().print(f"… and {len(ranks) - len(shown):,} more ranks")


def _print_collectives(collectives: list[CollectiveSummary]) -> None:
    rows = []
    for c in collectives:
        times = (f"{c.mean_ns / 1e3:,.2f}", f"{c.wait_ns / 1e3:,.2f}", f"{c.gb_per_s:,.1f}")
        head = (c.collective, c.algorithm, c.members, c.size, c.count)
        ideal = "–" if c.ideal_share is None else f"{c.ideal_share:.0%}"
        rows.append((*head, *times, ideal))
    heads = ("collective", "algorithm", "of", "bytes", "count", "µs", "waited µs", "GB/s", "ideal")
    if rows:
        print_table(heads, rows)
