"""Runs the studies of published systems, quick and full, records their tables and renews their pages.

python benchmarks/studies.py [ID …] [--jobs N]     measures and records
python benchmarks/studies.py --pages               only the list and the pages, from recorded tables
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from chakrakit.parallel import Workers
from chakrakit.published import list_studies, record, renew_list, run_study, study_modules
from chakrakit.views import write_studies

PAGES = Path(__file__).parents[1] / "docs" / "studies"
MOST_QUICK_S = 3.0
"""CPU seconds that a quick run may take."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--pages", action="store_true", help="measure nothing")
    parser.add_argument("--jobs", type=int, help="points at once in full runs")
    given = parser.parse_args()
    workers = Workers(jobs=given.jobs) if given.jobs else None
    for name in () if given.pages else given.ids or study_modules():
        began = time.process_time()
        run_study(name, quick=True)
        quick = time.process_time() - began
        mark = "" if quick <= MOST_QUICK_S else f", over {MOST_QUICK_S} s"
        began = time.process_time()
        result = record(name, workers=workers)
        full = time.process_time() - began
        print(f"{name}: {result.verdict}; quick {quick:.1f} s{mark}, full {full:.1f} s", flush=True)
    write_studies(*_renewed(), PAGES)


def _renewed():
    results = renew_list()
    return list_studies(), results


if __name__ == "__main__":
    main()
