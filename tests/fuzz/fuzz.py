"""Feeds mutated files of every format to the commands that read them.

    python tests/fuzz/fuzz.py --runs 1000 kineto machine

Workers are processes with a limit on memory and on the time of each input. What crashed, hung, raised an
error nobody meant or took too much memory is listed once per place, with the input kept in `--keep`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from fuzz.formats import FORMATS  # noqa: E402
from fuzz.fuzz_format import Format  # noqa: E402
from fuzz.worker import Bench, main_of_worker  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if anything was found."""
    given = _arguments(arguments)
    names = given.formats or list(FORMATS)
    last = given.first + given.runs
    if given.worker:
        share = {} if given.share is None else {"share": given.share}
        jobs = [(replace(FORMATS[n], **share), range(b, last)) for n, b in map(_begin, names)]
        main_of_worker(jobs)
        return 0
    if given.input is not None:
        print(keep(FORMATS[names[0]], given.input, given.keep))
        return 0
    found: list[dict[str, Any]] = []
    for together in [names] if given.together else [[name] for name in names]:
        begun = time.monotonic()
        here = run(together, given.first, last, given.share)
        print(f"{', '.join(together)}: {len(here)} found, {time.monotonic() - begun:.0f} s")
        show(here)
        sys.stdout.flush()
        found += here
    for one in _first_of_each(found) if given.keep else ():
        keep(FORMATS[one["format"]], one["at"], given.keep)
    return 1 if found else 0


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)}; all by default")
    parser.add_argument("--runs", type=int, default=1000, help="inputs of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--share", type=float, help="of inputs that go on to a second command")
    parser.add_argument("--together", action="store_true", help="one worker for all formats")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that found something")
    parser.add_argument("--input", type=int, help="only write this input of the format to --keep")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def _begin(word: str) -> tuple[str, int]:
    """`kineto:17`: the format and its first input."""
    name, _, begin = word.partition(":")
    return name, int(begin or 0)


def run(
    names: list[str], first: int, last: int, share: float | None = None
) -> list[dict[str, Any]]:
    """Findings of the numbered inputs; a worker that died is replaced after the input that killed it."""
    found: list[dict[str, Any]] = []
    left = [f"{name}:{first}" for name in names]
    while left:
        said, end, trace = _worker(left, last, share)
        found += [s for s in said if "kind" in s]
        if end == 0:
            break
        if not said:
            raise RuntimeError(f"{left[0]}: its valid seeds fail\n{trace}")
        dead = said[-1]
        kind = "hang" if end == -signal.SIGPROF or "Timeout" in trace else f"crash ({end})"
        found.append({**dead, "kind": kind, "where": _innermost(trace), "trace": trace})
        left = [f"{dead['format']}:{dead['at'] + 1}", *_after(left, dead["format"])]
    return found


def _after(left: list[str], name: str) -> list[str]:
    return left[[_begin(w)[0] for w in left].index(name) + 1 :]


def _worker(
    words: list[str], last: int, share: float | None
) -> tuple[list[dict[str, Any]], int, str]:
    """What a worker wrote (its findings, and where it was last), how it ended, and what it said of that."""
    command = [sys.executable, __file__, "--worker", "--runs", str(last), *words]
    command += [] if share is None else ["--share", str(share)]
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as lines:
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        ended = subprocess.run(command, stdout=lines, stderr=errors, env=environment, check=False)
        lines.seek(0)
        errors.seek(0)
        said = [json.loads(line) for line in lines if line.endswith("\n")]
        return said, ended.returncode, errors.read()[-8000:]


def _innermost(trace: str) -> str:
    lines = [line.strip() for line in trace.splitlines() if "chakrakit" in line]
    return lines[0] if lines else trace.strip()[-200:]


def _first_of_each(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    firsts: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in found:
        firsts.setdefault((one["format"], one["kind"], one["where"]), one)
    return list(firsts.values())


def show(found: list[dict[str, Any]]) -> None:
    """One entry per place, with how often it was reached."""
    often = Counter((f["format"], f["kind"], f["where"]) for f in found)
    for one in _first_of_each(found):
        count = often[one["format"], one["kind"], one["where"]]
        print(
            f"  {one['format']} #{one['at']} ×{count}: {one['kind']} at {one['where']}: {one.get('said', '')}"
        )


def keep(format_: Format, number: int, folder: Path | None) -> Path:
    """The numbered input as a folder."""
    target = (folder or Path.cwd()) / f"{format_.name}-{number}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(format_, Path(place), lambda _said: None)
        with bench.mutated(number):
            shutil.copytree(bench.seeds, target)
    return target


if __name__ == "__main__":
    sys.exit(main())
