"""`advise`: what would help a run, whatever kind it is of."""

from __future__ import annotations

from chakrakit.insight.advice.advice import Advice, ranked
from chakrakit.trace.sets import LINKED, Run


def advise(run: Run, source: str = "RUN", machine: str = "") -> tuple[list[Advice], str]:
    """What would help a run, best first, and a note on what was left untried.

    `source` is the run's path in the command lines, `machine` what it was simulated on where that is a file.
    Of several variants of one change the best is advised; changes of what is computed come after those that
    keep it.
    """
    result = None if run.card.tool == LINKED else _tried_plans(run, source, machine)
    if result is None:
        from chakrakit.insight.advice.programs import tried_programs

        result = tried_programs(run, source, machine)
    return (ranked(result[0]), result[1]) if result is not None else ([], "")


def _tried_plans(run: Run, source: str, machine: str) -> tuple[list[Advice], str] | None:
    # Generators of workloads take a tenth of a short report's time to import.
    from chakrakit.insight.advice.plans import tried_plans

    return tried_plans(run, source, machine)
