"""Communication of two ranks that disagree, done for real between two processes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.replayer import ReplayOptions, export
from chakrakit.replayer.runner.limits import ReplayError, read_plan
from chakrakit.replayer.session import prepare
from chakrakit.trace.model import CollectiveType
from fuzz.formats.replays import limit_machine, mutate_plan
from fuzz.fuzz_format import Format
from fuzz.mutation import gzipped, mutate_json

_TIMEOUT_S = 3.0
_SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": _TIMEOUT_S}
_OVER_S = 10.0
_REFUSED, _RAISED = 2, 3
_CRASHED = re.compile(r"Current thread .*\n((?:  File .*\n)*)")


def _talk(folder: Path) -> None:
    """Two ranks that do every collective and send a message."""
    bodies = []
    for rank in (0, 1):
        t = ck.TraceBuilder()
        last = t.comp("begin", duration_ns=1000)
        for kind in (
            CollectiveType.ALL_REDUCE,
            CollectiveType.ALL_GATHER,
            CollectiveType.REDUCE_SCATTER,
            CollectiveType.ALL_TO_ALL,
            CollectiveType.BROADCAST,
            CollectiveType.REDUCE,
        ):
            last = t.collective(kind.name, kind, 4096, deps=[last], pg_name="1")
        move = t.send if rank == 0 else t.recv
        last = move("message", 0, 1, 64, tag=1, deps=[last])
        t.collective("end", CollectiveType.BARRIER, 0, deps=[last], pg_name="1")
        bodies.append(t.build())
    ck.write(ck.TraceSet(bodies, groups=ck.Groups({"1": (0, 1)})), folder / "w.N.json")


def _plans(folder: Path) -> None:
    place = folder.parent / "talk"
    place.mkdir()
    _talk(place)
    export(str(place / "w"), folder / "replay", ReplayOptions(mode="comm"))


def _compile(folder: Path) -> list[object]:
    return list(prepare(ck.read(folder / "w"), ReplayOptions(mode="comm")).plans)


def _compile_and_run(folder: Path) -> None:
    out = folder.parent / "out"
    export(str(folder / "w"), out, ReplayOptions(mode="comm"))
    _run_ranks(out)


def _read_plans(folder: Path) -> None:
    for plan in sorted((folder / "replay").glob("plan_*")):
        try:
            read_plan(plan)
        except ReplayError as error:
            raise ChakraError(str(error)) from None


def _run_plans(folder: Path) -> None:
    _run_ranks(folder / "replay")


def _run_ranks(folder: Path) -> None:
    """Each rank in a child of this process, which has PyTorch already; the worst end is that of both."""
    import torch  # noqa: F401 - once, before the children

    plans = sorted(folder.glob("plan_*.json.gz"))[:4]
    with tempfile.TemporaryDirectory() as scratch:
        children = {_child(p, i, len(plans), Path(scratch)): i for i, p in enumerate(plans)}
        ends = _ends(children)
        said = "\n".join(f.read_text() for f in Path(scratch).glob("*.txt"))
        crashes = {rank: (Path(scratch) / f"{rank}.crash").read_text() for rank in ends}
    for rank, status in ends.items():
        if os.WIFSIGNALED(status) and not died_in_gloo(os.WTERMSIG(status), crashes[rank]):
            raise RuntimeError(f"rank {rank} died of signal {os.WTERMSIG(status)}: {crashes[rank]}")
        if os.WEXITSTATUS(status) == _RAISED:
            raise RuntimeError(f"rank {rank}: {said}")
    if any(ends.values()):
        raise ChakraError("refused")


def died_in_gloo(number: int, crash: str) -> bool:
    """Whether it was gloo that ended a rank, by what `faulthandler` said of it.

    gloo aborts a rank whose partner sends more or less than it expects, and now and then one of its threads
    is still reading when it does. A rank has no native threads but gloo's, so that a crash outside Python's
    threads is gloo's, and so is one inside a call of `torch.distributed`. Any other is ours.
    """
    if number not in (signal.SIGABRT, signal.SIGSEGV) or not crash.startswith("Fatal Python error"):
        return False
    frames = _CRASHED.search(crash)
    return frames is None or "/torch/distributed/" in frames[1].partition("\n")[0]


def _child(plan: Path, rank: int, ranks: int, scratch: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.setitimer(signal.ITIMER_PROF, 0)
    crash = (scratch / f"{rank}.crash").open("w")
    faulthandler.enable(crash)
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(ranks), "CHAKRA_REPLAY_STORE": str(scratch / "store"),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    code = _RAISED
    try:
        code = _rank(plan)
    except BaseException:
        (scratch / f"{rank}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _rank(path: Path) -> int:
    import torch

    from chakrakit.replayer.runner.emulate import run_emulation
    from chakrakit.replayer.runner.measure import run_plan

    torch.set_num_threads(1)  # with a pool, the crash of an operator would look like gloo's
    limit_machine()
    try:
        plan = read_plan(path)
        run = run_emulation if "durations" in plan else run_plan
        run(plan, _SETTINGS, None)
    except ReplayError:
        return _REFUSED
    return 0


def _ends(children: dict[int, int]) -> dict[int, int]:
    """How each rank ended; when one has failed, the others may end as well, as the supervisor sees to."""
    ends: dict[int, int] = {}
    deadline = time.monotonic() + _TIMEOUT_S + _OVER_S
    left = dict(children)
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in left:
            ends[left.pop(pid)] = status
        elif not pid:
            time.sleep(0.005)
        failed = any(ends.values())
        if left and (failed or time.monotonic() > deadline):
            for other in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            if not failed:
                raise RuntimeError(f"ranks {sorted(left.values())} never end")
            return ends
    return ends


RANKS = (
    [
        Format(
            "replayed-traces", _talk, {"*": mutate_json}, _compile, (_compile_and_run,), share=0.2
        ),
        Format(
            "replayed-ranks",
            _plans,
            {"replay/plan*": gzipped(mutate_plan)},
            _read_plans,
            (_run_plans,),
            share=1.0,
        ),
    ]
    if find_spec("torch")
    else []
)
