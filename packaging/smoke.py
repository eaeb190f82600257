"""What must work in an environment that holds the built package and nothing of its sources."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import chakrakit as ck


def main() -> None:
    """Generates, writes, reads, simulates and analyzes, in Python and from the shell."""
    with tempfile.TemporaryDirectory() as folder:
        traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
        ck.write(traces, Path(folder) / "w.N.et")
        assert ck.read(Path(folder) / "w").world_size == 2
        simulated = ck.simulate(Path(folder) / "w", "dgx-h100", output=Path(folder) / "run")
        assert simulated.summary.makespan_s > 0
        shell = [
            str(Path(sys.executable).with_name("chakra")),
            "analyze",
            f"{folder}/run",
            "--json",
        ]
        assert subprocess.run(shell, check=True, capture_output=True).stdout.startswith(b"{")
    print(f"chakrakit {ck.__version__} works")  # noqa: T201


if __name__ == "__main__":
    main()
