"""What the studies share: a tidy table, a drawing and a verdict made from the table, and their page.

Every study runs as it stands: `python examples/studies/NAME.py [--quick] [-o DIRECTORY]`. It writes
NAME.csv and NAME.svg and prints its table and verdict. `python examples/studies/study.py` runs them all
in full and renews docs/studies.md and the tables and drawings in docs/studies.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

Row = dict[str, Any]
NAMES = ("compression", "readiness", "stream_priority", "placement")
PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


@dataclass(frozen=True)
class Study:
    """A question asked of the simulator.

    `measure(quick)` makes the rows, one per simulation that counts; `table(rows)` is what is shown of
    them, `verdict(rows)` what they say, sentence by sentence, and `draw(rows)` an SVG. The last three
    know nothing but the rows, so that what is claimed is what the table holds.
    """

    name: str
    measure: Callable[[bool], list[Row]]
    table: Callable[[list[Row]], str]
    verdict: Callable[[list[Row]], list[str]]
    draw: Callable[[list[Row]], str]

    def main(self) -> None:
        """The command line."""
        parser = argparse.ArgumentParser(description=f"The study {self.name}.")
        parser.add_argument("--quick", action="store_true", help="fewer cases, in a few seconds")
        parser.add_argument("-o", "--output", type=Path, default=Path(), help="where files go")
        given = parser.parse_args()
        rows = self.write(given.output, given.quick)
        print(self.said(rows))

    def write(self, folder: Path, quick: bool) -> list[Row]:
        """Measures, and writes the table and the drawing; the rows as the table has them."""
        folder.mkdir(parents=True, exist_ok=True)
        sink = pa.BufferOutputStream()
        csv.write_csv(pa.Table.from_pylist(self.measure(quick)), sink)
        _replace(folder / f"{self.name}.csv", sink.getvalue().to_pybytes())
        return self.redraw(folder)

    def redraw(self, folder: Path) -> list[Row]:
        """The drawing, from the table as it is; its rows."""
        rows = read_rows(folder / f"{self.name}.csv")
        _replace(folder / f"{self.name}.svg", self.draw(rows).encode())
        return rows

    def said(self, rows: list[Row]) -> str:
        """The table and the verdict."""
        return "\n".join([self.table(rows), "", *(f"- {line}" for line in self.verdict(rows))])


def read_rows(path: Path) -> list[Row]:
    """The rows of a table that a study wrote."""
    return csv.read_csv(path).to_pylist()


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(task) for task in line) + " |" for line in lines)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far it may be off either way: half of the 95 % bootstrap interval."""
    given = np.array(values, float)
    draws = np.random.default_rng(0).choice(given, (2000, len(given)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return float(given.mean()), float(high - low) / 2


def prediction(number: int, held: bool, found: str) -> str:
    """What became of a prediction; whether it held is computed, and nothing is told beside what was found."""
    return f"Prediction {number} {'held' if held else 'failed'}: {found}."


def span(values: Iterable[float], form: str = ".2f") -> str:
    """The least and the most of some values; one figure where they read the same."""
    some = list(values)
    if not some:
        return "no case"
    least, most = f"{min(some):{form}}", f"{max(some):{form}}"
    return least if least == most else f"{least} to {most}"


def renewed(page: str, name: str, text: str) -> str:
    """The page with what stands between the study's marks replaced."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = page.split(begin)
    return before + begin + text + "\n" + end + rest.split(end)[1]


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)


def main() -> None:
    """All studies, or some, and their page."""
    parser = argparse.ArgumentParser(description="Run the studies in full and renew their page.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--page", action="store_true", help="only page and drawings, from the tables as they are"
    )
    given = parser.parse_args()
    folder = PAGE.with_suffix("")
    for name in given.names or NAMES:
        study = importlib.import_module(name).STUDY
        rows = study.redraw(folder) if given.page else study.write(folder, quick=False)
        _replace(PAGE, renewed(PAGE.read_text(), name, study.said(rows)).encode())


if __name__ == "__main__":
    main()
