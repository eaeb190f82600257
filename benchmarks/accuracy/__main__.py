"""Measures every claim and rewrites docs/accuracy.md: `make accuracy DATA=DIR`.

DIR holds truth tables (`nccl`, `training`, …). One file per claim: its `measure(data)` returns the section.
`make accuracy DATA=DIR SECTIONS="power training"` measures these claims alone and leaves the page's other
sections as they are, and `JOBS=8` measures as many at a time; `ROWS=8` has rows of long sections measured
that many at a time. Progress, with what each section took, goes to standard error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from claim import MissingDataError  # noqa: E402

from chakrakit.errors import ChakraError  # noqa: E402

CLAIMS = sorted(p.stem for p in HERE.glob("*.py") if "\ndef measure(data: Path)" in p.read_text())
"""Files that measure a claim; scripts that run by themselves are not part of the page."""
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
SHARING = (("training", "ranking"), ("captured_programs", "serving_silicon", "intervals"))
"""Sections that ask for the same simulations, which one process makes once."""
HEAD = """\
# Accuracy

How close predictions come to real machines. `make accuracy DATA=DIR` generates this page from
`benchmarks/accuracy`, one file per section. DIR holds the measurements, which are not part of the project.
Whether the simulator computes what its rules say is another question, which `tests/simulator` answers with
closed forms and a slow second implementation. Errors are predicted / measured − 1; "absolute" errors are
their absolute values, and "90 %" is the 90th percentile of those.
"""


def main(data: str, output: str = "docs/accuracy.md", *only: str) -> int:
    """Writes the page, or some sections of it, as each is measured; 1 where one cannot be."""
    names = [n for n in (*ORDER, *(c for c in CLAIMS if c not in ORDER)) if n in CLAIMS]
    if unknown := sorted(set(only) - set(names)):
        print(f"no sections {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 1
    head, sections = _parts(Path(output).read_text()) if Path(output).exists() else (HEAD, {})
    asked = [n for n in names if not only or n in only]
    failed = False
    for name, section in _all_measured(asked, Path(data)):
        if isinstance(section, str):
            sections[import_module(name).TITLE] = section
            titles = [import_module(n).TITLE for n in names]
            page = [head if only else HEAD, *(sections[t] for t in titles if t in sections)]
            Path(output).write_text("\n".join(page))
        else:
            print(f"{name}: {section}", file=sys.stderr, flush=True)
            failed = True
            if isinstance(section, MissingDataError):
                break
    return int(failed)


def _all_measured(names: list[str], data: Path) -> Iterator[tuple[str, str | Exception]]:
    """These sections by name, as many at a time as the environment's JOBS says: one by default.

    A section that fails is its error, and does not end the others.
    """
    if (jobs := int(os.environ.get("JOBS") or 1)) == 1:
        yield from ((name, _measured(name, data)) for name in names)
        return
    shared = [[n for n in group if n in names] for group in SHARING]
    alone = [[n] for n in names if not any(n in group for group in SHARING)]
    with ProcessPoolExecutor(jobs) as pool:
        for done in as_completed(pool.submit(_group, g, data) for g in (*shared, *alone)):
            yield from done.result()


def _group(names: list[str], data: Path) -> list[tuple[str, str | Exception]]:
    return [(name, _measured(name, data)) for name in names]


def _measured(name: str, data: Path) -> str | Exception:
    """A section of the page, or why there is none; says on standard error how long it took."""
    claim, began, worked = import_module(name), time.monotonic(), time.process_time()
    try:
        section = f"## {claim.TITLE}\n\n{claim.measure(data).strip()}\n"
    except (MissingDataError, ChakraError, OSError, subprocess.SubprocessError) as error:
        return error
    took, cpu = time.monotonic() - began, time.process_time() - worked
    print(f"{name}: {took:.0f} s, {cpu:.0f} s of CPU", file=sys.stderr, flush=True)
    return section


def _parts(page: str) -> tuple[str, dict[str, str]]:
    """What comes before the sections of a page, and these by title."""
    head, *sections = (part.rstrip() + "\n" for part in re.split(r"(?m)^(?=## )", page))
    return head, {part.partition("\n")[0].removeprefix("## "): part for part in sections}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
