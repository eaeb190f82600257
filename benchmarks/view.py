"""`chakra view`: how long a run of 5 million nodes takes to open, and each answer while one moves in it.

    python benchmarks/view.py                 one rank of 5,000,000 nodes, then 50 ranks of 100,000
    python benchmarks/view.py RUN …           runs at hand

Opening is from the start of the command to the first window of the first rank; a browser adds what it
takes to start. Answers are timed as the page gets them, over HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

from analyze import make

PARTS = 1300
"""As many as a full screen asks for."""
MOVES = 200


def measure(path: str) -> str:
    began = time.monotonic()
    command = [str(Path(sys.executable).with_name("chakra")), "view", path]
    with subprocess.Popen(
        [*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE
    ) as server:
        try:
            address = server.stdout.readline().split()[0].decode()
            first = ask(address, "session")["sides"][0]["folds"][0][0]
            layout = ask(address, "rank", rank=first)
            window(address, first, layout, *layout["span"])
            opened, used = time.monotonic() - began, cpu_seconds(server.pid)
            times = moves(address, first, layout)
            meanwhile = moves_while_analyzing(address, first, layout)
        finally:
            server.terminate()
    return (
        f"{path}: open after {opened:.2f} s ({used:.2f} s CPU); "
        f"{spread(times)}; while the analysis runs: {spread(meanwhile)}"
    )


def spread(times: list[float]) -> str:
    """How long moves take."""
    return (
        f"{len(times)} moves: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms"
    )


def moves_while_analyzing(address: str, rank: int, layout: dict) -> list[float]:
    """Moves from the first request for the analysis until it is done, at least once around."""
    times: list[float] = []
    while ask(address, "section", name="Summary", side=0)["state"] == "running" or not times:
        times += moves(address, rank, layout)
    return times


def cpu_seconds(pid: int) -> float:
    """What a process has used so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(address: str, what: str, /, **given: object) -> dict:
    query = "&".join(f"{k.rstrip('_')}={v}" for k, v in given.items())
    with urlopen(f"{address}api/{what}?{query}") as answer:
        return json.load(answer)


def window(address: str, rank: int, layout: dict, begin: int, end: int) -> None:
    ask(
        address,
        "window",
        rank=rank,
        from_=begin,
        to=end,
        width=PARTS,
        first=0,
        last=len(layout["tracks"]),
    )


def moves(address: str, rank: int, layout: dict) -> list[float]:
    """Random windows, from all of the run to a few nodes; ms each."""
    begin, end = layout["span"]
    chosen = random.Random(0)
    times = []
    for _ in range(MOVES):
        length = max(int((end - begin) * 10 ** -chosen.uniform(0, 6)), 1000)
        at = chosen.randint(begin, max(end - length, begin))
        began = time.monotonic()
        window(address, rank, layout, at, at + length)
        times.append(1000 * (time.monotonic() - began))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", nargs="*")
    args = parser.parse_args()
    for path in args.runs:
        print(measure(path))
    for ranks, nodes in () if args.runs else ((1, 5_000_000), (50, 100_000)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{ranks}x{nodes}"
            make(path, ranks, nodes)
            print(measure(str(path)))


if __name__ == "__main__":
    main()
