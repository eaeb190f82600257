"""What a plan must fulfil before anything is done: a plan is a file, and files are not trusted."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .collectives import FUNCTIONAL, REDUCTIONS, WAYS

FORMAT, VERSION = "chakra-replay", 1
_STEPS = ("call", "view", "collective", "wait", "stand_in", "kernel", "synchronize")
_LARGEST, _MOST_TIMES, _ROOM = 1 << 30, 100, 64 << 20
"""Bytes of a plan at most, and how far it may unpack: so many times its size, and some bytes more."""
_MOST_SLOTS = 1 << 26
"""Values that a plan holds, one slot each: 512 MiB of references."""
LONGEST_NS = 3_600_000_000_000
"""An hour: no recorded step takes as long."""

ANY_OVERLOAD = "*"
"""An overload that the runner finds among those on the list, by what it is given."""


def _read_list() -> dict[str, str]:
    """`aten::mm`, `aten::add.Tensor` → "calls" or "opens", as benchmarks/recorded_operators.py wrote them."""
    lines = Path(__file__).with_name("operators.txt").read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {overload: what for overload, what, *_ in rows}


_LISTED = _read_list()
ALLOWED = frozenset(_LISTED)
"""Operators that are called: those that recordings of real workloads contain. Others become stand-ins."""
COMPOSITE = frozenset(name for name, what in _LISTED.items() if what == "opens")
"""Operators that only call others. What they make inside is kept for the backward pass, so that a replay
calls what they called, where the recording has it."""
_NAMES = frozenset(name.partition(".")[0] for name in ALLOWED)

REFUSED = {
    "from_file": "opens a file",
    "save": "writes a file",
    "load": "reads a file",
    "set_data": "replaces a tensor's memory",
    "_test_serialization_subcmul": "is a test of PyTorch's own",
}
"""Operators whose presence in a trace is an attack or a mistake: the whole trace is refused."""


class ReplayError(Exception):
    """A plan cannot be run; the message is for people."""


def read_plan(path: Path) -> dict[str, Any]:
    """A plan file, checked."""
    if not path.is_file():  # a pipe would be waited for
        raise ReplayError(f"{path} is not a plan: no such file")
    try:
        most = min(_LARGEST, _MOST_TIMES * path.stat().st_size + _ROOM)
        with gzip.open(path) as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise ReplayError(f"{path} unpacks to more than {most:,} bytes, as no plan does")
        plan = json.loads(data)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise ReplayError(f"{path} is not a plan: {error}") from None
    if not isinstance(plan, dict) or plan.get("format") != FORMAT:
        raise ReplayError(f"{path} is not a plan of chakra replay")
    if plan.get("version") != VERSION:
        raise ReplayError(f"{path} has version {plan.get('version')}; this runner knows {VERSION}")
    with blamed(f"{path} is damaged"):
        _check_frame(plan)
        (check_emulation if "durations" in plan else check_plan)(plan)
    return plan


_FRAME = {"rank": int, "world": int, "device": str, "backend": str, "groups": list, "memory": dict}
"""What is looked at before the steps of a plan are."""


def _check_frame(plan: dict[str, Any]) -> None:
    for name, kind in _FRAME.items():
        if type(plan[name]) is not kind:
            raise ReplayError(f"{name} is {plan[name]!r}, and no {kind.__name__}")


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """What goes wrong because of a plan's content is a ReplayError; PyTorch's own are RuntimeErrors."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RuntimeError,
    ) as error:
        said = str(error).partition("\n")[0]
        raise ReplayError(f"{what}: {type(error).__name__}: {said}") from None


def check_plan(plan: dict[str, Any]) -> None:
    """Operators, slots and groups; raises a ReplayError that says which step is wrong."""
    slots, groups = int(plan["slots"]), plan["groups"]
    if not 0 <= slots <= _MOST_SLOTS:
        raise ReplayError(f"{slots:,} slots")
    _check_waits(plan["steps"])
    for i, step in enumerate(plan["steps"]):
        what = step["do"]
        if what not in _STEPS:
            raise ReplayError(f"step {i}: no such thing as {what!r}")
        if what == "call":
            check_operator(step, i)
            _check_slots([step["args"], step.get("kwargs", {})], slots, i)
        elif what == "collective":
            check_group(step, groups, f"step {i}")
        elif what == "kernel":
            check_kernel(step, plan.get("codes", {}), f"step {i}")
            _check_slots(step["args"], slots, i)
        _check_numbers(step, slots, i)


def _check_waits(steps: list[dict[str, Any]]) -> None:
    """An iteration's stand-ins and gaps end while somebody is still waiting for them."""
    times = [s.get(k, 0) for s in steps for k in ("host_ns", "device_ns", "gap_ns", "ns")]
    if min(times, default=0) < 0 or sum(times) > LONGEST_NS:
        raise ReplayError(f"an iteration that waits {sum(times) / 1e9:,.0f} s, or less than none")


def check_group(step: dict[str, Any], groups: list[dict[str, Any]], place: str) -> None:
    """A communication that there is, on a group that there is, from or to one of its members."""
    if step.get("reduce", "sum") not in REDUCTIONS:
        raise ReplayError(f"{place}: no reduction {step['reduce']!r}")
    if step["op"] not in WAYS or not 0 <= int(step["group"]) < len(groups):
        raise ReplayError(f"{place}: {step['op']!r} on group {step['group']}")
    members = len(groups[int(step["group"])]["ranks"])
    if not 0 <= int(step.get("root", 0)) < members:
        raise ReplayError(f"{place}: member {step['root']} of a group of {members}")


_MOST_BLOCKS, _MOST_THREADS, _MOST_SHARED = 2**31 - 1, 1024, 1 << 20
"""What a launch can ask for at most; a device may have less, and then says so."""


def check_kernel(step: dict[str, Any], codes: dict[str, Any], place: str) -> None:
    """A kernel whose code is in the plan, launched in a size that there is."""
    code = codes.get(step["code"])
    if code is None:
        raise ReplayError(f"{place}: no code {step['code']!r} in the plan")
    sizes = [*step["grid"], code["threads"]]
    if len(step["grid"]) != 3 or not all(type(n) is int and n > 0 for n in sizes):
        raise ReplayError(f"{place}: a launch of {sizes}")
    if max(step["grid"]) > _MOST_BLOCKS or code["threads"] > _MOST_THREADS:
        raise ReplayError(f"{place}: a launch of {sizes}")
    if type(code["shared"]) is not int or not 0 <= code["shared"] <= _MOST_SHARED:
        raise ReplayError(f"{place}: {code['shared']!r} bytes of shared memory")
    if not all(isinstance(a, dict) or type(a) in (int, float) for a in step["args"]):
        raise ReplayError(f"{place}: an argument that is neither a tensor nor a number")


def check_emulation(plan: dict[str, Any]) -> None:
    """Nodes, what they wait for, and communication."""
    nodes, groups = len(plan["durations"]), plan["groups"]
    if any(len(plan[column]) != nodes for column in ("release", "lanes", "waits")):
        raise ReplayError("the plan's columns differ in length")
    if min([*plan["durations"], *plan["release"]], default=0) < 0:
        raise ReplayError("a time below 0")
    for node, waits in enumerate(plan["waits"]):
        for cause, form, lag in waits:
            if not (0 <= int(cause) < nodes and form in (0, 1, 2) and int(lag) >= 0):
                raise ReplayError(f"node {node} waits for node {cause} in form {form}")
    for node, step in plan["communication"].items():
        if step["group"] != -1:
            check_group(step, groups, f"node {node}")
        sizes = [step.get(k, 0) for k in ("input", "output", "root")]
        sizes += [*step.get("in_splits", []), *step.get("out_splits", [])]
        if not 0 <= int(node) < nodes or min(sizes) < 0:
            raise ReplayError(f"node {node} communicates {min(sizes)} bytes")
    if sorted(plan["order"]) != sorted(map(int, plan["communication"])):
        raise ReplayError("the order of communication leaves some out")


def is_listed(name: str, overload: str) -> bool:
    """Whether an operator is one that a replay calls."""
    if overload == ANY_OVERLOAD:
        return name in _NAMES
    return (name if overload in ("", "default") else f"{name}.{overload}") in ALLOWED


def check_operator(step: dict[str, Any], number: int) -> None:
    """Only what is on the list is called."""
    name, overload = str(step["op"]), str(step["overload"])
    if name not in FUNCTIONAL and not is_listed(name, overload):
        raise ReplayError(
            f"step {number}: operator {f'{name}.{overload}'.rstrip('.')!r} is not one that a replay calls"
        )


def _check_slots(value: Any, slots: int, step: int) -> None:
    if isinstance(value, dict):
        if "slot" in value and not 0 <= int(value["slot"]) < slots:
            raise ReplayError(f"step {step}: no slot {value['slot']}")
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_slots(item, slots, step)


def _check_numbers(step: dict[str, Any], slots: int, i: int) -> None:
    named = [step[k] for k in ("base", "slot") if k in step]
    for key in ("free", "inputs", "outputs", "borrowed"):
        named += step.get(key, [])
    named += [m[0] for m in step.get("made", [])]
    if not all(type(n) is int and 0 <= n < slots for n in named):
        raise ReplayError(f"step {i}: a slot that is none of {slots}")
    causes = [*step.get("after", []), *step.get("needs", [])]
    if not all(type(n) is int and 0 <= n < i for n in causes):
        raise ReplayError(f"step {i} waits for one that comes later")


def check_memory(needed: int, available: int, where: str) -> None:
    """Refuse what does not fit, before anything is allocated."""
    if needed > available:
        raise ReplayError(
            f"the plan needs {needed / 2**30:,.1f} GiB on {where}, and {available / 2**30:,.1f} GiB "
            "are free; replay on a larger machine, or with --mode emulate or comm"
        )


def host_memory() -> int:
    """Bytes that can be had on the host without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
