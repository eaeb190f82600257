"""Runs the studies of published systems, quick and full, records their tables and renews their pages.

python benchmarks/studies.py [ID …] [--jobs N]     measures and records
python benchmarks/studies.py --pages               only the list and the pages, from recorded tables
"""

from __future__ import annotations

import argparse
import time
import traceback
from pathlib import Path

from chakrakit.parallel import Workers
from chakrakit.published import (
    TABLES,
    list_studies,
    quick_seconds,
    record,
    renew_lines,
    study_modules,
)
from chakrakit.views import write_studies

PAGES = Path(__file__).parents[1] / "docs" / "studies"
MOST_QUICK_S = 3.0
"""CPU seconds that a quick run may take."""
MOST_KB = 10
"""What a study's table may have: ninety of them are to stay below 1 MB."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--pages", action="store_true", help="measure nothing")
    parser.add_argument("--jobs", type=int, help="points at once in full runs")
    given = parser.parse_args()
    workers = Workers(jobs=given.jobs) if given.jobs else None
    failed = 0
    for name in () if given.pages else given.ids or study_modules():
        failed += not _recorded(name, workers)
    write_studies(*_renewed(), PAGES)
    raise SystemExit(f"{failed} studies could not be recorded" if failed else 0)


def _recorded(name: str, workers: Workers | None) -> bool:
    """Whether a study could be recorded; what stopped it is printed, and the others go on."""
    began = time.process_time()
    try:
        result = record(name, workers=workers)
    except Exception:
        print(f"{name}: {traceback.format_exc()}", flush=True)
        return False
    print(f"{name}: {result.verdict}; {_costs(name, time.process_time() - began)}", flush=True)
    return True


def _costs(name: str, both_s: float) -> str:
    table = TABLES / f"{name}.parquet"
    quick_s, size = quick_seconds(table), table.stat().st_size / 1000
    slow = "" if quick_s <= MOST_QUICK_S else f", over {MOST_QUICK_S}"
    large = "" if size <= MOST_KB else f", over {MOST_KB}"
    return f"quick {quick_s:.1f} s{slow}, full {both_s - quick_s:.1f} s, {size:.1f} KB{large}"


def _renewed():
    results = renew_lines()
    return list_studies(), results


if __name__ == "__main__":
    main()
