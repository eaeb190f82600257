"""`python run.py`: replays the plans beside it, all ranks on this machine or one under torchrun."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from .confine import confine_files
from .limits import ReplayError, check_memory, host_memory, read_plan
from .supervise import STORE, local_ranks, say, shared_position, supervise, watch_parent

_HEAR_S = 0.5
"""Seconds in which the starter, which looks every 0.02 s, tells who died first."""
_LEAST_BYTES = 64 << 20
"""Memory of a rank that does nothing, of which most of PyTorch's is shared: rounded down from 100 MB."""
_UNDER_TORCHRUN = ("RANK", "WORLD_SIZE")


def main(folder: Path) -> int:
    """Runs from the command line; gives the exit code."""
    settings = _arguments(folder)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would talk of every recording
    try:
        if settings["worker"]:
            return _one_rank(folder, settings)
        watch_parent()
        signal.signal(signal.SIGTERM, _end)
        launched = all(name in os.environ for name in _UNDER_TORCHRUN)
        ranks = [{"RANK": os.environ["RANK"]}] if launched else local_ranks(_ranks(folder))
        return supervise(folder, ranks, settings)
    except ReplayError as error:
        _complain(str(error), settings)
        return 2
    except Exception as error:
        if "CHAKRA_REPLAY_DEBUG" in os.environ:
            raise
        _complain(f"{type(error).__name__}: {error}", settings)
        return 1


def _end(number: int, _frame: object) -> None:
    """A termination ends what was started too: `finally` runs, as for any other end."""
    raise SystemExit(128 + number)


def _complain(text: str, settings: dict[str, Any]) -> None:
    """A lost connection is mostly another rank's death, of which the starter tells in a moment."""
    if settings["worker"]:
        time.sleep(_HEAR_S)
    who = f"rank {os.environ['RANK']}: " if settings["worker"] else ""
    say(f"{who}error: {text}")


def _arguments(folder: Path) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description="Replays the trace in this folder.")
    parser.add_argument("--iterations", type=int, default=10, help="iterations that are timed")
    parser.add_argument("--warmup", type=int, default=3, help="iterations before that")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds to wait for a rank")
    parser.add_argument("--out", type=Path, default=folder / "result", help="where results go")
    parser.add_argument("--no-profile", action="store_true", help="no recording of an iteration")
    parser.add_argument(
        "--allow-generated-code",
        action="store_true",
        help="run the kernels in the plans that a compiler generated: only for recordings that you trust",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args()
    if found.iterations < 1 or found.warmup < 0 or found.timeout <= 0:
        parser.error("iterations must be 1 or more, warm-up 0 or more, the timeout above 0")
    return {
        "iterations": found.iterations,
        "warmup": found.warmup,
        "timeout_s": found.timeout,
        "out": found.out,
        "profile": not found.no_profile,
        "generated": found.allow_generated_code,
        "worker": found.worker,
    }


def _ranks(folder: Path) -> int:
    count = len(list(folder.glob("plan_*.json.gz")))
    if not count:
        raise ReplayError(f"{folder} has no plan_N.json.gz")
    check_memory(count * _LEAST_BYTES, host_memory(), "this machine")
    return count


def _one_rank(folder: Path, settings: dict[str, Any]) -> int:
    """In a process of its own, which sees no more than it needs before anything of the plan is done."""
    rank = int(os.environ["RANK"])
    plan = read_plan(folder / f"plan_{rank}.json.gz")
    if int(os.environ["WORLD_SIZE"]) != plan["world"] or plan["rank"] != rank:
        raise ReplayError(f"the plans are for {plan['world']} ranks; start as many")
    out: Path = settings["out"]
    settings["position"] = shared_position()
    own = [out, Path(os.environ["HOME"]), Path(os.environ.get(STORE, os.environ["HOME"])).parent]
    if plan["backend"] == "nccl" and plan["world"] > 1:
        own.append(Path("/dev/shm"))  # ranks of one machine hand over there
    walled = confine_files(folder, own, plan["device"] == "cuda")
    settings["walls"] = ["files"] if walled else []
    watch_parent()  # a thread, and threads begin behind the walls that are there
    signal.signal(signal.SIGTERM, _end)
    if "durations" in plan:
        from .emulate import run_emulation as run
    else:
        from .measure import run_plan as run
    found = run(plan, settings, out if settings["profile"] else None)
    _write(out / f"rank_{rank}.json", {**found, "walls": settings["walls"]})
    return 0


def _write(path: Path, found: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.replace(path)
