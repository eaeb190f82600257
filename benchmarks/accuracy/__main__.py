"""Measures every claim and rewrites docs/accuracy.md: `make accuracy DATA=DIR`.

DIR holds truth tables (`nccl`, `training`, …). One file per claim: its `measure(data)` returns the section.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from claim import MissingDataError  # noqa: E402

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
HEAD = """\
# Accuracy

How close predictions come to real machines. `make accuracy DATA=DIR` generates this page from
`benchmarks/accuracy`, one file per section. DIR holds the measurements, which are not part of the project.
Whether the simulator computes what its rules say is another question, which `tests/simulator` answers with
closed forms and a slow second implementation. Errors are predicted / measured − 1; "absolute" errors are
their absolute values, and "90 %" is the 90th percentile of those.
"""


def main(data: str, output: str = "docs/accuracy.md") -> int:
    """Writes the page; 1 where a table is missing, with nothing written."""
    names = [*ORDER, *(c for c in CLAIMS if c not in ORDER)]
    sections = []
    for name in (n for n in names if n in CLAIMS):
        claim = import_module(name)
        print(name, file=sys.stderr, flush=True)
        try:
            sections.append(f"## {claim.TITLE}\n\n{claim.measure(Path(data)).strip()}\n")
        except MissingDataError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    Path(output).write_text("\n".join([HEAD, *sections]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
