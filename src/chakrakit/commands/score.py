"""`score`: simulators against the timed steps of a library of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.exploration.scoring import ScoreResult


class ScoreOptions(TypedDict, total=False):
    """Options of `score`."""

    astra: Annotated[
        str | None,
        Option("ASTRA-sim's analytical program, to be scored too.", None, metavar="BINARY"),
    ]


@public(ScoreOptions)
def score(
    library: Annotated[Path_, Positional("The folder with library.json.", metavar="FOLDER")],
    simulator: Annotated[
        Sequence[str], Positional("A simulator's command, to be scored too.", metavar="COMMAND…")
    ] = (),
    **options: Unpack[ScoreOptions],
) -> ScoreResult:
    """Score our simulator, a constant rate, ASTRA-sim and any simulator's command on a library of traces.

    Examples
    --------
    >>> from chakrakit.trace.library import entry_of, write_index
    >>> run = ck.simulate(ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces, "dgx-h100").run()
    >>> bundle = ck.bundle(run, "gpt.chakra")
    >>> write_index(".", [entry_of("gpt.chakra", machine="dgx-h100", step_ns=run.makespan_ns)])
    >>> ck.score(".").failed
    {'chakrakit': 0, 'constant rate': 0}

    """
    from chakrakit.exploration.scoring import score as scored

    return scored(str(library), simulator, options["astra"])


@command_of(score, ignore_unknown_options=True)
def command(
    library: Annotated[str, Positional("The folder with library.json.", metavar="FOLDER")],
    simulator: Annotated[
        tuple[str, ...], Positional("A simulator, after --.", metavar="COMMAND…", words=-1)
    ] = (),
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Score our simulator, a constant rate and COMMAND (after --) on a library of traces.

    COMMAND is run with the path of a bundle, in place of {} or at its end, and with its machine in place of
    {machine}. It prints a JSON object with step_ns (or makespan_ns), or a number of nanoseconds.

    \b
    chakra score traces
    chakra score traces --astra AstraSim_Analytical_Congestion_Unaware
    chakra score traces -- my-simulator --trace {} --machine {machine}
    """
    result = score(library, simulator, **options)
    if json:
        print_json(result)
        return
    for name, mean in result.mean_error.items():
        worst, failed = 100 * result.worst_error[name], result.failed[name]
        more = f", {failed} could not be said" if failed else ""
        console().print(f"{name}: {100 * mean:.1f} % on average, at most {worst:.1f} %{more}")
    rows = [
        (s.simulator, s.bundle, _ms(s.truth_ns), _ms(s.step_ns), _percent(s.error), s.failed)
        for s in result.scores
    ]
    print_table(("simulator", "bundle", "timed ms", "said ms", "error %", ""), rows)


def _ms(ns: float | None) -> float | str:
    return "" if ns is None else round(ns / 1e6, 3)


def _percent(share: float | None) -> float | str:
    return "" if share is None else round(100 * share, 2)
