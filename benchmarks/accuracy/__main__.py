"""Measures every claim and rewrites docs/accuracy.md: `make accuracy DATA=DIR`.

DIR holds truth tables (`nccl`, `training`, …). One file per claim: its `measure(data)` returns the section.
`make accuracy DATA=DIR SECTIONS="power training"` measures these claims alone and leaves the page's other
sections as they are, and `JOBS=8` measures as many at a time; `ROWS=8` has rows of long sections measured
that many at a time. Every section says which commit it was measured at (COMMIT names it where there is no
repository), and the introduction whether all are of one. A section that cannot be measured says why instead,
and the exit status is 1. Progress, with what each section took, goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import claim  # noqa: E402
from page import Page, Stamp  # noqa: E402
from section import CLAIMS, Measured, measured  # noqa: E402

ORDER = (
    "collectives",
    "engines",
    "experts",
    "training",
    "megatron_lm",
    "ranking",
    "products",
    "linked_traces",
    "recordings",
    "power",
    "serving_energy",
    "serving_runs",
    "serving_silicon",
)
"""What comes first; other claims follow by name."""
LONGEST = ("training", "captured_programs", "megatron_lm", "serving_silicon")
"""What takes longest begins first, so that it does not end alone."""


def main(data: str, output: str = "docs/accuracy.md", *only: str) -> int:
    """Writes the page, or some sections of it, as each is measured; 1 where one cannot be."""
    names = [n for n in (*ORDER, *(c for c in CLAIMS if c not in ORDER)) if n in CLAIMS]
    if unknown := sorted(set(only) - set(names)):
        print(f"no sections {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 1
    titles = {n: import_module(n).TITLE for n in names}
    page, stamp = Page.read(Path(output), list(titles.values())), Stamp.now(HERE)
    lost: dict[str, str] = {}
    asked = [n for n in names if not only or n in only]
    with TemporaryDirectory() as folder:
        os.environ[claim.KEPT] = folder
        for result in _all_measured(asked, Path(data)):
            print(result.line, file=sys.stderr, flush=True)
            if result.why:
                lost[titles[result.name]] = result.why
            else:
                page.put(titles[result.name], result.text, stamp)
                page.write(Path(output))
    if lost and not only and len(lost) < len(asked):
        for title, why in lost.items():
            page.lose(title, why, stamp)
        page.write(Path(output))
    if lost:
        print(f"{len(lost)} of {len(asked)} sections were not measured:", file=sys.stderr)
        print(*(f"  {title}: {why}" for title, why in lost.items()), sep="\n", file=sys.stderr)
    return int(bool(lost))


def _all_measured(names: list[str], data: Path) -> Iterator[Measured]:
    """These sections, as many at a time as the environment's JOBS says: one by default.

    Each has a process of its own then, so that one which dies does not end the others.
    """
    if (jobs := int(os.environ.get("JOBS") or 1)) == 1:
        yield from (measured(name, data) for name in names)
        return
    first = [*(n for n in LONGEST if n in names), *(n for n in names if n not in LONGEST)]
    with ThreadPoolExecutor(jobs) as threads:
        for done in as_completed([threads.submit(_in_process, name, data) for name in first]):
            yield done.result()


def _in_process(name: str, data: Path) -> Measured:
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(measured, name, data).result()
    except Exception as error:  # a process that was killed has no result of its own
        return Measured(name, why=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
