"""Whether a command has become slower: CPU seconds of two installations, in turns.

    python benchmarks/commands.py OLD NEW [--turns 5] [--only simulate …]

OLD and NEW are environments with chakrakit installed (`.venv`). Each command runs in both by turns, so that a
busy machine disturbs both alike, and the least of the turns counts: what disturbs only ever adds. Both read
the same inputs, which OLD makes. The claim is that no command is slower by more than a twentieth.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDING = Path(__file__).parents[1] / "tests" / "data" / "h200" / "moe_hf_mixtral"
CLAIM = 1.05
REQUESTS = "'poisson{rate=8,prompt=512,output=64,n=500}'"

INPUTS = [
    "chakra generate --model llama-3.1-8b --dp 8 --tp 4 --pp 2 -o generated/w",
    f"chakra link {RECORDING} -o linked",
    "chakra simulate generated/w --machine dgx-h100:8 -o run",
]
COMMANDS = {
    "import": 'python -c "import chakrakit"',
    "help": "chakra --help",
    "simulate --help": "chakra simulate --help",
    "info": "chakra info linked",
    "validate": "chakra validate linked",
    "convert": "chakra convert linked out.parquet",
    "export": "chakra export run out.json",
    "link": f"chakra link {RECORDING} -o out",
    "generate": "chakra generate --model llama-3.1-8b --dp 8 --tp 4 --pp 2 -o out/w",
    "transform": "chakra transform generated/w --pass 'scale-ranks{ranks=128}' -o out/w",
    "simulate": "chakra simulate generated/w --machine dgx-h100:8 -o out",
    "simulate --json": "chakra simulate generated/w --machine dgx-h100:8 --json",
    "collective": "chakra collective all-reduce --machine dgx-h200 --members 8 --sizes 1KiB:1GiB",
    "serve": f"chakra serve --model llama-3.1-8b --machine dgx-h100 --requests {REQUESTS}",
    "analyze": "chakra analyze linked",
    "analyze --json": "chakra analyze run --json",
    "compare": "chakra compare run run",
    "report": "chakra report linked -o out.html",
}


ONLY_NEW = {
    "analyze": " --no-advice",
    "analyze --json": " --no-advice",
    "simulate": " --compute roofline",
    "simulate --json": " --compute roofline",
}
"""Added for NEW, so that both do the same work: advice simulates other plans, and OLD gives none; OLD knew no
measured times of an H100, and took the roofline."""


def run(environment: Path, line: str, folder: str) -> float:
    """The CPU seconds of a command line; an error where it fails."""
    # Without compiled code on disk every run would compile the package anew, and measure that.
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    variables["PATH"] = f"{environment / 'bin'}:{variables['PATH']}"
    subprocess.run("rm -rf out out.*", shell=True, cwd=folder, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(line, shell=True, cwd=folder, env=variables, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{environment}: {line}\n{done.stderr.decode()[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(
    old: Path, new: Path, line: str, folder: str, turns: int, extra: str = ""
) -> tuple[float, float]:
    """The least CPU seconds of each of the two, after a run that is not counted."""
    seconds: dict[Path, list[float]] = {old: [], new: []}
    for turn in range(turns + 1):
        for environment in (old, new) if turn % 2 else (new, old):
            added = "" if environment == old else extra
            seconds[environment].append(run(environment, line + added, folder))
    return min(seconds[old][1:]), min(seconds[new][1:])


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("old", type=Path)
    arguments.add_argument("new", type=Path)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--same", action="store_true", help="the same words for both")
    arguments.add_argument("--only", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    options = arguments.parse_args()
    old, new = options.old.absolute(), options.new.absolute()
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        for line in INPUTS:
            run(old, line, folder)
        for name in options.only:
            added = "" if options.same else ONLY_NEW.get(name, "")
            before, after = least(old, new, COMMANDS[name], folder, options.turns, added)
            print(f"{name:16} {before:7.3f} s {after:7.3f} s  {after / before:5.2f}", flush=True)
            if after > CLAIM * before:
                slower.append(name)
    if slower:
        sys.exit(f"slower by more than {CLAIM - 1:.0%}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
