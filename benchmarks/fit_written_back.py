"""Fits what cold times of the H200's profile contain besides products.

    python benchmarks/fit_written_back.py DATA

The profile's products were timed right after a kernel that wrote all of the cache. Reading weights then
writes those lines back to memory, for at most as long as the whole cache takes: no step pays it whose kernels
write little, as one of decoding. DATA/kernels has products on the same card without it (aiconfigurator
095f58a). Fitted on every other product of up to 256 rows within the profile's sizes; the rest are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from chakrakit.machines.device import WrittenBack, packaged_profile
from chakrakit.operators import gemm_operation

MOST_ROWS = 256
"""Of products that write little."""

WHOLE_US = 11.3
"""The 50 MB of an H200's cache at the 4.41 TB/s that streaming kernels reach."""


def main(data: str) -> int:
    """Prints the constants, and the errors of the rows left out before and after."""
    profile = packaged_profile("h200")
    rows, cold, truth, waits = [], [], [], []
    table = pq.read_table(Path(data) / "kernels" / "gemm_h200_bf16.parquet").to_pylist()
    for row in (r for r in table if r["m"] <= MOST_ROWS):
        operation = gemm_operation(row["m"], row["n"], row["k"])._replace(table="gemm.nt")
        timed = profile.as_timed(operation)
        if timed is not None and not timed.extrapolated:
            rows.append(operation)
            cold.append(timed.us)
            truth.append(row["latency_us"])
            waits.append(profile.waits_for_memory(operation))
    before, measured = np.array(cold), np.array(truth)

    def off(back: WrittenBack) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        each = np.array([max(0.0, back.us_of(o)) for o in rows])
        return (before - np.array(waits) * each) / measured - 1

    tried = [WrittenBack(WHOLE_US, size * 1e6) for size in range(20, 401, 10)]
    best = min(tried, key=lambda back: float(np.abs(off(back)[::2]).mean()))
    large = np.array([o.bytes > profile.profile.cache_bytes / 2 for o in rows])
    for name, some in (("all", large | ~large), ("those of more than half the cache", large)):
        left_out = some[1::2]
        for word, errors in (("before", before / measured - 1), ("after", off(best))):
            median = float(np.median(np.abs(errors[1::2][left_out])))
            print(f"{name}, {left_out.sum()} left out, {word}: median {median:.1%}")
    print(best)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
