"""`transform`: what-ifs, a pass after another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, traces_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.commands.results import TransformedTraces
    from chakrakit.passes.base import Applied, Pass, Transformed


class TransformOptions(TypedDict, total=False):
    """Options of `transform`."""

    file: Annotated[
        Path_ | None,
        Option("A YAML list of passes, before any --pass.", None, flags="--passes", metavar="FILE"),
    ]
    output: Annotated[
        Path_ | None,
        Option(
            "Where the result goes: a directory, or NAME.N.et for one file per rank.",
            None,
            flags="-o --output",
            metavar="OUT",
        ),
    ]


@public(TransformOptions)
def transform(
    traces: Annotated[Traces, Positional("A path, a TraceSet or a Run.", metavar="IN")],
    passes: Annotated[
        Iterable[Pass | str] | Pass | str,
        Option(
            "A pass as name{field=value, field=[a, b]}; in Python also an object, such as "
            "`ck.Edit(scale=0.5)`. Several are done in order.",
            flags="--pass",
            metavar="SPEC",
        ),
    ] = (),
    **options: Unpack[TransformOptions],
) -> TransformedTraces:
    """Change traces, one pass after another.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> len(ck.transform(traces, "scale-ranks{ranks=8}").traces)
    8

    """
    from chakrakit.commands.results import TransformedTraces
    from chakrakit.passes.base import Pass, parse, read_passes
    from chakrakit.passes.base import transform as apply_passes
    from chakrakit.trace.storage import write

    assert isinstance(passes, tuple), "one alone is the only one of several"
    file, output = options["file"], options["output"]
    pass_list = read_passes(Path(file)) if file else []
    pass_list += [spec if isinstance(spec, Pass) else parse(spec) for spec in passes]
    if not pass_list:
        raise ConfigError("no pass is given; `chakra transform --list` shows them")
    after, report = apply_passes(traces_of(traces), pass_list)
    if output is not None:
        write(after, output)
    return TransformedTraces(after, report)


@command_of(transform)
def command(
    traces: Annotated[str | None, Positional("The traces to change.", metavar="IN")] = None,
    *,
    passes: tuple[str, ...],
    file: str | None,
    output: str | None,
    list: Annotated[bool, Option("The passes, their fields, what each preserves.")] = False,
    json: Json = False,
) -> None:
    """Change traces: select, compact, scale ranks, other devices and precisions, edits.

    Give passes in order; `--list` shows them all. What was done is noted in the result's card.

    \b
    chakra transform run --pass 'edit{scale=0.5, names="aten::mm$"}' -o out
    chakra transform w --pass scale-ranks:ranks=1024 -o larger
    """
    if list:
        return _list(json)
    if not traces or not output or not (passes or file):
        raise ConfigError("give IN, at least one --pass or --passes FILE, and -o OUT (or --list)")
    report = transform(traces, passes, file=file, output=output).report
    if json:
        return print_json(report)
    return _print(report, output)


def _list(json: bool) -> None:
    from chakrakit.passes.base import list_passes

    catalog = list_passes()
    if json:
        return print_json(catalog)
    out = console()
    for listed in catalog.passes:
        out.print(f"{listed.name}: {listed.what}")
        for field, kind in listed.fields.items():
            out.print(f"    {field}: {kind}")
        out.print(f"    preserves: {listed.preserves}")
    return None


def _print(report: Transformed, output: str) -> None:
    rows = [("before", report.before), *((a.spec, a.after) for a in report.applied)]
    print_table(
        ("pass", "ranks", "bodies", "nodes"),
        [(name, size.ranks, size.bodies, size.nodes) for name, size in rows],
    )
    for applied in report.applied:
        _notes(applied)
    out = console()
    if report.times == "dropped":
        out.print("the run's times no longer hold; simulate the result for new ones")
    out.print(f"wrote {output}")


def _notes(applied: Applied) -> None:
    """Plain notes on one line, lists of rows as tables."""
    tables = {key: value for key, value in applied.notes.items() if _is_table(value)}
    plain = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in applied.notes.items()
        if key not in tables and value
    ]
    if plain:
        console().print(f"{applied.spec}: {', '.join(plain)}")
    for key, rows in tables.items():
        body = [tuple("" if cell is None else cell for cell in row.values()) for row in rows]
        print_table(tuple(rows[0]), body, title=f"{applied.spec}: {key}")


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
