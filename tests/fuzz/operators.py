"""Calls every overload that a replay may call with arguments of all sorts, behind the walls of a rank.

    python tests/fuzz/operators.py --calls 100000
    python tests/fuzz/operators.py --calls 20000 --device cuda    # on a GPU, where only PyTorch need be

Each call is a plan of one step. Plans run one after the other in a process that is confined as a rank's is;
where it dies, another one goes on with the next. What must not happen: an error that is none of a plan's (a
traceback), an end by anything but a signal, a call that outlasts its processor time. What may: operators that
crash in there. They are listed, and cost nothing else. On a GPU an operator that leaves the device in an
error is such a crash: everything after it in the process fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

if importlib.util.find_spec("torch") is None:
    print("operators: not called, since PyTorch is not here")
    sys.exit(0)
import torch

if importlib.util.find_spec("msgspec") is None:
    # Where chakrakit cannot be imported: the runner needs nothing of it.
    _SOURCES = Path(__file__).resolve().parents[2] / "src" / "chakrakit"
    for _name, _folder in (("chakrakit", _SOURCES), ("chakrakit.replayer", _SOURCES / "replayer")):
        sys.modules[_name] = ModuleType(_name)
        sys.modules[_name].__path__ = [str(_folder)]

from chakrakit.replayer.runner.confine import confine_calls, confine_files, limit_memory, limit_time
from chakrakit.replayer.runner.guard import MemoryBudget
from chakrakit.replayer.runner.limits import ALLOWED, ReplayError, blamed, check_plan
from chakrakit.replayer.runner.program import PlanProgram
from chakrakit.replayer.runner.storages import make_externals

ROOM = 1 << 28
CALL_S, LONGEST_S = 2.0, 2.2
"""What a call may take of processor time, and with the making of its plan."""
TYPES = (
    "float32",
    "float64",
    "bfloat16",
    "float16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
)
ODD = (0, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("none", "tanh", "mean", "sum", "floor", "trunc", "", "constant", "amax", "x" * 50)
FILLS = ("normal", "positive", "zero", "one", "unset", "index")


class Plans:
    """Plans of one call each, the same for the same number."""

    def __init__(self, seed: int, device: str = "cpu") -> None:
        self.seed, self.device = seed, device
        self.overloads = sorted(ALLOWED)

    def make(self, number: int) -> dict[str, Any]:
        """The plan of a call; overloads take turns."""
        dice = random.Random(f"{self.seed} {number}")
        return _Made(dice, self.overload(number), self.device).plan

    def overload(self, number: int) -> str:
        """The overload that a call is of."""
        return self.overloads[number % len(self.overloads)]


class _Made:
    """Arguments for one overload, after its schema: mostly such that fit together, some that do not."""

    def __init__(self, dice: random.Random, overload: str, device: str) -> None:
        self.dice, self.device = dice, device
        self.shape = [dice.choice((1, 2, 3, 4, 8)) for _ in range(dice.randint(0, 4))]
        self.dtype = dice.choice(TYPES[:3] if dice.random() < 0.7 else TYPES)
        self.externals: list[dict[str, Any]] = []
        name, _, kind = overload.partition(".")
        schema = getattr(getattr(torch.ops.aten, name[6:]), kind or "default")._schema
        step: dict[str, Any] = {
            "do": "call",
            "op": name,
            "overload": kind,
            "args": [],
            "kwargs": {},
        }
        for argument in schema.arguments:
            if argument.has_default_value() and dice.random() < 0.3:
                break
            value = self.value(str(argument.type))
            if not argument.kwarg_only:
                step["args"].append(value)
            elif value is not None:
                step["kwargs"][argument.name] = value
        step["outs"] = [None] * max(1, len(schema.returns))
        self.plan = {
            "rank": 0,
            "world": 1,
            "device": device,
            "groups": [],
            "slots": len(self.externals),
            "externals": self.externals,
            "steps": [step],
        }

    def value(self, kind: str) -> Any:
        """One argument; now and then of another kind than is wanted."""
        dice = self.dice
        if dice.random() < 0.02:
            return dice.choice((None, 1, -7, 0.5, True, [1, 2], [], "x", {"dtype": "int8"}))
        if kind.startswith("Optional["):
            return None if dice.random() < 0.5 else self.value(kind[9:-1])
        if kind.startswith("List["):
            return [self.value(kind[5:-1]) for _ in range(dice.choice((0, 1, 2, 2, 3, 4)))]
        if kind == "Tensor":
            return self.tensor()
        if kind == "int":
            return (
                dice.choice(ODD) if dice.random() < 0.1 else dice.choice((0, 0, 1, 1, 2, 3, 4, -1))
            )
        if kind in ("float", "number"):
            return dice.choice((0.0, 0.5, 1.0, -1.0, 1e300, float("nan"), float("inf"), *ODD[:4]))
        if kind == "bool":
            return dice.random() < 0.5
        if kind == "Device":
            return {"device": self.device}
        return dice.choice(TEXTS) if kind == "str" else None

    def tensor(self) -> dict[str, int]:
        """A slot with a tensor of mostly the same shape and type as the others."""
        dice = self.dice
        shape = (
            list(self.shape)
            if dice.random() < 0.7
            else [dice.choice((0, 1, 2, 3, 5, 64)) for _ in range(dice.randint(0, 5))]
        )
        dtype = self.dtype if dice.random() < 0.8 else dice.choice(TYPES)
        strides, count = [], 1
        for size in reversed(shape):
            strides.insert(0, 0 if dice.random() < 0.03 else count)
            count *= max(size, 1)
        if dice.random() < 0.02:  # many elements of few bytes
            shape, strides = [dice.choice((1 << 20, 1 << 33, 1 << 50))], [0]
        integers = dtype.startswith(("int", "uint"))
        kinds = FILLS[2:] if integers else FILLS[:4]
        fill: dict[str, Any] = {"kind": dice.choice(kinds if dtype != "bool" else FILLS[2:4])}
        if fill["kind"] == "index":
            fill["limit"] = dice.choice((1, 2, 4, 100))
        slot = len(self.externals)
        size = max(count, 1) * 16
        views = [[slot, dtype, shape, strides, 0]]
        self.externals.append(
            {"bytes": size, "device": self.device, "dtype": dtype, "fill": fill, "views": views}
        )
        return {"slot": slot}


def call(plan: dict[str, Any]) -> str:
    """Run a plan of one call; "called" or "stand-in"; a ReplayError where a rank would end with one."""
    device = plan["device"]
    with blamed("the plan cannot be replayed"), torch.inference_mode():
        check_plan(plan)
        budget = MemoryBudget({"cpu": ROOM, "cuda": ROOM})
        program = PlanProgram(torch, plan, device, [], budget)
        make_externals(torch, plan, program.slots, device, program.guard)
        program.check(lambda step: limit_time(CALL_S))
        program.run()
    return "stand-in" if program.not_covered else "called"


def child(plans: Plans, first: int, last: int, notes: Path) -> None:
    """Behind the walls: calls one after the other, each noted before it is made and after."""
    on_device = plans.device == "cuda"
    walls = confine_files(notes, [notes], on_device)
    if on_device:
        torch.ones(1, device="cuda")  # the driver starts before calls of the kernel are confined
    walls = confine_calls(network=False) and walls
    limit_memory(ROOM, on_device)
    with (notes / "notes").open("a", buffering=1) as file:
        file.write(json.dumps(["walls", walls]) + "\n")
        for number in range(first, last):
            file.write(json.dumps(["begin", number]) + "\n")
            try:
                outcome = call(plans.make(number))
            except ReplayError:
                outcome = "refused"
            except Exception as error:
                outcome = f"traceback: {type(error).__name__}: {str(error)[:200]}"
            if on_device and not _works():
                os._exit(_DEVICE_ERROR)
            file.write(json.dumps(["end", outcome, time.process_time()]) + "\n")


_DEVICE_ERROR = 77
"""How a process ends whose device takes no more work."""


def _works() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _ending(status: int) -> str:
    if status & 127:
        return signal.Signals(status & 127).name
    return "device error" if status >> 8 == _DEVICE_ERROR else f"code {status >> 8}"


def main() -> int:
    """Gives 1 if something happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    meta = torch.ones(
        2, device="meta"
    )  # what PyTorch loads when it first does this, it need not load in each
    torch.ops.aten.native_layer_norm(meta.softmax(0) + meta, [2], meta, meta, 1e-5)
    plans, outcomes, deaths = (
        Plans(given.seed, given.device),
        Counter[str](),
        Counter[tuple[str, str]](),
    )
    bad: list[str] = []
    number, longest = 0, 0.0
    while number < given.calls:
        with tempfile.TemporaryDirectory() as folder:
            pid = os.fork()
            if not pid:
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                child(plans, number, given.calls, Path(folder))
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            notes = [json.loads(line) for line in (Path(folder) / "notes").read_text().splitlines()]
        if not notes[0][1]:
            bad.append("the walls did not stand")
        spent = 0.0
        for kind, what, *more in notes[1:]:
            if kind == "begin":
                number, begun = what + 1, spent
                continue
            outcomes[what.partition(":")[0]] += 1
            longest, spent = max(longest, more[0] - begun), more[0]
            if what.startswith("traceback"):
                bad.append(f"{plans.overload(number - 1)}, call {number - 1}: {what}")
        if status:
            name = _ending(status)
            deaths[plans.overload(number - 1), name] += 1
            if not status & 127 and status >> 8 != _DEVICE_ERROR:
                bad.append(f"{plans.overload(number - 1)}, call {number - 1}: {name}")
    if longest > LONGEST_S:
        bad.append(f"a call took {longest:.1f} s; it should have been ended after {CALL_S:g}")
    print(f"{given.calls:,} calls over {len(plans.overloads)} overloads: {dict(outcomes)}")
    print(
        f"the longest took {longest:.1f} s of processor time; deaths behind the walls: {sum(deaths.values())}"
    )
    for (overload, how), count in deaths.most_common():
        print(f"  {overload} {how} {count}")
    print("\n".join(bad[:50]) or "nothing got out")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
