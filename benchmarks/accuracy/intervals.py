"""How often 90 % intervals hold what was measured."""

from __future__ import annotations

from pathlib import Path

from claim import percent, table

import residuals


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; `benchmarks/residuals.py` writes the table that the package ships."""
    found = residuals.covered(residuals.rows_and_pairs(data))
    lines = [(name, rows, percent(share)) for name, (rows, share) in found.items()]
    return "\n\n".join([TEXT, table(("rows", "number", "within"), lines)])


TITLE = "Intervals"
TEXT = """\
The 90 % intervals that results print come from residuals of rows that nothing was fitted on: products,
attention and decoding of ai-dynamo/aiconfigurator 095f58a (on carried profiles with corrections fitted on
every other row), operators recorded on one H200, NCCL on 4 GPUs and in sizes that a fit on the others leaves
out, published serving and training rows. Here every row is judged by the intervals of all others, without
those of the same recording, program or exchange; pairs of steps without all pairs of the first. A kernel's
group is its rung, kind, size, whether it lies outside of what was measured, and system; groups with fewer
than 20 rows have the interval of a wider one, made as wide as what they hold themselves. Percentiles are
those of n + 1 rows, so that a further one lies within in 90 % of cases. Of fewer than 20 rows each is 5 % or
more, and chance decides; of groups that stand alone nine of ten lie within by the way they are made, so that
this is a test of those that do not. Between nodes nothing
but DeepEP's exchange was measured: its error on 8 nodes by fits on 1 and 2 stands for all collectives there,
in both directions, and results say "modelled, not measured". A host that launches kernels at modelled costs
has the residuals of captured programs that launches bound, measured on one H200 in several sessions. `pair`
is what one published step is off more than another, which counts for the part of two steps that differs.
Tests fail where less than 80 % of 20 rows or more are within, by this table and by a sample of the rows
themselves."""
