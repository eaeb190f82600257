"""Compare the operators that a capture gives with those that a GPU ran, and the peak of memory.

    python captured_operators.py record FOLDER [NAME…]    on the GPU: one file per program
    python captured_operators.py capture FOLDER [NAME…]   with the same PyTorch, on any machine
    python captured_operators.py compare FOLDER           a line per program, and the operators that differ

Names, counts and shapes of operators with work for the device are compared, of the second step of each
program: what runs between the ends of the first and the second step of its optimizer.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAMS = HERE / "training_programs.py"


def key(name: str, shapes: Any) -> str:
    """An operator with the shapes of its tensors; numbers, absent tensors and single numbers have none."""
    return f"{name} {json.dumps(_filled(shapes), separators=(',', ':'))}"


def _filled(shapes: Any) -> Any:
    """Shapes without the empty ones, lists of tensors taken apart."""
    found: list[Any] = []
    for shape in shapes:
        if shape and isinstance(shape[0], list):
            found += [s for s in shape if s]
        elif shape:
            found.append(shape)
    return found


def record(folder: Path, name: str) -> None:
    """Run a program on this machine's GPU and write what its second step did."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(folder / f"{name}.et.json"))
    ends = 0
    result: dict[str, Any] = {"torch": torch.__version__}

    def at_end(*_: Any) -> None:
        nonlocal ends
        ends += 1
        if ends == 1:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            observer.start()
        elif ends == 2:
            torch.cuda.synchronize()
            observer.stop()
            result["peak_bytes"] = torch.cuda.max_memory_allocated()

    register_optimizer_step_post_hook(at_end)
    sys.argv = [str(PROGRAMS), name]
    runpy.run_path(str(PROGRAMS), run_name="__main__")
    observer.unregister_callback()
    nodes = json.loads((folder / f"{name}.et.json").read_text())["nodes"]
    result["operators"] = Counter(_dispatched(nodes))
    (folder / f"{name}.recorded.json").write_text(json.dumps(result))


def _dispatched(nodes: list[Any]) -> list[str]:
    """Operators below autograd: those that consist of others by definition give way to what they call."""
    found: list[str] = []
    inside: set[int] = set()
    for node in sorted(nodes, key=lambda n: n["id"]):  # callers before what they call
        if node["ctrl_deps"] in inside:
            inside.add(node["id"])
        elif _is_dispatched(node["name"]):
            inside.add(node["id"])
            if _works_on_the_device(node):
                found.append(key(node["name"], node["inputs"]["shapes"]))
    return found


def _works_on_the_device(node: Any) -> bool:
    from chakrakit.operators.names import ALLOCATIONS, QUESTIONS, VIEWS

    touched = json.dumps([node["inputs"]["values"], node["outputs"]["values"]])
    name = node["name"].removeprefix("aten::")
    return "cuda" in touched and name not in ALLOCATIONS | QUESTIONS | VIEWS


def _is_dispatched(name: str) -> bool:
    """Whether an event is an operator that devices have kernels for."""
    import torch

    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space), operator, None) if operator.isidentifier() else None
    names = [getattr(packet, overload)._schema for overload in packet.overloads()] if packet else []
    full = [f"{s.name}.{s.overload_name}".removesuffix(".") for s in names]
    return packet is not None and not any(
        torch._C._dispatch_has_kernel_for_dispatch_key(text, "CompositeImplicitAutograd")
        for text in full
        if torch._C._dispatch_has_kernel(text)
    )


def capture(folder: Path, name: str) -> None:
    """Capture a program and write the same of it."""
    import chakrakit as ck
    from chakrakit.sources.capture import capture_command

    report = capture_command(
        ["python", str(PROGRAMS), name], str(folder / f"{name}.captured"), ranks=1, device="h200"
    )
    nodes = ck.read(folder / f"{name}.captured").trace(0).nodes
    operators = Counter(
        key(node["name"], json.loads(node["inputs_shapes"] or "[]"))
        for node in nodes.select(["name", "inputs_shapes", "is_cpu_op"]).to_pylist()
        if "::" in node["name"] and not node["is_cpu_op"]
    )
    result = {
        "peak_bytes": report.kinds[0].peak_bytes,
        "operators": operators,
        "warnings": report.warnings,
    }
    (folder / f"{name}.captured.json").write_text(json.dumps(result))


def compare(folder: Path) -> int:
    """Print what differs; how many programs do."""
    differing = 0
    for path in sorted(folder.glob("*.recorded.json")):
        name = path.name.partition(".")[0]
        recorded = json.loads(path.read_text())
        other = folder / f"{name}.captured.json"
        if not other.exists():
            print(f"{name}: not captured")
            differing += 1
            continue
        captured = json.loads(other.read_text())
        before, after = Counter(recorded["operators"]), Counter(captured["operators"])
        missing, more = before - after, after - before
        peak = captured["peak_bytes"] / recorded["peak_bytes"] - 1
        print(
            f"{name}: {before.total()} operators recorded, {after.total()} captured, "
            f"{missing.total()} missing, {more.total()} more; "
            f"peak {recorded['peak_bytes'] / 2**20:,.1f} MiB recorded, {peak:+.2%}"
        )
        differing += bool(missing or more)
        for sign, rows in (("-", missing), ("+", more)):
            for text, count in sorted(rows.items())[:25]:
                print(f"   {sign} {count} {text[:200]}")
    return differing


def main(task: str, folder: Path, names: list[str]) -> int:
    """Do a task for each program in a process of its own."""
    if task == "compare":
        return compare(folder)
    if task.startswith("one-"):
        {"one-record": record, "one-capture": capture}[task](folder, names[0])
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(HERE))
    from training_programs import PROGRAMS as EVERY_PROGRAM

    def run(name: str) -> int:
        command = [sys.executable, __file__, f"one-{task}", str(folder), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{name}: {'ok' if not done.returncode else done.stderr[-3000:]}", flush=True)
        return done.returncode

    workers = 1 if task == "record" else max(1, (os.cpu_count() or 1) // 2)
    with ThreadPoolExecutor(workers) as pool:
        return sum(bool(code) for code in pool.map(run, names or EVERY_PROGRAM))


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])))
