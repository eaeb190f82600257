"""validate, query, analyze and link over a thousand ranks on two workers: peak memory of every process.

    python scale.py [RANKS]        1,024 by default

The ranks are those of Llama-3.1-70B (tp 8, pp 4, the rest dp), simulated and written as one Parquet file
per rank.
For `link`, a recorded pair of ranks is copied to 256, each a process of one world.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CHAKRA = [str(Path(sys.executable).parent / "chakra")]
SQL = "SELECT type, count(*) AS n, sum(duration_ns) AS ns FROM nodes GROUP BY type ORDER BY type"
COLLECTIVES = (
    "SELECT collective, count(*) AS n FROM collectives GROUP BY collective ORDER BY collective"
)


class Watch:
    """Peak memory and CPU time of a process and all that it starts, looked at 20 times a second."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peak: dict[int, int] = {}
        self.cpu: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(0.05):
            for pid in self._tree():
                self._look(pid)

    def _tree(self) -> list[int]:
        found = [self.pid]
        for pid in found:
            try:
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
            except OSError:
                continue
        return found

    def _look(self, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            clock = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        line = next((s for s in status.splitlines() if s.startswith("VmHWM")), None)
        if line is not None:
            self.peak[pid] = max(self.peak.get(pid, 0), int(line.split()[1]))
            self.cpu[pid] = (int(clock[11]) + int(clock[12])) / 100

    def close(self) -> str:
        self._done.set()
        self._thread.join()
        large = sorted((p for p in self.peak.items() if p[0] != self.pid), key=lambda p: -p[1])
        others = ", ".join(f"{kib / 1024:,.0f}" for _, kib in large if kib > 50_000)
        return (
            f"parent {self.peak.get(self.pid, 0) / 1024:,.0f} MiB, workers [{others}] MiB, "
            f"{sum(self.cpu.values()):.1f} CPU s"
        )


def measured(*arguments: str) -> bytes:
    began = time.perf_counter()
    with subprocess.Popen([*CHAKRA, *arguments], stdout=subprocess.PIPE) as process:
        watch = Watch(process.pid)
        assert process.stdout is not None
        out = process.stdout.read()
        process.wait()
        told = watch.close()
    shown = " ".join(a if len(a) < 30 else "…" for a in arguments)
    print(f"{shown:55s} {told}, {time.perf_counter() - began:.1f} s", flush=True)
    return out


def prepare(folder: Path, ranks: int) -> str:
    made, run, out = (str(folder / n) for n in ("made", "run", "ranks/r.N.parquet"))
    for arguments in (
        [
            "generate",
            "--model",
            "llama-3.1-70b",
            "--tp",
            "8",
            "--pp",
            "4",
            "--dp",
            str(ranks // 32),
            "--global-batch",
            str(ranks // 4),
            "--seq",
            "4096",
            "-o",
            made,
        ],
        [
            "simulate",
            made,
            "--machine",
            f"dgx-h100:{ranks // 8}",
            "--compute",
            "roofline",
            "-o",
            run,
        ],
        ["convert", run, out],
    ):
        subprocess.run([*CHAKRA, *arguments], check=True, stdout=subprocess.DEVNULL)
    return str(folder / "ranks")


def copies(folder: Path, ranks: int) -> str:
    """A recording of two ranks as one of many."""
    recorded = Path(__file__).parents[1] / "tests" / "data" / "pytorch" / "cnn_ddp_2"
    folder.mkdir()
    for rank in range(ranks):
        for kind in ("et", "kineto"):
            text = gzip.decompress((recorded / f"{kind}_{rank % 2}.json.gz").read_bytes()).decode()
            pid = re.search(r'"pid"\s*:\s*(\d+)', text)
            assert pid is not None
            text = re.sub(rf'("pid"\s*:\s*){pid[1]}\b', rf"\g<1>{100_000 + rank}", text)
            text = re.sub(r'("rank"\s*:\s*)\d+', rf"\g<1>{rank}", text)
            text = re.sub(r'(\\?"ranks\\?"\s*:\s*)\[0, 1\]', rf"\g<1>{list(range(ranks))}", text)
            text = re.sub(r'(\\?"(?:group|pg|world)_size\\?"\s*:\s*)2\b', rf"\g<1>{ranks}", text)
            (folder / f"{kind}_{rank}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    return str(folder)


def compared(name: str, *arguments: str) -> None:
    """Here and on two workers: the same answer."""
    alone = measured(*arguments, "--json")
    spread = measured(*arguments, "--json", "--jobs", "2")
    print(f"{name}: the same answer: {alone == spread}", flush=True)


def main(ranks: int = 1024) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = prepare(Path(name), ranks)
        compared("validate", "validate", path)
        compared("query nodes", "query", path, SQL)
        compared("query collectives", "query", path, COLLECTIVES)
        compared("analyze", "analyze", path)
        pairs = copies(Path(name) / "pairs", 256)
        alone = measured("link", pairs, "-o", f"{name}/alone", "--json", "--jobs", "1")
        spread = measured(
            "link", pairs, "-o", f"{name}/spread", "--json", "--jobs", "2", "--engine", "local"
        )
        print(f"link: the same answer: {alone == spread}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
