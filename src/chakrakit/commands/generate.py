"""`generate`: traces of a model that never ran. Every field of a description is an option."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, factors_of, numbers_of
from chakrakit.commands.options import Option, Parameter, Positional, public
from chakrakit.commands.output import Json, console, precision_text, print_json, print_table
from chakrakit.errors import ConfigError
from chakrakit.workloads.models import field_defaults, field_docs, field_types

if TYPE_CHECKING:
    from chakrakit.commands.results import GeneratedTraces
    from chakrakit.trace.sets import TraceSet
    from chakrakit.workloads.description import Model, SectionGraph, Workload
    from chakrakit.workloads.generate import Figures, Generated
    from chakrakit.workloads.parts import WorkloadPart
    from chakrakit.workloads.samples import Batcher
    from chakrakit.workloads.sections import SectionPrograms


class GenerateOptions(TypedDict, total=False):
    """Options of `generate` beside the fields of a description."""

    model: Annotated[
        str | Model | None,
        Option(
            "A name from `chakra models`, or the path of a Hugging Face `config.json`; in Python "
            "also a `Model`.",
            None,
            metavar="M",
        ),
    ]
    output: Annotated[
        Path_ | None,
        Option(
            "Where to write the traces: a directory, NAME.N.et for one file per rank, or -.",
            None,
            flags="-o --output",
            metavar="OUT",
        ),
    ]
    cells: Annotated[
        Sequence[Sequence[str]] | None,
        Option(
            "A schedule of your own: for each pipeline stage its cells, as `F0`, `B0` (docs/workloads.md).",
            None,
            in_shell=False,
        ),
    ]
    machine: Annotated[
        str | None, Option("Say whether the plan fits this machine.", None, metavar="NAME")
    ]
    allow_programs: Annotated[
        bool, Option("Run the batcher that batcher_file names.", False, flags="--allow-programs")
    ]
    memory_gib: Annotated[
        float | None, Option("Refuse a plan that needs more memory per device.", None)
    ]


_PARTS = {
    "plan": "The plan",
    "step": "The step",
    "lengths": "Lengths of requests",
    "samples": "Samples of many lengths",
    "model": "The model",
}


def description_options() -> list[Parameter]:
    """An option for every field of a workload's description, from its type and the text below it."""
    docs, defaults = field_docs(), field_defaults()
    parameters = []
    for name, (part, kind) in field_types().items():
        parse = factors_of if str(kind) == "list[float]" else numbers_of
        listed: dict[str, Any] = {"parse": parse, "metavar": "N,N,…"} if _is_list(kind) else {}
        text = f"{docs[name]}  [default: {defaults[name]}]" if name in defaults else docs[name]
        option = Option(text, None, group=_PARTS[part], on_card=False, **listed)
        parameters.append(Parameter(name, kind, None, option))
    return parameters


def _is_list(kind: Any) -> bool:
    return str(kind).startswith("list")


@public(GenerateOptions, description_options())
def generate(
    workload: Annotated[
        Workload | SectionGraph | Mapping[str, Any] | Path_ | None,
        Positional(
            "A YAML file, generated traces or a run of them, or in Python a `Workload`, a `SectionGraph` or "
            "a dictionary of the file's form; else give --model. Options win over it.",
            metavar="[WORKLOAD]",
        ),
    ] = None,
    **options: Any,
) -> GeneratedTraces:
    """Generate the traces of a model under a parallel plan, with nothing run.

    Examples
    --------
    >>> small = ck.generate(model="gpt3-125m", dp=4, tp=2, seq=512, global_batch=8)
    >>> small.figures.ranks, len(small.traces)
    (8, 8)

    """
    from chakrakit.commands.results import GeneratedTraces
    from chakrakit.trace.storage import write
    from chakrakit.workloads.generate import refuse_over_capacity

    model, output, machine = (options.pop(n) for n in ("model", "output", "machine"))
    memory_gib, allowed = options.pop("memory_gib"), options.pop("allow_programs")
    programs = _programs(*_described(workload, model, options), allowed)
    figures = _figures(programs)
    if memory_gib is not None:
        refuse_over_capacity(figures, _bytes(memory_gib), "the device")
    if machine:
        figures = _with_fit(figures, machine)
    result = GeneratedTraces(programs, figures)
    if output is not None:
        write(result.traces, output)
    return result


def _described(
    workload: Workload | SectionGraph | Mapping[str, Any] | Path_ | None,
    model: str | Model | None,
    options: dict[str, Any],
) -> tuple[Workload | SectionGraph | WorkloadPart, Path]:
    """What is to be generated, of one model or of several sections, and the folder of its file."""
    from chakrakit.workloads.description import SectionGraph, Workload
    from chakrakit.workloads.models import from_plain, workload_of
    from chakrakit.workloads.parts import part_of
    from chakrakit.workloads.sections import description_of, section_graph_of

    written = isinstance(workload, Mapping) or (
        workload is not None and not isinstance(workload, Workload | SectionGraph)
    )
    document = description_of(workload) if written else None
    if document and "sections" in document.content:
        if model:
            raise ConfigError("every section has its own model; leave --model out")
        workload = section_graph_of(document, options)
    elif document and (part := part_of(document)):
        given = [name for name, value in options.items() if value is not None]
        if model or given:
            raise ConfigError(
                f"{part.name} is described by the file alone; leave {given or 'model'} out"
            )
        return part, Path()
    if isinstance(workload, Mapping):
        workload = from_plain(dict(workload))
    if isinstance(workload, Workload | SectionGraph):
        return workload, Path()
    path = None if workload is None else os.fspath(workload)
    return workload_of(path, model, options), Path(path or "").parent


def _programs(
    described: Workload | SectionGraph | WorkloadPart, folder: Path, allowed: bool
) -> Generated | SectionPrograms | WorkloadPart:
    """The programs of a description."""
    from chakrakit.workloads.description import SectionGraph, Workload
    from chakrakit.workloads.generate import generated
    from chakrakit.workloads.sections import SectionPrograms

    if isinstance(described, SectionGraph):
        return SectionPrograms(described)
    if isinstance(described, Workload):
        return generated(described, _batcher(described, folder, allowed))
    return described


def _figures(programs: Generated | SectionPrograms | WorkloadPart) -> Figures:
    """What programs amount to."""
    from chakrakit.workloads.generate import Generated, dry_run
    from chakrakit.workloads.parts import figures_of
    from chakrakit.workloads.sections import SectionPrograms, section_figures

    if isinstance(programs, Generated):
        return dry_run(programs)
    if isinstance(programs, SectionPrograms):
        return section_figures(programs)
    return figures_of(programs)


def _batcher(workload: Workload, folder: Path, allowed: bool) -> Batcher | None:
    """The user's own batcher, which a workload names and which runs only if that is allowed."""
    from chakrakit.configuration import part_of_program

    named = workload.step.samples.batcher_file
    if workload.step.samples.batcher != "own" or not named:
        return None
    batcher: Batcher = part_of_program(named, folder, allowed, "batcher")
    if not callable(batcher):
        raise ConfigError(f"batcher {named!r} is not a function; it takes samples and limits")
    return batcher


def _bytes(gib: float) -> int:
    if not 0 < gib * 2**30 < math.inf:
        raise ConfigError(f"memory-gib is {gib:g}; give what a device has, above 0")
    return int(gib * 2**30)


def _with_fit(figures: Figures, machine: str) -> Figures:
    from chakrakit.machines import load_machine
    from chakrakit.workloads.generate import with_fit

    smallest = min(load_machine(machine).devices, key=lambda device: device.memory)
    return with_fit(figures, int(smallest.memory))


@command_of(generate)
def command(
    *,
    output: str | None,
    dry_run: Annotated[bool, Option("Only the figures; write nothing.")] = False,
    yes: Annotated[bool, Option("Write the traces however large they are.")] = False,
    series: Annotated[
        bool, Option("Write every step of --steps by itself, as OUT/step-0 and so on.")
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Generate traces of a model under a parallel plan, with nothing run.

    The workload is a YAML file, or --model with options; options win over the file. Generated traces, and
    runs of them, stand for the workload that they were generated from.

    \b
    chakra generate --model llama3.1-8b --dp 4 --tp 2 --global-batch 32 -o out
    chakra generate run --micro-batch 2 -o changed   # another plan for the same
    chakra generate --model llama-3.1-70b --tp 8 --pp 4 --dp 8 --dry-run
    chakra generate sections.yaml --steps 4 --series -o steps
    """
    from chakrakit.results import counted
    from chakrakit.trace.memory import shortage_line
    from chakrakit.trace.storage import write

    if output is not None and not (dry_run or yes):
        _refuse_ahead(output, options)
    result = generate(output=None, **options)
    figures = result.figures
    if output is not None and not dry_run:
        if not yes:
            _refuse_large(
                [(c.nodes, c.ranks) for c in figures.per_rank], figures.micro_batches, output
            )
        if series:
            _write_series(result.series, output)
        else:
            write(result.traces, output)
    if output == "-" and not dry_run:
        return None  # the trace is what is printed
    if json:
        return print_json(figures)
    if verdict := shortage_line(figures.fits, figures.needs_bytes, figures.has_bytes):
        console().print(verdict)
    _print(figures)
    if output and not dry_run:
        bodies = counted(len(figures.per_rank), "body", "bodies")
        console().print(f"wrote {counted(figures.ranks, 'rank')} in {bodies} to {output}")
    elif not dry_run:
        console().print("nothing written; give -o OUT")
    return None


_NODE_BYTES = 220
"""Of a generated node in an `.et` file: 220 to 225 for gpt3-125m, llama3.1-8b and deepseek-v3."""
_MOST_BYTES = 256 << 20
"""What is written without asking: 1.2 million nodes."""


def _write_series(series: Sequence[TraceSet], output: str) -> None:
    """Every step in a directory of its own; one of them is in memory at a time."""
    from chakrakit.trace.storage import write

    if output == "-" or Path(output).suffix == ".et":
        raise ConfigError(
            f"--series writes a directory for each step; give -o a name, not {output}"
        )
    for step in range(len(series)):
        write(series[step], Path(output) / f"step-{step}")


_MANY = 512
"""Micro-batches whose nodes are counted before they are made."""


def _refuse_ahead(output: str, options: Mapping[str, Any]) -> None:
    """Refuse very many micro-batches before their nodes are made."""
    from chakrakit.workloads.description import Workload
    from chakrakit.workloads.generate import generated

    others = {"machine", "memory_gib", "allow_programs", "output"}
    parameters: list[Parameter] = vars(generate)["parameters"]  # which parse what is text
    given = {
        p.name: p.value_of(options.get(p.name, p.default))
        for p in parameters
        if p.name not in others
    }
    described, _ = _described(given.pop("workload"), given.pop("model"), given)
    if not isinstance(described, Workload) or described.step.samples.batcher:
        return
    programs = generated(described)
    if programs.passes >= _MANY and (nodes := programs.nodes_ahead()):
        _refuse_large(nodes, programs.passes, output)


def _refuse_large(nodes_and_ranks: list[tuple[int, int]], micro_batches: int, output: str) -> None:
    """Say how much would be written, and that --yes is needed, if it is very much."""
    each = bool(Path(output).suffix)  # a file for every rank, and not one for every body
    nodes = sum(nodes * (ranks if each else 1) for nodes, ranks in nodes_and_ranks)
    size = nodes * _NODE_BYTES
    if size > _MOST_BYTES:
        raise ConfigError(
            f"this writes {nodes:,} nodes, some {size / 1e9:,.1f} GB; give --yes if that is meant, or fewer "
            f"micro-batches ({micro_batches:,} of them), layers or ranks"
        )


def _print(figures: Figures) -> None:
    from chakrakit.results import counted, flops_text

    out = console()
    active = f" ({figures.active_parameters:,} per token)" if _differs(figures) else ""
    out.print(
        f"{figures.model}: {figures.parameters:,} parameters{active}, {counted(figures.ranks, 'rank')}, "
        f"{sum(c.ranks * c.nodes for c in figures.per_rank):,} nodes"
    )
    if figures.precision:
        out.print(precision_text(figures.precision))
    if left_out := _left_out(figures):
        out.print(f"not generated: {', '.join(left_out)}")
    batches = counted(figures.micro_batches, "micro-batch", "micro-batches")
    span = "per step" if figures.steps == 1 else f"in {figures.steps} steps"
    out.print(
        f"{batches}, {figures.tokens:,} tokens, "
        f"{flops_text(figures.flops_total)} {span}, bubble {100 * figures.bubble_fraction:.1f} %"
    )
    if figures.samples:
        s = figures.samples
        out.print(
            f"{s.samples:,} samples in micro-batches of {counted(s.shapes, 'shape')}, padding "
            f"{100 * s.padding:.1f} %, busiest replica {100 * s.imbalance:.1f} % above the mean"
        )
    if figures.blocks:
        b = figures.blocks
        out.print(
            f"{b.blocks:,} blocks shared by {b.assignment}: busiest rank {100 * b.imbalance:.1f} % above "
            f"even work, fullest {100 * b.token_imbalance:.1f} % above the mean, keys sent "
            f"{b.keys_sent:.2f} times"
        )
    _print_sections(figures)
    _print_ranks(figures)
    for r in figures.replicated:
        out.print(f"replicated {r.times} times: {r.name} ({flops_text(r.flops)} more than once)")


def _print_ranks(figures: Figures) -> None:
    """What each class of ranks computes, holds and communicates."""
    from chakrakit.results import three_digits

    kinds = list(dict.fromkeys(k for c in figures.per_rank for k in c.memory))
    listed = figures.per_rank[:32]
    print_table(
        ("ranks of", "ranks", "TFLOP", *(f"{k} GiB" for k in kinds)),
        (
            (
                c.rank_class,
                c.ranks,
                three_digits(c.flops / 1e12),
                *(three_digits(c.memory.get(k, 0) / 2**30) for k in kinds),
            )
            for c in listed
        ),
    )
    if len(figures.per_rank) > len(listed):
        console().print(f"and {len(figures.per_rank) - len(listed):,} more; --json has all")
    _print_communication(figures)


def _print_communication(figures: Figures) -> None:
    """What a rank sends in a step, by what the group is for: of unlike ranks the least and the most."""
    from chakrakit.results import size_text

    counts: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for ranks in figures.per_rank:
        sums: dict[tuple[str, str, int], tuple[int, int]] = {}
        for m in ranks.comm:
            key = m.type, m.group.partition(":")[0], m.ranks
            count, size = sums.get(key, (0, 0))
            sums[key] = count + m.count, size + m.bytes
        for key, sent in sums.items():
            counts.setdefault(key, []).append(sent)
    rows = [
        (
            *key,
            _least_to_most([n for n, _ in sent], "{:,}".format),
            _least_to_most([size for _, size in sent], size_text),
        )
        for key, sent in sorted(counts.items())
    ]
    if rows:
        print_table(("communication", "group", "of", "calls per rank", "size per rank"), rows)


def _least_to_most(numbers: Sequence[int], text: Callable[[int], str]) -> str:
    least, most = text(min(numbers)), text(max(numbers))
    return least if least == most else f"{least} to {most}"


def _print_sections(figures: Figures) -> None:
    """A row for every section of a model of several."""
    if figures.sections:
        print_table(
            (
                "section",
                "model",
                "parameters",
                "ranks",
                "samples",
                "micro-batches",
                "GFLOP",
                "handed on MiB",
            ),
            (
                (
                    s.section,
                    s.model,
                    s.parameters,
                    f"{s.first_rank}–{s.first_rank + s.ranks - 1}",
                    s.samples,
                    s.micro_batches,
                    s.flops // 10**9,
                    s.handed_bytes >> 20,
                )
                for s in figures.sections
            ),
        )


def _left_out(figures: Figures) -> list[str]:
    """What a model has besides that traces do not hold."""
    from chakrakit.results import counted

    texts = []
    if figures.vision_parameters:
        texts.append(f"a vision tower of {figures.vision_parameters:,} parameters")
    if figures.mtp_layers:
        layers = counted(figures.mtp_layers, "layer that predicts", "layers that predict")
        texts.append(f"{layers} further tokens")
    return texts


def _differs(figures: Figures) -> bool:
    return bool(figures.active_parameters != figures.parameters)
