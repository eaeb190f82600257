"""`link`: from recordings to a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import EngineOption, Path_
from chakrakit.commands.options import Option, Positional, picked, public, settings_of
from chakrakit.commands.output import Json, console, print_json, print_table
from chakrakit.results import counted

if TYPE_CHECKING:
    from chakrakit.commands.results import LinkedRun
    from chakrakit.sources.pytorch.linking import LinkReport, RankReport


_SHOWN = 12
"""Ranks whose rows fit one screen with the lines around them."""


def kernels_of(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`["my_reduce=all-reduce"]` as patterns of kernels' names and what they communicate."""
    from chakrakit.operators import added_kernel

    return tuple(added_kernel(text) for text in texts)


class LinkSettings(EngineOption, total=False):
    """Options of `link`."""

    output: Annotated[
        Path_ | None,
        Option("Where to write the run.", None, flags="-o --output", metavar="RUN", on_card=False),
    ]
    times: Annotated[
        Iterable[Path_],
        Option(
            "Kineto's files of the same program recorded without the observer, one per rank: they give "
            "the times.",
            (),
            metavar="PATH",
            on_card=False,  # its files are the card's sources
        ),
    ]
    undilate: Annotated[
        bool,
        Option(
            "Take out what recording cost the host even where nothing says how much that is.",
            False,
            on_card=False,  # the card has what was taken out
        ),
    ]
    as_recorded: Annotated[
        bool, Option("Leave the times as recorded, with what recording cost.", False)
    ]
    comm_pattern: Annotated[
        Iterable[Any],
        Option(
            "Kernels whose names match count as this communication: 'my_reduce=all-reduce'; 'none' for "
            "computation. Comes before the kernels of libraries that are known.",
            (),
            metavar="REGEX=KIND",
            parse=kernels_of,
        ),
    ]
    memory: Annotated[
        float, Option("GiB that ranks linked at the same time may take.", 8.0, on_card=False)
    ]
    jobs: Annotated[
        int, Option("At most this many processes; 0 for one per core.", 0, on_card=False)
    ]


@public(LinkSettings)
def link(
    *inputs: Annotated[
        Path_ | Iterable[Path_],
        Positional(
            "Files, or directories with those of all ranks: PyTorch's observer and Kineto, exports of "
            "Nsight Systems, rocprofv3's JSON, XLA's profiles, dumps of the flight recorder, NCCL "
            "Inspector's lines.",
            metavar="IN…",
        ),
    ],
    **options: Unpack[LinkSettings],
) -> LinkedRun:
    """Link recordings of any number of ranks into a run.

    Returns
    -------
    The run and the report, which says what was matched, inferred and left out.

    Examples
    --------
    >>> run, report = ck.link("recording")  # doctest: +SKIP
    >>> run.analyze()  # doctest: +SKIP

    """
    from chakrakit.commands.results import LinkedRun
    from chakrakit.operators import CommunicationKernels
    from chakrakit.sources import link as link_files
    from chakrakit.sources.pytorch.linking import LinkOptions as Linking
    from chakrakit.trace.storage import write

    output = options["output"]
    linker_options: dict[str, Any] = {
        "times": tuple(Path(path) for path in options["times"]),
        "memory_bytes": int(options["memory"] * 2**30),
        "kernels": CommunicationKernels(tuple(options["comm_pattern"])),
        "spool": Path(output).absolute().parent if output is not None else None,
    }
    run, report = link_files(
        list(_paths(inputs)), Linking(**picked(Linking, options) | linker_options)
    )
    settings = settings_of(LinkSettings, options)
    if settings:
        run = run.with_card(run.card.replace(settings=settings | run.card.settings))
    if output is not None:
        with run.uncached():
            write(run, output)
    return LinkedRun(run, report)


def _paths(inputs: Iterable[Any]) -> Iterator[Path]:
    """Paths, one by one; lists of them count as their entries."""
    for path in inputs:
        if isinstance(path, str | os.PathLike):
            yield Path(path)
        else:
            yield from _paths(path)


@command_of(link)
def command(
    inputs: tuple[str, ...],
    *,
    output: Annotated[str, Option("The run.", flags="-o --output", metavar="RUN")],
    report: Annotated[
        bool, Option("Show everything that was matched, repaired and dropped.")
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Link recordings of any number of ranks into a run.

    IN is a file, or a directory with the files of all ranks, plain or .gz: PyTorch's observer and
    Kineto (or either alone, with the captures of its CUDA graphs), an SQLite export of Nsight Systems,
    rocprofv3's JSON, XLA's profile, or communication alone from PyTorch's flight recorder or NCCL
    Inspector. Files are recognized and put together by their content.

    The cost of recording is taken out of the host's times wherever it is known: from a card, from a
    second recording without the observer (kineto_only*, times_*), or from work on a device.

    \b
    chakra link recordings -o run    # a directory with the files of all ranks
    chakra link x.sqlite -o run      # from `nsys export --type sqlite x.nsys-rep`
    """
    linked = link(*inputs, output=output, **options).report
    if json:
        return print_json(linked)
    print_summary(linked, Path(output))
    if report:
        for rank in linked.ranks:
            _details(rank)
    return None


def print_summary(report: LinkReport, output: Path) -> None:
    """Says how many ranks became a run, how long its step is, what each rank holds and what they share."""
    out = console()
    if report.warning:
        out.print(f"warning: {report.warning}")
    out.print(f"linked {counted(len(report.ranks), 'rank')} into {output}")
    if report.recording is not None and report.step_ns:
        out.print(report.recording.sentence)
    rows = [
        (
            r.rank,
            f"{r.host_ops.linked:,}/{r.host_ops.in_:,}",
            f"{r.device_activities.linked:,}/{r.device_activities.in_:,}",
            sum(r.collectives.values()) + sum(r.p2p.values()),
            f"{r.measured_span_ns / 1e6:,.3f}",
            f"{r.scheduled_span_ns / 1e6:,.3f}",
            r.edge_violations,
        )
        for r in report.ranks
    ]
    head = ("rank", "operators", "device", "comm", "measured ms", "scheduled ms", "violations")
    print_table(head, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        out.print(f"… and {len(rows) - _SHOWN:,} more (--json has all)")
    skew = report.clock.get("residual_skew_ns") or {}
    if skew:
        out.print(f"clocks: {report.clock['rule']}, residual skew {skew['median'] / 1e3:,.1f} µs")
    for path, why in report.ignored_files.items():
        out.print(f"not used: {path}: {why}")
    ranks_of_warning: dict[str, list[int]] = {}
    for rank in report.ranks:
        for warning in rank.warnings:
            ranks_of_warning.setdefault(warning, []).append(rank.rank)
    for warning, ranks in ranks_of_warning.items():
        which = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks):,} ranks"
        out.print(f"{which}: {warning}")
    out.print(f"more: chakra analyze {output}, chakra view {output}")


def _details(rank: RankReport) -> None:
    sections = {
        "matched by": rank.matched_by,
        "edges": rank.edges,
        "collectives": rank.collectives,
        "messages": rank.p2p,
        "waits": rank.waits,
        "repaired": rank.repaired,
        "dropped": rank.dropped,
        "inferred": rank.inferred,
        "not nodes": rank.left_out_events,
        "start error (ns)": rank.start_error_ns,
    }
    rows = [(title, key, n) for title, counts in sections.items() for key, n in counts.items()]
    rows += [("device", "orphans", rank.orphans)]
    rows += [("device", "programmatic overlaps", rank.programmatic_overlaps)]
    print_table(("what", "which", "count"), rows, title=f"rank {rank.rank}")
