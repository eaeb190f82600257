"""Captures every program at 2, 8 and 512 ranks, validates and simulates it.

`python capture_all.py [RANKS…] [NAME…] [--jobs N]` does so for some numbers of ranks or some programs, N at
a time.

Programs whose packages are not installed are listed as such and not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import idioms  # noqa: E402 - beside this file

RANKS = (2, 8, 512)


def missing(name: str) -> list[str]:
    """Packages that a program needs and that are not installed."""

    def is_there(package: str) -> bool:
        try:
            return find_spec(package) is not None
        except ModuleNotFoundError:
            return False

    return [package for package in idioms.SOURCES[name][1] if not is_there(package)]


def outcome(name: str, ranks: int) -> str:
    """What became of a program at a number of ranks: `ok`, or what is wrong."""
    import chakrakit as ck
    from chakrakit.sources.capture import capture_command

    command = ["python", str(HERE / "idioms.py"), name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            capture_command(
                command,
                folder + "/out",
                ranks=ranks,
                device="h200",
                step_ends=idioms.ENDS.get(name, ""),
            )
            found = ck.validate(folder + "/out")
            if not found.ok:
                return f"not valid: {found}"[:300]
            run = ck.simulate(folder + "/out", machine=f"dgx-h200:{-(-ranks // 8)}")
        except ck.ChakraError as error:
            return str(error)
        return "ok" if run.makespan_ns > 0 else "takes no time"


def outcomes(name: str, worlds: list[int]) -> tuple[dict[int, str], float]:
    """What is wrong with a program, by the number of ranks, and the seconds that it took."""
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    every = {ranks: outcome(name, ranks) for ranks in worlds}
    return {r: text for r, text in every.items() if text != "ok"}, time.monotonic() - begin


def main(arguments: list[str]) -> int:
    """Print a line for each program and how many are captured; the number of those that are not."""
    jobs = 1
    if "--jobs" in arguments:
        at = arguments.index("--jobs")
        jobs = int(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    names = [a for a in arguments if not a.isdigit()] or list(idioms.PROGRAMS)
    worlds = [int(a) for a in arguments if a.isdigit()] or list(RANKS)
    failed, left_out = [], [name for name in names if missing(name)]
    for name in left_out:
        print(f"{name}: not run, needs {', '.join(missing(name))}", flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        running = {n: pool.submit(outcomes, n, worlds) for n in names if n not in left_out}
        for name, future in running.items():
            wrong, seconds = future.result()
            failed += [name] if wrong else []
            print(f"{name}: {wrong or 'ok'} ({seconds:.1f} s)", flush=True)
    ran = len(names) - len(left_out)
    print(f"{ran - len(failed)} of {ran} captured, valid and simulated; {len(left_out)} not run")
    return len(failed)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
