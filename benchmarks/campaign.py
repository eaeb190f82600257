"""One history of a campaign: Llama 3's failures over 90 days on 2,048 nodes, in CPU time.

python benchmarks/campaign.py [HISTORIES]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from chakrakit.campaigns import read_job
from chakrakit.campaigns.history import JobHistory

EXAMPLE = Path(__file__).parents[1] / "examples" / "campaigns" / "llama3.yaml"


def main(histories: int = 100) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(EXAMPLE.read_text().replace("days: 54", "days: 90"))
        plan = read_job(path).plan
    began = time.process_time()
    outcomes = [JobHistory(plan, f"0/{number}").run() for number in range(histories)]
    spent = (time.process_time() - began) / histories
    failures = sum(sum(o.failures.values()) for o in outcomes) / histories
    days = sum(o.seconds for o in outcomes) / histories / 86400
    print(f"{days:.0f} days with {failures:.0f} failures: {spent * 1e3:.1f} ms per history")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
