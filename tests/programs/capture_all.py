"""Captures every program at 2, 8 and 512 ranks, validates and simulates it.

`python capture_all.py [RANKS…] [NAME…]` does so for some numbers of ranks, or for some programs.

Programs whose packages are not installed are listed as such and not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
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


def main(arguments: list[str]) -> int:
    """Print a line for each program and how many are captured; the number of those that are not."""
    names = [a for a in arguments if not a.isdigit()]
    worlds = [int(a) for a in arguments if a.isdigit()] or RANKS
    warnings.simplefilter("ignore")
    failed, left_out = [], []
    for name in names or list(idioms.PROGRAMS):
        if missing(name):
            left_out.append(name)
            print(f"{name}: not run, needs {', '.join(missing(name))}", flush=True)
            continue
        begin = time.process_time(), time.monotonic()
        outcomes = {ranks: outcome(name, ranks) for ranks in worlds}
        wrong = {ranks: text for ranks, text in outcomes.items() if text != "ok"}
        failed += [name] if wrong else []
        print(f"{name}: {wrong or 'ok'} ({time.monotonic() - begin[1]:.1f} s)", flush=True)
    ran = len(names or idioms.PROGRAMS) - len(left_out)
    print(f"{ran - len(failed)} of {ran} captured, valid and simulated; {len(left_out)} not run")
    return len(failed)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
