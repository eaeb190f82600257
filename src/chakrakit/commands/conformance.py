"""`conformance`: any implementation of the format against the set of cases."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.trace.conformance import ConformanceResult


@public()
def conformance(
    reader: Annotated[
        Sequence[str],
        Positional("The command that reads a file; by default this package.", metavar="COMMAND…"),
    ] = (),
    output: Annotated[
        Path_ | None,
        Option("Also leave the cases here, as .et files.", flags="-o --output", metavar="DIR"),
    ] = None,
) -> ConformanceResult:
    """Check an implementation of the format against small traces whose facts are known.

    Examples
    --------
    >>> result = ck.conformance()
    >>> result.passed == len(result.cases)
    True

    """
    from pathlib import Path

    from chakrakit.trace.conformance import check, write_cases

    if output is not None:
        write_cases(Path(output))
    return check(reader)


@command_of(conformance, ignore_unknown_options=True)
def command(
    reader: Annotated[
        tuple[str, ...], Positional("What reads a file, after --.", metavar="COMMAND…", words=-1)
    ] = (),
    *,
    output: Annotated[
        str | None,
        Option("Also leave the cases here, as .et files.", flags="-o --output", metavar="DIR"),
    ] = None,
    json: Json = False,
) -> None:
    """Check COMMAND (after --), or this package, against small traces whose facts are known.

    COMMAND is run with the path of an .et file, in place of {} or at its end, and prints a JSON object with
    any of nodes, edges, types, comm_bytes, duration_ns and step_ns. Exits with 1 if a case fails.

    \b
    chakra conformance
    chakra conformance -- my-reader --json {}
    """
    result = conformance(reader, output)
    if json:
        print_json(result)
    else:
        console().print(f"{result.passed} of {len(result.cases)} cases passed")
        rows = [(v.name, "passed" if v.passed else "failed", v.question) for v in result.cases]
        print_table(("case", "", "question"), rows)
        for verdict in result.cases:
            for name, (expected, read) in verdict.wrong.items():
                console().print(f"{verdict.name}: {name} is {expected}, read as {read}")
            if verdict.error:
                console().print(f"{verdict.name}: {verdict.error}")
    if result.passed < len(result.cases):
        sys.exit(1)
