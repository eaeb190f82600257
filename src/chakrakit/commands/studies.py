"""`studies`: what became of published systems, as it was recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Option, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.published import StudyLine

_WIDE = 120
"""Columns of a terminal from which a claim can be read beside the figures."""
_NARROW = (0, 1, 4, 5)
"""What a narrower one shows: id, system, verdict and gain."""


@public()
def studies(
    family: Annotated[str | None, Option("Only this family, such as serving.", metavar="F")] = None,
) -> list[StudyLine]:
    """List the studies of published systems and their verdicts as they were recorded; nothing is run.

    Returns
    -------
    A line for every study, then the systems that cannot be studied and why.

    Examples
    --------
    >>> [line.verdict for line in ck.studies("communication") if line.id == "B02"]
    ['holds']

    """
    from chakrakit.published import list_studies

    return list_studies(family)


@command_of(studies)
def command(family: str | None, *, json: Json = False) -> None:
    """List the studies of published systems and their verdicts; nothing is run.

    What a study can say is strong (sign, regime and size), a direction, a bound or a side cost. Systems that
    cannot be studied come last, with the reason.

    \b
    chakra studies
    chakra studies --json
    """
    lines = studies(family)
    if json:
        return print_json(lines)
    rows = [
        (
            line.id,
            line.system,
            line.family,
            line.strength,
            line.verdict,
            " to ".join("∞" if v is None else f"{v:g}" for v in line.figures.get("gain", ())),
            line.why[0] if line.verdict == "no study" else line.claim,
        )
        for line in lines
    ]
    head = (
        "id",
        "system",
        "family",
        "can say",
        "verdict",
        "gain",
        "claim, or why there is no study",
    )
    counts = Counter(line.verdict for line in lines)
    out = console()
    verdicts = ", ".join(f"{verdict} {n}" for verdict, n in counts.most_common())
    out.print(f"{len(lines)} published systems; verdicts: {verdicts}")
    if out.width < _WIDE:
        narrow = [[row[i] for i in _NARROW] for row in rows]
        print_table([head[i] for i in _NARROW], narrow)
        return out.print("a wider terminal shows what was claimed; chakra study ID runs one")
    return print_table(head, rows)
