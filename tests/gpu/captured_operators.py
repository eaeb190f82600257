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
    (folder / f"{name}.recorded.json").write_text(json.dumps(result))


def _dispatched(nodes: list[Any]) -> list[str]:
    """Operators below autograd: those that consist of others by definition give way to what they call."""
    found: list[str] = []
    inside: set[int] = set()
    by_id = {node["id"]: node for node in nodes}
    wrappers = {
        node["ctrl_deps"]
        for node in nodes
        if _schema(node) and _called(node) == _called(by_id.get(node["ctrl_deps"], {}))
    }  # autocasting calls the operator again, with other tensors
    for node in sorted(nodes, key=lambda n: n["id"]):  # callers before what they call
        if node["ctrl_deps"] in inside:
            inside.add(node["id"])
        elif node["id"] not in wrappers and _is_dispatched(node):
            inside.add(node["id"])
            if _works_on_the_device(node):
                found.append(key(node["name"], node["inputs"]["shapes"]))
    return found


def _works_on_the_device(node: Any) -> bool:
    from chakrakit.operators.names import ALLOCATIONS, QUESTIONS, VIEWS

    touched = json.dumps([node["inputs"]["values"], node["outputs"]["values"]])
    name = node["name"].removeprefix("aten::")
    made = [shape for shape in node["outputs"]["shapes"] if isinstance(shape, list)]
    empty = bool(made) and all(0 in shape for shape in made)
    return "cuda" in touched and not empty and name not in ALLOCATIONS | QUESTIONS | VIEWS


def _is_dispatched(node: Any) -> bool:
    """Whether a node is an operator that devices have kernels for."""
    import torch

    name = _schema(node).partition("(")[0]
    if "::" not in name or not torch._C._dispatch_has_kernel(name):
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    own = has_kernel(name, "CPU") or has_kernel(name, "CUDA")
    return own or not has_kernel(name, "CompositeImplicitAutograd")


def _called(node: Any) -> tuple[str, list[Any]]:
    """The overload that was called, and with which numbers."""
    values = node.get("inputs", {}).get("values", [])
    return _schema(node), [v for v in values if not _has_tensors(v)]


def _has_tensors(value: Any) -> bool:
    """Whether a recorded value is a tensor, which ends in its device, or a list of some."""
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[-1], str) or any(map(_has_tensors, value))


def _schema(node: Any) -> str:
    """What the observer says of the overload that was called; "" for what is no operator."""
    return next((str(a["value"]) for a in node.get("attrs", []) if a["name"] == "op_schema"), "")


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
        for node in nodes.select(
            ["name", "inputs_shapes", "outputs_shapes", "is_cpu_op"]
        ).to_pylist()
        if "::" in node["name"] and not node["is_cpu_op"] and not _is_empty(node["outputs_shapes"])
    )
    result = {
        "peak_bytes": report.kinds[0].peak_bytes,
        "operators": operators,
        "warnings": report.warnings,
    }
    (folder / f"{name}.captured.json").write_text(json.dumps(result))


def _is_empty(shapes: str) -> bool:
    made = [shape for shape in json.loads(shapes or "[]") if isinstance(shape, list)]
    return bool(made) and all(0 in shape for shape in made)


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
        nodes = json.loads((folder / f"{name}.et.json").read_text())["nodes"]
        before, after = Counter(_dispatched(nodes)), Counter(captured["operators"])
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
